// SPDX-License-Identifier: Apache-2.0
// The list of cases with its filters, the environment, the theme. Runs after page.js and uses its helpers.
// Invariant: `view` alone decides what is listed; controls and address follow it.

const EMPTY = {text: "", level: "", verdicts: [], op: null, dtype: null};
let view = {...EMPTY};

const told = c => [c.name, c.op, c.dtype, c.finding.tag, ...reasons(c)].join("\n").toLowerCase();
const rows = report.cases.map(c => ({c, text: told(c), tr: null}));

function shown({c, text}) {
  return text.includes(view.text.toLowerCase()) && (view.level === "" || String(c.level) === view.level) &&
    (!view.verdicts.length || view.verdicts.includes(c.verdict)) &&
    (view.op === null || (c.op === view.op && c.dtype === view.dtype));
}

function row(c) {
  const why = reasons(c), round = c.round > 0 ? ` (round ${c.round})` : "";
  const tags = c.op ? [h("span", {class: "tag"}, [c.op, c.dtype].filter(part => part).join(" · ")), " "] : [];
  return h("tr", {class: slug(c.verdict), title: why.join("\n") || null},
    h("td", {}, glyph(c.verdict), h("span", {class: "word"}, ` ${c.verdict}`)),
    h("td", {}, `${c.name}${round} `, tags, copyButton(c.again, c.name, "copy"),
      why.map(text => h("div", {class: "why"}, text))),
    h("td", {class: "number"}, duration(c.milliseconds)));
}

function list() {
  const body = $("list").tBodies[0], found = rows.filter(shown);
  body.replaceChildren(...found.map(r => r.tr ??= row(r.c)));
  if (!found.length) body.append(h("tr", {}, h("td", {colspan: 3, class: "empty"}, "No case is like that.")));
  const only = view.op === null ? "" : ` of ${view.op}${view.dtype ? `, ${view.dtype}` : ""}`;
  $("count").textContent = `${found.length} of ${plural(rows.length, "case")}${only}`;
  $("reset").hidden = found.length === rows.length;
}

function show() {
  $("text").value = view.text;
  $("level").value = view.level;
  for (const chip of $("verdicts").querySelectorAll("button")) {
    chip.setAttribute("aria-pressed", String(view.verdicts.includes(chip.dataset.verdict)));
  }
  const address = new URLSearchParams();
  for (const key of ["text", "level", "op", "dtype"]) if (view[key]) address.set(key, view[key]);
  if (view.verdicts.length) address.set("verdicts", view.verdicts.join(","));
  const hash = address.toString();
  try { history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search); } catch { /* sandboxed */ }
  list();
}

// Lists the cases of one cell of a matrix. Called from page.js.
function choose(choice) {
  view = {...EMPTY, ...choice};
  show();
  $("cases").scrollIntoView({behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
  $("cases").focus({preventScroll: true});
}

function fromAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  const get = key => address.get(key) ?? "", op = address.get("op");
  return {text: get("text"), level: get("level"), op, dtype: op === null ? null : get("dtype"),
          verdicts: get("verdicts").split(",").filter(v => RANK.includes(v))};
}

function drawFilters() {
  const levels = [...new Set(report.cases.map(c => c.level))].sort();
  const options = levels.map(l => h("option", {value: l}, `${l}, ${LEVELS[l] ?? ""}`));
  $("level").append(h("option", {value: ""}, "all"), ...options);
  const toggle = event => {
    const verdict = event.currentTarget.dataset.verdict;
    const others = view.verdicts.filter(v => v !== verdict);
    view = {...view, verdicts: others.length < view.verdicts.length ? others : [...others, verdict]};
    show();
  };
  $("verdicts").append(...RANK.filter(v => report.verdicts[v]).map(v =>
    h("button", {type: "button", class: slug(v), "data-verdict": v, "aria-pressed": "false", onclick: toggle},
      glyph(v), ` ${v} ${report.verdicts[v]}`)));
  $("text").addEventListener("input", event => { view = {...view, text: event.target.value}; show(); });
  $("level").addEventListener("change", event => { view = {...view, level: event.target.value}; show(); });
  $("filters").addEventListener("submit", event => event.preventDefault());
  $("filters").addEventListener("reset", event => { event.preventDefault(); view = {...EMPTY}; show(); });
  addEventListener("hashchange", () => { view = fromAddress(); show(); });
}

function definitions(pairs) {
  const told = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return h("dl", {}, told.flatMap(([key, value]) => [h("dt", {}, key), h("dd", {}, String(value))]));
}

function deviceFacts(d) {
  return [["device", `${report.device}: ${d.name}`], ["id", d.id], ["driver", d.driver],
          ["memory", `${(d.memory_bytes / 2 ** 30).toFixed(1)} GiB`], ["compute units", d.compute_units || ""]];
}

function functionTable(functions) {
  const absent = functions.filter(f => !f.native);
  return h("details", {}, h("summary", {}, `Functions: ${functions.length - absent.length} native, ${absent.length} absent`),
    definitions(functions.map(f => [`${f.table}.${f.function}`, f.native ? "native" : `absent: ${f.otherwise}`])));
}

function drawEnvironment() {
  const p = report.plugin, body = $("environment").querySelector(".body");
  const device = p && p.devices[report.device];
  body.append(h("h3", {}, "Plugin"), definitions([
    ["name", p ? `${p.name} ${p.version}` : ""], ["vendor", p && p.vendor], ["ABI", p && p.abi],
    ["library", report.library], ["sha256", report.digest],
    ["capabilities", report.capabilities || "nothing declared by the vendor"],
    ["sha256 of capabilities", report.capabilities_digest],
    ["determinism", report.capabilities ? report.determinism : ""], ["features", p ? p.features.join(", ") || "none" : ""],
    ["extensions", p ? p.extensions.join(", ") || "none" : ""],
    ["options", Object.entries(report.options).map(([key, value]) => `${key}=${value}`).join(", ") || "none"],
    ...(device ? deviceFacts(device) : [])]));
  if (p) body.append(functionTable(p.functions));
  body.append(h("h3", {}, "Run"), definitions([
    ["began", report.began], ["took", `${report.seconds.toFixed(1)} s`], ["seed", report.seed],
    ["rounds", report.round ? `${report.repeat} from ${report.round}` : report.repeat],
    ["sizes", report.quick ? "quick" : "full"],
    ["cases", report.sample > 1 ? `one in ${report.sample} above level 0` : "all that were selected"], ["level", report.level < 0 ? "all" : report.level],
    ["filters", report.filters.join(", ")]]));
  body.append(h("h3", {}, "Machine"), definitions(Object.entries(report.environment)));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const stored = () => { try { return localStorage.getItem("tenon-theme"); } catch { return null; } };
let theme = stored() ?? "auto";

function paint() {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  $("theme").textContent = `theme: ${theme}`;
}

dark.addEventListener("change", paint);
$("theme").addEventListener("click", () => {
  theme = {auto: "light", light: "dark", dark: "auto"}[theme];
  try { localStorage.setItem("tenon-theme", theme); } catch { /* it lasts as long as the page */ }
  paint();
});

paint();
drawHead();
drawFailures();
drawSupport();
drawGaps();
drawPerformance();
drawFilters();
drawEnvironment();
view = fromAddress();
show();
