// SPDX-License-Identifier: Apache-2.0
// Draws the report that lies in #report. Invariant: whatever a plugin wrote reaches the page as text, never as markup;
// the filters live in the address, so a view can be sent to somebody else.
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const VERDICTS = {  // from worst to best: the order of everything on the page
  "failed": "✕", "not run": "∅", "unexplained": "?", "unexpected pass": "!", "expected failure": "△",
  "unsupported": "○", "skipped": "–", "passed": "✓"};
const RANK = Object.keys(VERDICTS);
const LEVELS = ["memory and streams", "ops", "fused fragments", "collectives", "whole graphs and capture"];
const DTYPES = ["bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"];

const $ = id => document.getElementById(id);
const slug = verdict => verdict.replace(" ", "-");
const plural = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;
const groupOf = c => c.name.split(":")[0];
const rankOf = c => RANK.indexOf(c.verdict);

// An element with attributes and children; a string is text, null is nothing.
function h(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) out.setAttribute(key, value === true ? "" : value);
  }
  out.append(...children.flat().filter(child => child !== null));
  return out;
}

function duration(ms) {
  if (ms < 0.1) return "<0.1 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// Three digits that count, as the text report has them.
function digits(value) {
  const whole = value > 0 ? Math.floor(Math.log10(value)) + 1 : 3;
  return value.toFixed(Math.min(6, Math.max(0, 3 - whole)));
}

// What there is to say about a case, in sentences; the same on hover and in text.
function reasons(c) {
  const out = [...c.finding.failures, ...c.finding.warnings.map(w => `warning: ${w}`)];
  if (c.finding.eased) out.push(c.finding.eased);
  if (c.finding.reason) out.push(c.finding.reason);
  if (c.declared) out.push(`declared: ${c.declared}${c.expires ? ` (until ${c.expires})` : ""}`);
  return out;
}

function glyph(verdict) {
  return h("span", {class: `glyph ${slug(verdict)}`, "aria-hidden": "true"}, VERDICTS[verdict]);
}

// Cases by a key, in the order in which the keys come up.
function grouped(list, key) {
  const out = new Map();
  for (const item of list) {
    const k = key(item);
    if (!out.has(k)) out.set(k, []);
    out.get(k).push(item);
  }
  return out;
}

const worst = list => list.reduce((a, b) => rankOf(b) < rankOf(a) ? b : a);

// "3 passed, 1 failed"
function tally(list) {
  const counts = grouped(list, c => c.verdict);
  return RANK.filter(v => counts.has(v)).map(v => `${counts.get(v).length} ${v}`).join(", ");
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // an old browser, or a page that may not use the clipboard
    const area = h("textarea", {class: "hidden", readonly: true});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  $("said").textContent = "The line was copied.";
  setTimeout(() => { button.textContent = before; $("said").textContent = ""; }, 1200);
}

function copyButton(text, label, more = "") {
  return h("button", {type: "button", class: `quiet ${more}`, title: text,
                      "aria-label": `Copy the line that repeats ${label}`,
                      onclick: event => copy(text, event.currentTarget)}, "copy");
}

function again(c) {
  return h("div", {class: "again"}, h("code", {}, c.again), copyButton(c.again, c.name));
}

function drawHead() {
  const p = report.plugin, device = p && p.devices[report.device];
  const name = p ? `${p.name} ${p.version}` : report.library.split("/").pop();
  document.title = `${name}: ${report.passed ? "conforms" : "does not conform"}`;
  $("title").textContent = name;
  $("byline").textContent = p ? `${p.vendor} · ABI ${p.abi}${device ? ` · ${device.name}` : ""}` : report.trouble;
  const how = [`${report.executed} of ${plural(report.cases.length, "case")} executed`, `${report.seconds.toFixed(1)} s`,
               `seed ${report.seed}`, report.quick ? "quick" : null,
               report.sample > 1 ? `a sample, one in ${report.sample}` : null, report.verify ? "verify" : null,
               report.repeat > 1 ? plural(report.repeat, "round") : null,
               report.resumed ? `${report.resumed} resumed` : null, report.began];
  $("verdict").append(
    h("strong", {class: report.passed ? "passed" : "failed"}, report.passed ? "✓ Conforms" : "✕ Does not conform"),
    h("span", {class: "muted"}, how.filter(part => part).join(" · ")));
  const counts = [...RANK].reverse().filter(v => report.verdicts[v]);
  $("proportion").setAttribute("aria-label", counts.map(v => `${report.verdicts[v]} ${v}`).join(", "));
  for (const verdict of counts) {
    const count = report.verdicts[verdict];
    $("proportion").append(h("span", {class: slug(verdict), style: `flex: ${count}`, title: `${count} ${verdict}`}));
    $("legend").append(h("li", {}, glyph(verdict), ` ${count} ${verdict}`));
  }
}

const TOLD = 20;  // failures told at length; the list below has them all

function failureCard(c) {
  const story = reasons(c);
  const round = c.round > 0 ? ` (round ${c.round})` : "";
  return h("article", {class: `card ${slug(c.verdict)}`},
    h("h3", {}, glyph(c.verdict), ` ${c.name}${round}`, h("span", {class: "hidden"}, `, ${c.verdict}`)),
    story.length ? h("ul", {class: "story"}, story.map(s => h("li", {}, s))) : null,
    c.output ? h("details", {}, h("summary", {}, "What it wrote to standard error"),
                 h("pre", {tabindex: 0}, c.output)) : null,
    c.verdict === "not run" ? null : again(c));
}

function drawFailures() {
  const all = report.cases.filter(c => c.fails), lost = all.filter(c => c.verdict === "not run");
  const failing = all.filter(c => c.verdict !== "not run"), body = $("failures").querySelector(".body");
  body.append(...failing.slice(0, TOLD).map(failureCard));
  if (failing.length > TOLD) {
    const rest = `${plural(failing.length - TOLD, "more failing case")}: list all ${failing.length}`;
    body.append(h("p", {class: "card failed"}, h("button", {type: "button", class: "quiet",
      onclick: () => choose({verdicts: [...new Set(failing.map(c => c.verdict))]})}, rest)));
  }
  if (lost.length) {
    body.append(h("p", {class: "card failed"}, `${plural(lost.length, "case")} not run: ${report.trouble}`));
  }
  if (report.executed === 0) body.append(h("p", {class: "card failed"}, "No case was executed, which is a failure."));
  if (report.verify) body.append(...report.complaints.map(text => h("p", {class: "card failed"}, text)));
  $("failures").hidden = body.childElementCount === 0;
}

function cell(list, where, choice) {
  if (!list) return h("td");
  const verdict = worst(list).verdict, alike = list.filter(c => c.verdict === verdict).length;
  const count = alike === list.length ? alike : `${alike}/${list.length}`;
  const why = [...new Set(list.filter(c => c.verdict === verdict).flatMap(reasons))].slice(0, 4);
  const say = [`${where}: ${tally(list)}`, ...why].join("\n");
  return h("td", {}, h("button", {type: "button", class: `cell ${slug(verdict)}`, title: say, "aria-label": say,
                                  onclick: () => choose(choice)},
                       glyph(verdict), h("span", {class: "many"}, ` ${count}`)));
}

// rows and columns: [key, title]; the cases of (row, column) come from `find`.
function matrix(title, corner, rows, columns, find, choice) {
  return h("div", {class: "frame", tabindex: 0, role: "region", "aria-label": title},
    h("table", {class: "matrix"}, h("caption", {}, title),
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, corner),
        columns.map(([, name]) => h("th", {scope: "col"}, name)))),
      h("tbody", {}, rows.map(([row, name]) => h("tr", {}, h("th", {scope: "row", title: name}, name),
        columns.map(([column, label]) => cell(find(row, column), `${name}, ${label}`, choice(row, column))))))));
}

function byGroup(list) {
  const table = grouped(list, c => `${groupOf(c)}\n${c.level}`);
  const levels = [...new Set(list.map(c => c.level))].sort();
  const groups = [...new Set(list.map(groupOf))].sort();
  return matrix("Groups", "group", groups.map(g => [g, g]), levels.map(l => [l, `level ${l}`]),
                (group, level) => table.get(`${group}\n${level}`),
                (group, level) => ({text: `${group}:`, level: String(level)}));
}

function byOp(list, level) {
  const table = grouped(list, c => `${c.op}\n${c.dtype}`);
  const known = d => (DTYPES.indexOf(d) + 1) || (d ? 90 : 99);
  const dtypes = [...new Set(list.map(c => c.dtype))].sort((a, b) => known(a) - known(b) || a.localeCompare(b));
  const ops = [...new Set(list.map(c => c.op))];
  return matrix(`Level ${level}: ${LEVELS[level] ?? "more"}`, "op by dtype", ops.map(o => [o, o]),
                dtypes.map(d => [d, d || "any"]), (op, dtype) => table.get(`${op}\n${dtype}`),
                (op, dtype) => ({op, dtype, level: String(level)}));
}

function drawSupport() {
  const body = $("support").querySelector(".body");
  const plain = report.cases.filter(c => !c.op), ops = report.cases.filter(c => c.op);
  const parts = plain.length ? [byGroup(plain)] : [];
  for (const [level, list] of grouped(ops, c => c.level)) parts.push(byOp(list, level));
  body.append(...parts);
}

function gapRow(gap) {
  return [
    h("dt", {}, glyph(gap.explained ? "unsupported" : "unexplained"), ` ${gap.kinds.join(", ")} `,
      h("span", {class: "tag"}, plural(gap.cases, "case"))),
    h("dd", {}, gap.reason,
      gap.explained ? null : h("div", {class: "muted"}, "Unexplained: say why in capabilities.toml: ",
        h("code", {}, `[[unsupported]] match = "${gap.kinds[0]}" reason = "…", and expires = a date or permanent = true`)),
      gap.tags.length > gap.kinds.length
        ? h("details", {}, h("summary", {}, plural(gap.tags.length, "tag")), gap.tags.join(", ")) : null)];
}

function toleranceRow(t) {
  const use = t.expired ? "past its date" : `needed by ${t.needed} of ${plural(t.cases, "case")}`;
  return [h("dt", {}, `${t.op} in ${t.dtype}: ${t.allows} `, h("span", {class: "tag"}, use)),
          h("dd", {}, `${t.reason} (until ${t.expires})`)];
}

// Unsupported and expected failures are never one list: the first may stay, the second has to go.
function drawGaps() {
  const body = $("gaps").querySelector(".body");
  if (report.gaps.length) {
    body.append(h("h3", {}, "Not offered by the plugin"), h("dl", {}, report.gaps.flatMap(gapRow)));
  }
  const failures = report.cases.filter(c => c.verdict === "expected failure");
  const expected = grouped(failures, c => `until ${c.expires}\n${c.declared}`);
  if (expected.size) body.append(h("h3", {}, "Expected failures"), h("dl", {}, [...expected].flatMap(([key, list]) => {
    const [until, why] = key.split("\n");
    return [h("dt", {}, glyph("expected failure"), ` ${until}`),
            h("dd", {}, why, h("ul", {}, list.map(c => h("li", {}, c.name))))];
  })));
  if (report.tolerances.length) {
    body.append(h("h3", {}, "Tolerances, set by the vendor"), h("dl", {}, report.tolerances.flatMap(toleranceRow)));
  }
  if (report.remarks.length) body.append(h("h3", {}, "Declarations to look at"),
    h("ul", {}, report.remarks.map(text => h("li", {}, text))));
  if (report.complaints.length && !report.verify) body.append(h("h3", {}, "Declarations that do not hold"),
    h("ul", {}, report.complaints.map(text => h("li", {}, text))));
  $("gaps").hidden = body.childElementCount === 0;
}

const FIGURES = {call: "What a call costs its thread", latency: "Latency", copy: "Copies", kernel: "Kernels"};

function figureRow(f) {
  const range = f.samples ? `${digits(f.low)} … ${digits(f.high)}, ±${digits(f.spread_percent)} %, ${f.samples} samples`
    : `not measured: ${f.trouble}`;
  const share = f.percent ? h("td", {class: "share", title: `of ${f.ceiling}`},
    `${Math.round(f.percent)} %`, h("span", {class: "of why"}, ` of ${f.ceiling}`),
    h("div", {class: "bar", "aria-hidden": "true"}, h("i", {style: `width: ${Math.min(100, f.percent)}%`}))) : h("td");
  return h("tr", {}, h("th", {scope: "row"}, f.name, h("div", {class: "why"}, range)),
    h("td", {class: "number"}, f.samples ? `${digits(f.median)} ${f.unit}` : "–"), share);
}

function drawPerformance() {
  if (!report.performance) return;
  const body = $("performance").querySelector(".body");
  if (report.performance.remark) body.append(h("p", {class: "note"}, report.performance.remark));
  const groups = [...grouped(report.performance.figures, f => f.group)];
  body.append(h("table", {class: "figures"}, h("caption", {class: "hidden"}, "Measured quantities"),
    h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "10th … 90th percentile, ± deviation"),
      h("th", {scope: "col", class: "number"}, "Median"), h("th", {scope: "col"}, "Of ceiling"))),
    groups.map(([group, list]) => h("tbody", {},
      h("tr", {}, h("th", {scope: "rowgroup", colspan: 3, class: "group"}, FIGURES[group] ?? group)),
      list.map(figureRow)))));
  $("performance").hidden = false;
}
