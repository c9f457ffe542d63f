// SPDX-License-Identifier: Apache-2.0
// What is around the lanes: tables, legend, theme, mouse and keyboard. Invariant: whatever a trace holds reaches the page as
// text, never as markup.
"use strict";

// An element with attributes and children; a string is text, null is nothing.
function h(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.append(...children.flat().filter(child => child !== null));
  return out;
}
const percent = share => `${(100 * share).toFixed(1)} %`;

function table(caption, head, lines) {
  return h("div", {class: "frame", tabindex: 0, role: "region", "aria-label": caption},
    h("table", {}, h("caption", {class: "hidden"}, caption),
      h("thead", {}, h("tr", {}, head.map(cell => h("th", {scope: "col"}, cell)))), h("tbody", {}, lines)));
}

function totalsLine(who, t) {
  return h("tr", {class: who === "all" ? "all" : ""}, h("th", {scope: "row"}, who),
    [time(t.wall), time(t.compute), time(t.communication), time(t.exposed), t.communication ? percent(t.overlap) : "–",
     time(t.copy), time(t.wait), percent(t.busy)].map(cell => h("td", {}, cell)));
}

// A run among others: its sums over all ranks.
function runLine(run) {
  const t = run.all;
  return h("tr", {}, h("th", {scope: "row"}, run.name),
    [time(t.wall), time(t.compute), time(t.communication), time(t.exposed), t.communication ? percent(t.overlap) : "–",
     percent(t.busy)].map(cell => h("td", {}, cell)));
}

function bucketLine(who, b) {
  const share = b.predicted ? b.median / b.predicted : 0;
  return h("tr", {}, h("th", {scope: "row"}, who),
    [bytes(b.bytes), String(b.count), b.predicted ? time(b.predicted) : "–", time(b.median)].map(cell => h("td", {}, cell)),
    h("td", {}, share ? percent(share) : "–", share ? h("span", {class: "ratio", "aria-hidden": "true"},
      h("i", {style: `width: ${Math.min(100, 50 * share)}%`})) : null),
    h("td", {}, `${time(b.least)} … ${time(b.most)}`), h("td", {}, b.name));
}

function drawWords() {
  const runs = trace.runs, ranks = Math.max(0, ...runs.map(run => run.ranks.length));
  const count = trace.lanes.reduce((sum, lane) => sum + lane.count, 0), of = run => several ? `${run.name}: ` : "";
  document.title = `Timeline: ${several ? runs.map(run => run.name).join(", ") : trace.files.join(", ")}`;
  $("title").textContent = several ? `${runs.length} runs` : trace.files.length === 1 ? trace.files[0] : `${trace.files.length} files`;
  $("byline").textContent = [`${ranks} rank${ranks === 1 ? "" : "s"}`, `${trace.lanes.length} lanes`, `${count} events`, time(whole.to),
                             !several && runs[0].all.communication ? `${percent(runs[0].all.overlap)} of communication hidden` : null]
    .filter(part => part).join(" · ");
  const used = new Set(trace.lanes.flatMap(lane => lane.kinds));
  $("legend").append(...KINDS.filter((_, i) => used.has(i)).concat(runs.some(run => run.all.exposed) ? ["exposed"] : []).map(kind =>
    h("li", {}, h("span", {class: `swatch ${kind}`, style: `background: var(--${kind})`}),
      kind === "exposed" ? "exposed communication" : kind)));
  if (several) {
    $("runs").querySelector(".body").append(table("Totals of each run",
      ["Run", "Wall", "Compute", "Communication", "Exposed", "Overlap", "Busy"], runs.map(runLine)));
    $("runs").hidden = false;
  }
  $("totals").querySelector(".body").append(table("Totals of each rank",
    ["Rank", "Wall", "Compute", "Communication", "Exposed", "Overlap", "Copies", "Waits", "Busy"],
    runs.flatMap(run => run.ranks.map(t => totalsLine(of(run) + t.rank, t))
      .concat(run.ranks.length > 1 && !several ? [totalsLine("all", run.all)] : []))));
  const buckets = runs.flatMap(run => run.buckets.map(b => bucketLine(of(run) + b.bucket, b)));
  if (buckets.length) {
    $("buckets").querySelector(".body").append(table("Predicted and actual time of each bucket",
      ["Bucket", "Bytes", "Times", "Predicted", "Actual", "Of predicted", "Least … most", "Collective"], buckets));
    $("buckets").hidden = false;
  }
  const notes = runs.flatMap(run => run.notes.map(note => h("p", {class: "note"}, of(run) + note)));
  $("notes").querySelector(".body").append(...notes);
  $("notes").hidden = notes.length === 0;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const stored = () => { try { return localStorage.getItem("tenon-theme"); } catch { return null; } };
let theme = stored() ?? "auto";

function paint() {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  $("theme").textContent = `theme: ${theme}`;
  const style = getComputedStyle(document.documentElement);
  for (const name of ["surface", "row", "text", "muted", "ink", "exposed", "sans", ...KINDS])
    colours[name] = style.getPropertyValue(`--${name}`).trim();
}

function choose(e) {
  chosen = e;
  if (e) laneChosen = trace.lanes.indexOf(e.lane);
  $("chosen").textContent = e ? words(e).join(" · ") : "No event is chosen.";
  ask();
}

// Chooses the next or the previous event of the lane, and brings it into view.
function step(by) {
  const lane = trace.lanes[laneChosen];
  if (!lane || lane.count === 0) return;
  const from = chosen && chosen.lane === lane ? chosen.i + by : Math.min(firstAfter(lane, view.from), lane.count - 1);
  choose(event(lane, Math.min(Math.max(from, 0), lane.count - 1)));
  const half = (view.to - view.from) / 2;
  if (chosen.begin < view.from || chosen.begin + chosen.length > view.to) show(chosen.begin - half, chosen.begin + half);
}

function toLane(by) {
  laneChosen = Math.min(Math.max(laneChosen + by, 0), trace.lanes.length - 1);
  const lane = trace.lanes[laneChosen];
  if (lane && lane.count) choose(event(lane, Math.min(firstAfter(lane, view.from), lane.count - 1)));
}

const KEYS = {ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.6), "=": () => zoom(0.6),
              "-": () => zoom(1 / 0.6), "0": () => show(whole.from, whole.to), n: () => step(1), p: () => step(-1),
              ArrowDown: () => toLane(1), ArrowUp: () => toLane(-1), Escape: () => choose(null)};

function tip(e, px, py) {
  const box = $("tip");
  box.hidden = !e;
  if (!e) return;
  box.textContent = words(e).join("\n");
  box.style.left = `${Math.max(4, Math.min(px + 14, size.width - box.offsetWidth - 6))}px`;
  box.style.top = `${Math.max(4, Math.min(py + 14, size.height - box.offsetHeight - 6))}px`;
}

let drag = null;  // {x, from, to, moved}
canvas.addEventListener("pointerdown", e => {
  drag = {x: e.offsetX, from: view.from, to: view.to, moved: false};
  tip(null);
  try { canvas.setPointerCapture(e.pointerId); } catch { /* the pointer is gone already */ }
});
canvas.addEventListener("pointermove", e => {
  if (!drag) return tip(at(e.offsetX, e.offsetY), e.offsetX, e.offsetY);
  const by = (drag.x - e.offsetX) / scale();
  drag.moved ||= Math.abs(e.offsetX - drag.x) > 3;
  show(drag.from + by, drag.to + by);
});
canvas.addEventListener("pointerup", e => {
  if (drag && !drag.moved) choose(at(e.offsetX, e.offsetY));
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", () => tip(null));
canvas.addEventListener("dblclick", e => zoom(0.4, when(e.offsetX)));
canvas.addEventListener("wheel", e => {
  const aside = e.shiftKey ? e.deltaY : e.deltaX;
  if (!e.ctrlKey && !aside) return;  // the page scrolls
  e.preventDefault();
  if (e.ctrlKey) zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 200))), when(e.offsetX));
  else move(aside / size.width);
}, {passive: false});
canvas.addEventListener("keydown", e => {
  const act = e.ctrlKey || e.altKey || e.metaKey ? undefined : KEYS[e.key];
  if (!act) return;
  e.preventDefault();
  act();
});
$("closer").addEventListener("click", () => zoom(0.6));
$("farther").addEventListener("click", () => zoom(1 / 0.6));
$("whole").addEventListener("click", () => show(whole.from, whole.to));
$("theme").addEventListener("click", () => {
  theme = {auto: "light", light: "dark", dark: "auto"}[theme];
  try { localStorage.setItem("tenon-theme", theme); } catch { /* it lasts as long as the page */ }
  paint();
  ask();
});
dark.addEventListener("change", () => { paint(); ask(); });
addEventListener("resize", resize);

paint();
drawWords();
resize();
document.documentElement.dataset.ready = performance.now().toFixed(1);  // ms since the page was asked for
