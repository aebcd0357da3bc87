"use strict";
// The page of scripts/page.py: everything shown comes from the JSON in #data and is written as text, never as HTML.
(() => {
const DATA = JSON.parse(document.getElementById("data").textContent);
const LISTED = 8; // events of a history line that are written out below it
const CHUNK = 80; // rows written at a time: some screens full; a browser lays out thousands too slowly to type along
const SEVERITY = ["regression", "suspicious", "improvement", "changed identity", "no result", "not precise enough", "not enough history", "same", ""];
const TONE = { regression: "bad", suspicious: "warn", improvement: "good", "changed identity": "warn", "no result": "bad" };
const FINDINGS = new Set(["regression", "suspicious", "improvement", "changed identity"]);
const $ = (id) => document.getElementById(id);

// ---------------------------------------------------------------- elements and numbers

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child || child === 0) node.append(child);
  return node;
}
const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
const s = (tag, props, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);

function time(us) {
  if (us === null || us === undefined) return "–";
  const [value, unit] = us >= 1e6 ? [us / 1e6, "s"] : us >= 1e4 ? [us / 1e3, "ms"] : [us, "µs"];
  return `${value.toLocaleString("en", { maximumFractionDigits: value >= 100 ? 1 : value >= 1 ? 2 : 4 })} ${unit}`;
}
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const signed = (share) => (share > 0 ? "+" : share < 0 ? "−" : "±") + percent(Math.abs(share));
const when = (iso) => iso.replace("T", " ").replace(/:\d\d(\.\d+)?(Z|[+]00:00)$/, " UTC");
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

// ---------------------------------------------------------------- what is shown

const state = { text: "", family: "", device: "", dtype: "", verdict: "", status: "", all: false, sort: "severity", down: false, shown: CHUNK };
const judged = DATA.cases.some((c) => c.verdict);
DATA.cases.forEach((c, i) => {
  c.index = i;
  c.finding = c.status !== "ok" || FINDINGS.has(c.verdict) || c.drift !== undefined;
  c.haystack = [c.id, c.family, c.tier, c.device, c.verdict, c.status, c.inputs, ...(c.ops || []).map((o) => DATA.ops[o[0]])].join(" ").toLowerCase();
  c.rank = c.status !== "ok" ? 0.5 : SEVERITY.indexOf(c.verdict || "");
});
const COLUMNS = [
  { key: "id", label: "Case", value: (c) => c.id },
  judged && { key: "severity", label: "Verdict", value: (c) => c.rank, cell: verdictCell },
  judged && { key: "change", label: "Change", number: true, value: (c) => c.change, cell: (c) => (c.change === undefined ? "–" : signed(c.change)) },
  { key: "e2e", label: "E2E", number: true, value: (c) => c.e2e, cell: (c) => time(c.e2e), title: (c) => (c.e2e === undefined ? null : `${c.e2e} µs`) },
  { key: "spread", label: "IQR", number: true, wide: true, value: (c) => c.spread, cell: (c) => (c.spread === undefined ? "–" : percent(c.spread)) },
  { key: "status", label: "Status", wide: judged, value: (c) => c.status, cell: (c) => h("span", { class: c.status === "ok" ? "dim" : "v bad" }, c.status) },
  { key: "family", label: "Family", wide: true, value: (c) => c.family },
  { key: "device", label: "Device", wide: true, value: (c) => c.device },
  { key: "dtype", label: "dtype", wide: true, value: (c) => c.dtypes.join(", ") },
].filter(Boolean);
if (!judged) state.sort = "status";

function verdictCell(c) {
  if (!c.verdict) return h("span", { class: "dim" }, "–");
  const note = c.verdict === "regression" ? (c.new ? " new" : " still") : "";
  return h("span", { class: `v ${TONE[c.verdict] || "dim"}` }, c.verdict, note && h("span", { class: "dim" }, note), c.drift !== undefined && h("span", { class: "warn" }, ` drift ${signed(c.drift)}`));
}
const narrowed = () => state.text || state.family || state.device || state.dtype || state.verdict || state.status;
const folds = () => judged && !state.all && !narrowed();

function selected() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return DATA.cases.filter((c) =>
    (!folds() || c.finding) && (!state.family || c.family === state.family) && (!state.device || c.device === state.device) &&
    (!state.dtype || c.dtypes.includes(state.dtype)) && (!state.status || c.status === state.status) &&
    (!state.verdict || (state.verdict === "drift" ? c.drift !== undefined : c.verdict === state.verdict)) && words.every((w) => c.haystack.includes(w)));
}
function sorted(cases) {
  const column = COLUMNS.find((c) => c.key === state.sort);
  const sign = state.down ? -1 : 1;
  return cases.sort((a, b) => {
    const [x, y] = [column.value(a), column.value(b)];
    const missing = (x === undefined) - (y === undefined); // cases without the number stand last either way
    if (missing) return missing;
    if (x !== y && x !== undefined) return sign * (x < y ? -1 : 1);
    return Math.abs(b.change || 0) - Math.abs(a.change || 0) || a.index - b.index;
  });
}

// ---------------------------------------------------------------- table

function render() {
  const found = sorted(selected());
  const body = document.createElement("tbody");
  const open = new Set([...document.querySelectorAll("#table .open[aria-expanded=true]")].map((b) => +b.dataset.case));
  for (const c of found.slice(0, state.shown)) {
    const row = caseRow(c);
    body.append(row);
    if (open.has(c.index)) toggle(row.querySelector(".open"), c);
  }
  $("table").tBodies[0].replaceWith(body);
  const folded = folds() ? DATA.cases.length - found.length : 0;
  $("count").replaceChildren(`${plural(found.length, "case")} of ${DATA.cases.length.toLocaleString("en")}` + (narrowed() ? " match." : folded ? "; " : "."));
  if (folded) $("count").append(`${folded.toLocaleString("en")} without a finding are folded. `, h("button", { type: "button", id: "unfold", onclick: () => { state.all = true; sync(); } }, "Show all"));
  $("more").hidden = found.length <= state.shown;
  $("more").textContent = `Show ${Math.min(CHUNK, found.length - state.shown)} more of ${found.length - state.shown}`;
  for (const button of document.querySelectorAll("#overview button")) button.setAttribute("aria-pressed", String(state[button.dataset.field] === button.dataset.value));
  for (const cell of document.querySelectorAll("#table thead th")) cell.setAttribute("aria-sort", cell.dataset.key !== state.sort ? "none" : state.down ? "descending" : "ascending");
}
function caseRow(c) {
  const opener = h("button", { type: "button", class: "open", "aria-expanded": "false", "data-case": c.index, onclick: (e) => toggle(e.currentTarget, c) }, c.id);
  return h("tr", { class: "row" }, COLUMNS.map((column) => h("td", { class: [column.number && "num", column.wide && "wide"].filter(Boolean).join(" ") || null, title: column.title ? column.title(c) : null }, column.key === "id" ? opener : column.cell ? column.cell(c) : column.value(c) || "–")));
}
function toggle(button, c) {
  const row = button.closest("tr");
  const opens = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(opens));
  if (opens) row.after(h("tr", { class: "detail" }, h("td", { colspan: COLUMNS.length }, details(c))));
  else row.nextElementSibling.remove();
}
function head() {
  $("table").tHead.replaceChildren(h("tr", {}, COLUMNS.map((c) => h("th", { scope: "col", "data-key": c.key, class: [c.number && "num", c.wide && "wide"].filter(Boolean).join(" ") || null },
    h("button", { type: "button", onclick: () => { state.down = state.sort === c.key ? !state.down : Boolean(c.number); state.sort = c.key; render(); } }, c.label)))));
}

// ---------------------------------------------------------------- filters and overview

const counted = (values) => { const counts = new Map(); for (const v of values) if (v) counts.set(v, (counts.get(v) || 0) + 1); return counts; };

function choice(field, label, values) {
  const names = [...counted(values).keys()].sort();
  if (names.length < 2 && field !== "verdict") return null;
  return h("label", {}, label, h("select", { id: `filter-${field}`, onchange: (e) => { state[field] = e.target.value; state.shown = CHUNK; render(); } }, h("option", { value: "" }, "all"), names.map((n) => h("option", { value: n }, n))));
}
function filters() {
  let waiting = 0;
  const search = h("input", { type: "search", id: "search", placeholder: "case, operator, op type, shape …", autocomplete: "off", oninput: (e) => {
    state.text = e.target.value; state.shown = CHUNK;
    cancelAnimationFrame(waiting); waiting = requestAnimationFrame(render);
  } });
  fill($("filters"), { onsubmit: (e) => e.preventDefault() }, [
    h("label", {}, "Search", search),
    choice("family", "Family", DATA.cases.map((c) => c.family)), choice("device", "Device", DATA.cases.map((c) => c.device)),
    choice("dtype", "dtype", DATA.cases.flatMap((c) => c.dtypes)),
    judged && choice("verdict", "Verdict", [...DATA.cases.map((c) => c.verdict), ...DATA.cases.filter((c) => c.drift !== undefined).map(() => "drift")]) || null,
    choice("status", "Status", DATA.cases.map((c) => c.status)),
    judged ? h("label", { class: "check" }, h("input", { type: "checkbox", id: "all", onchange: (e) => { state.all = e.target.checked; render(); } }), "also cases without a finding") : null,
  ]);
}
/** Put the state into the controls, then show it. */
function sync() {
  for (const field of ["family", "device", "dtype", "verdict", "status"]) if ($(`filter-${field}`)) $(`filter-${field}`).value = state[field];
  $("search").value = state.text;
  if ($("all")) $("all").checked = state.all;
  state.shown = CHUNK;
  render();
}
function overview() {
  const card = (field, value, n, tone, label = value) => h("button", { type: "button", "data-field": field, "data-value": value, "aria-pressed": "false", onclick: () => { state[field] = state[field] === value ? "" : value; sync(); } }, h("b", { class: tone }, n.toLocaleString("en")), label);
  const byVerdict = counted(DATA.cases.map((c) => c.verdict));
  const drifting = DATA.cases.filter((c) => c.drift !== undefined).length;
  $("overview").append(
    ...SEVERITY.filter((v) => byVerdict.has(v)).map((v) => card("verdict", v, byVerdict.get(v), TONE[v] || "dim")),
    ...(drifting ? [card("verdict", "drift", drifting, "warn", "slow drift")] : []),
    ...[...counted(DATA.cases.map((c) => c.status))].map(([v, n]) => card("status", v, n, v === "ok" ? "good" : "bad", `status ${v}`)));
  $("run").textContent = DATA.subtitle;
  $("notes").append(...DATA.notes.map((text) => h("p", { class: "note" }, text)));
}

// ---------------------------------------------------------------- one case

function details(c) {
  const facts = [["E2E", c.e2e === undefined ? null : `${time(c.e2e)} (median of ${plural(c.iterations.length, "iteration")}; ${time(c.min)} to ${time(c.max)}, IQR ${time(c.iqr)})`],
    ["Interval", c.low === undefined ? null : `${time(c.low)} to ${time(c.high)}, of the median`],
    ["Device span", c.span === undefined ? null : time(c.span)], ["Host wall", c.wall === undefined ? null : `${time(c.wall)}, without the profiler`],
    ["Kernels", c.kernels === undefined ? null : `${c.kernels} per iteration`], ["Roofline", c.roofline],
    ["Inputs", c.inputs], ["Device", c.device && c.device + (c.standIn ? " (stand-in: no real times)" : "")], ["Scope", c.scope], ["Measured", c.at && when(c.at)], ["Reason", c.reason]];
  return h("div", { class: "inner" },
    c.verdict ? h("p", {}, h("span", { class: `v ${TONE[c.verdict] || "dim"}` }, c.verdict), `: ${c.detail}`, c.drift === undefined ? "" : ` Slow drift: the recent level is ${signed(c.drift)} against the best earlier one.`) : null,
    h("dl", {}, facts.filter((f) => f[1]).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    (c.warnings || []).map((text) => h("p", { class: "note" }, text)),
    h("div", { class: "grid" }, c.ops ? h("div", {}, h("h3", {}, "Op types"), opChart(c)) : null, c.iterations ? h("div", {}, h("h3", {}, "Iterations"), iterationChart(c)) : null,
      c.roof ? h("div", {}, h("h3", {}, "Roofline"), roofChart(...c.roof)) : null,
      c.history ? h("div", {}, h("h3", {}, "History"), historyChart(c)) : null),
    h("ul", { class: "links" }, links(c).map(([label, target]) => h("li", {}, h("a", { href: target }, label)))),
    commands(c).map(([label, text]) => command(label, text)));
}
const links = (c) => [...(c.report ? [["report", c.report]] : []), ...(c.files || []).map(([label, name]) => [label, `${c.folder}/${name}`])];
function commands(c) {
  const target = `snakemake -j1 ${DATA.config}reports/${c.id}.md`; // names of cases need no quotes: scripts/names.py
  return [...(c.command && c.command !== target ? [["Repeat this measurement by hand", c.command]] : []), ["Make its report; only what is missing or stale is measured", target]];
}
function command(label, text) {
  const button = h("button", { type: "button", class: "copy", onclick: async () => {
    let copied = true;
    try { await navigator.clipboard.writeText(text); } catch { copied = selectAndCopy(code); }
    button.textContent = copied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  } }, "Copy");
  const code = h("code", { tabindex: "0" }, text);
  return [h("p", { class: "legend" }, label), h("div", { class: "command" }, code, button)];
}
function selectAndCopy(node) {
  getSelection().selectAllChildren(node);
  return document.execCommand("copy");
}
const short = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
const titled = (node, text) => { node.append(s("title", {}, text)); return node; };
/** Charts are drawn for the width there is, so that their text keeps its size. */
const narrow = () => innerWidth < 736;
const width = () => (narrow() ? 330 : innerWidth >= 880 && innerWidth < 1100 ? 430 : 640); // between, two columns are tight
const chart = (height, label, ...children) => s("svg", { viewBox: `0 0 ${width()} ${height}`, role: "img", "aria-label": label }, ...children);

function opChart(c) {
  const most = 12, left = Math.round(width() * 0.37), letters = Math.round(left / 6.9), longest = width() - left - 110;
  const ops = [...c.ops].sort((a, b) => b[2] - a[2]);
  const rest = ops.slice(most);
  const rows = ops.slice(0, most).map(([op, n, us]) => [`${n} × ${DATA.ops[op]}`, us, ""]);
  if (rest.length) rows.push([`${rest.length} more op types`, rest.reduce((sum, o) => sum + o[2], 0), " rest"]);
  const total = ops.reduce((sum, o) => sum + o[2], 0);
  const top = Math.max(...rows.map((r) => r[1]));
  return chart(rows.length * 22 + 2, `Time by op type, ${time(total)} in all`, rows.map(([name, us, kind], i) => titled(s("g", {},
    s("text", { x: 0, y: i * 22 + 15, class: "strong" }, short(name, letters)),
    s("rect", { class: `bar${kind}`, x: left, y: i * 22 + 3, height: 16, width: Math.max(1, (longest * us) / top) }),
    s("text", { x: left + 6 + (longest * us) / top, y: i * 22 + 15 }, `${time(us)}, ${percent(us / total)}`)), `${name}: ${us} µs`)));
}
function scale(values, height) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = (high - low || high * 0.02 || 1) * 0.12;
  [low, high] = [Math.max(0, low - pad), high + pad];
  return { low, high, y: (v) => 8 + (height - 26) * (1 - (v - low) / (high - low)) };
}
const frame = (axis, height) => [s("path", { class: "axis", d: `M70,8 V${height - 18} H${width() - 6}` }), s("text", { x: 0, y: 16 }, time(axis.high)), s("text", { x: 0, y: height - 18 }, time(axis.low))];

function iterationChart(c) {
  const height = 170, n = c.iterations.length, axis = scale([...c.iterations, c.e2e], height);
  const x = (i) => 80 + (width() - 95) * (n > 1 ? i / (n - 1) : 0.5);
  return chart(height, `Device total of ${plural(n, "iteration")}`, frame(axis, height),
    s("line", { class: "median", x1: 70, x2: width() - 6, y1: axis.y(c.e2e), y2: axis.y(c.e2e) }),
    n > 1 ? s("path", { class: "line", d: c.iterations.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${axis.y(v).toFixed(1)}`).join("") }) : null,
    c.iterations.map((v, i) => titled(s("circle", { class: "dot", cx: x(i), cy: axis.y(v), r: n > 100 ? 1.6 : 3.2 }), `iteration ${i}: ${v} µs`)),
    s("text", { x: 80, y: height - 4 }, "0"), s("text", { x: width() - 15, y: height - 4, "text-anchor": "end" }, String(n - 1)));
}
const MARGIN = 1.02; // a peak is a measurement, too
const three = (v) => String(v >= 100 ? Math.round(v) : Number(v.toPrecision(3)));
/** A logarithmic axis of whole decades that holds `values`, drawn between two pixels. */
function decades(values, start, end) {
  const logs = values.map(Math.log10), low = Math.floor(Math.min(...logs) - 0.1), high = Math.ceil(Math.max(...logs) + 0.1);
  const ticks = Array.from({ length: high - low + 1 }, (_, i) => Number(`1e${low + i}`));
  return { low: ticks[0], high: ticks.at(-1), ticks, at: (v) => start + ((end - start) * (Math.log10(v) - low)) / (high - low) };
}
/** The call's rate (TFLOP/s at FLOP per byte) under the fastest matrix product and copy that its device was seen to do. */
function roofChart(intensity, rate, top, copy) {
  const height = 230, left = 52, right = width() - 14, foot = height - 40;
  const ridge = (1e3 * top) / copy, most = Math.min(top, (intensity * copy) / 1e3), share = rate / most;
  const x = decades([intensity, ridge], left, right), y = decades([rate, top], foot, 10);
  const enters = Math.max(x.low, (1e3 * y.low) / copy); // where the slope comes into the picture
  const corner = ([a, b]) => `${x.at(a).toFixed(1)},${y.at(b).toFixed(1)}`;
  const every = Math.ceil(x.ticks.length / (narrow() ? 6 : 12));
  const words = `${three(rate)} TFLOP/s at ${three(intensity)} FLOP per byte: ${percent(share, 0)} of what the device was measured to do there${share > MARGIN ? ", so above it" : ""}`;
  return [chart(height, `Roofline: ${words}`,
    x.ticks.map((v, i) => [s("line", { class: "axis", x1: x.at(v), x2: x.at(v), y1: 10, y2: foot }), i % every ? null : s("text", { x: x.at(v), y: foot + 15, "text-anchor": "middle" }, String(v))]),
    y.ticks.map((v) => [s("line", { class: "axis", x1: left, x2: right, y1: y.at(v), y2: y.at(v) }), s("text", { x: left - 6, y: y.at(v) + 4, "text-anchor": "end" }, String(v))]),
    s("text", { x: right, y: height - 6, "text-anchor": "end" }, "FLOP per byte →"), s("text", { x: 0, y: height - 6 }, "↑ TFLOP/s"),
    titled(s("polyline", { class: "roof", points: [[enters, (enters * copy) / 1e3], [ridge, top], [x.high, top]].map(corner).join(" ") }), `At most ${three(top)} TFLOP/s and ${three(copy)} GB/s`),
    s("line", { class: "median", x1: x.at(intensity), x2: x.at(intensity), y1: y.at(rate), y2: y.at(most) }),
    titled(s("circle", { class: `dot${share > MARGIN ? " bad" : ""}`, cx: x.at(intensity), cy: y.at(rate), r: 5 }), words)),
  h("p", { class: "legend" }, `${words}. The line: at most ${three(top)} TFLOP/s and ${three(copy)} GB/s.`)];
}
function historyChart(c) {
  const past = c.history, height = 220, n = past.us.length;
  const values = past.us.filter((v) => v !== null);
  if (!values.length) return h("p", { class: "legend" }, "No night has a result.");
  const band = past.baseline === undefined ? [] : [past.baseline * (1 - past.smallest), past.baseline * (1 + past.smallest)];
  const axis = scale([...values, ...band], height);
  const x = (i) => 80 + (width() - 95) * (n > 1 ? i / (n - 1) : 0.5);
  const between = (i) => (i ? (x(i - 1) + x(i)) / 2 : x(0) - 8);
  const mark = (kind) => ([i, text]) => titled(s("line", { class: kind, x1: between(i), x2: between(i), y1: 4, y2: height - 18, "stroke-width": 2 }), text);
  let path = "", pen = "M";
  past.us.forEach((v, i) => { if (v === null) pen = "M"; else { path += `${pen}${x(i).toFixed(1)},${axis.y(v).toFixed(1)}`; pen = "L"; } });
  const verdict = (i) => DATA.verdicts[past.verdicts[i]];
  const name = (i) => { const run = DATA.runs[past.run[i]]; return `${run.id}, ${when(run.at)}`; };
  const day = (i) => DATA.runs[past.run[i]].at.slice(0, 10);
  const drawing = chart(height, `E2E over ${plural(n, "night")}`, frame(axis, height),
    band.length ? [s("rect", { class: "band", x: 70, width: width() - 76, y: axis.y(band[1]), height: axis.y(band[0]) - axis.y(band[1]) }), s("line", { class: "median", x1: 70, x2: width() - 6, y1: axis.y(past.baseline), y2: axis.y(past.baseline) })] : null,
    past.marks.map(mark("mark")), past.steps.map(mark("step")), past.accepted.map(mark("accept")),
    s("path", { class: "line", d: path }),
    past.us.map((v, i) => (v === null
      ? titled(s("path", { class: "cross", d: `M${x(i) - 4},${height - 30} l8,8 m-8,0 l8,-8` }), `${name(i)}: no result`)
      : titled(s("circle", { class: `dot ${TONE[verdict(i)] || ""}`, cx: x(i), cy: axis.y(v), r: i === n - 1 ? 4.5 : 3.2 }), `${name(i)}: ${v} µs, ${verdict(i)}`))),
    s("text", { x: 80, y: height - 4 }, day(0)), s("text", { x: width() - 10, y: height - 4, "text-anchor": "end" }, day(n - 1)));
  const list = [...past.steps.map(([i, t]) => [i, "New level", t]), ...past.marks.map(([i, t]) => [i, "Conditions changed", t]), ...past.accepted.map(([i, t]) => [i, "Accepted", t])].sort((a, b) => a[0] - b[0]);
  return [drawing, h("p", { class: "legend" }, "Dashed: median of the baseline; shaded: changes that would not show. Vertical lines: a new level (red), other conditions (dotted), an accepted change (green)."),
    list.length > LISTED ? h("p", { class: "legend" }, `${list.length - LISTED} earlier ones stand in the chart alone.`) : null,
    list.slice(-LISTED).map(([i, kind, text]) => h("p", { class: "legend" }, `${kind} at ${DATA.runs[past.run[i]].id}: ${text}`))];
}

// ---------------------------------------------------------------- two runs

const pair = { a: "", b: "", text: "", shown: CHUNK };

function compareView() {
  const runs = DATA.compared;
  if (runs.length < 2) {
    $("compare").replaceChildren(h("p", {}, "There is one run only. Every night adds one: snakemake -j1 nightly."));
    return;
  }
  if (!pair.b) [pair.a, pair.b] = [runs.length - 2, runs.length - 1];
  const label = (r) => { const run = DATA.runs[r.run]; return `${run.id} · ${when(run.at)}${run.commit ? ` · ${run.commit.slice(0, 8)}${run.dirty ? "+changes" : ""}` : ""}`; };
  const pick = (field, text) => h("label", {}, text, h("select", { id: `run-${field}`, onchange: (e) => { pair[field] = +e.target.value; pair.shown = CHUNK; compareRows(); } }, runs.map((r, i) => h("option", { value: i, selected: i === pair[field] }, label(r)))));
  const search = h("input", { type: "search", id: "compare-search", autocomplete: "off", oninput: (e) => { pair.text = e.target.value.toLowerCase(); pair.shown = CHUNK; compareRows(); } });
  $("compare").replaceChildren(h("div", { class: "pick" }, pick("a", "Run A"), pick("b", "Run B"), h("label", {}, "Search", search)),
    h("p", { id: "compare-count", class: "legend", role: "status" }),
    h("div", { class: "scroll" }, h("table", { id: "compare-table" }, h("thead", {}, h("tr", {}, ["Case", "A", "B", "B against A"].map((t, i) => h("th", { scope: "col", class: i ? "num" : null }, t)))), h("tbody"))),
    h("button", { type: "button", id: "compare-more", onclick: () => { pair.shown += CHUNK; compareRows(); } }));
  compareRows();
}
function apart(a, b) {
  if (!a || !b) return a ? "not in B" : "not in A";
  if (a.device !== b.device) return `other device: ${DATA.devices[a.device]} / ${DATA.devices[b.device]}`;
  return a.identity !== b.identity ? "other inputs" : "";
}
const apartIn = new Map(); // of two sets of conditions
/** What else may have moved the number: versions, threads, counts of calls, and the case's own code. */
function moved(a, b) {
  const key = `${a.conditions} ${b.conditions}`;
  if (!apartIn.has(key)) {
    const [x, y] = [a, b].map((side) => DATA.conditions[side.conditions]);
    apartIn.set(key, [...new Set([...Object.keys(x), ...Object.keys(y)])].filter((name) => x[name] !== y[name]).map((name) => `${name} ${x[name] ?? "–"} → ${y[name] ?? "–"}`));
  }
  return [...apartIn.get(key), ...(a.code === b.code ? [] : ["the case's code"])];
}
function compareRows() {
  const [A, B] = [pair.a, pair.b].map((i) => DATA.compared[i].cases);
  const side = (found) => found && { us: found[0], ops: found[1], device: found[2], identity: found[3], conditions: found[4], code: found[5] };
  const found = DATA.cases.map((c) => ({ c, a: side(A[c.index]), b: side(B[c.index]) })).filter((r) => (r.a || r.b) && r.c.id.toLowerCase().includes(pair.text));
  for (const r of found) { r.why = apart(r.a, r.b); r.change = r.why ? undefined : r.b.us / r.a.us - 1; r.moved = r.why ? [] : moved(r.a, r.b); }
  found.sort((x, y) => (x.change === undefined) - (y.change === undefined) || Math.abs(y.change) - Math.abs(x.change) || x.c.index - y.c.index);
  const body = h("tbody", {}, found.slice(0, pair.shown).map((r) => h("tr", { class: "row" },
    h("td", {}, h("button", { type: "button", class: "open", "aria-expanded": "false", onclick: (e) => toggleKernels(e.currentTarget, r) }, r.c.id)),
    h("td", { class: "num" }, r.a ? time(r.a.us) : "–"), h("td", { class: "num" }, r.b ? time(r.b.us) : "–"),
    h("td", { class: "num" }, r.why ? h("span", { class: "dim" }, r.why) : h("span", { class: Math.abs(r.change) < 0.02 ? "dim" : r.change > 0 ? "bad" : "good" }, signed(r.change))))));
  $("compare-table").tBodies[0].replaceWith(body);
  const differs = [...counted(found.flatMap((r) => r.moved))].sort((x, y) => y[1] - x[1]).map(([text, n]) => `${text} (${plural(n, "case")})`);
  $("compare-count").replaceChildren(`${plural(found.length, "case")}, the largest change first. Single measurements: a verdict needs the history.`,
    differs.length ? h("span", { class: "note", id: "compare-differs" }, `Not only the run differs: ${differs.slice(0, LISTED).join("; ")}${differs.length > LISTED ? "; and more" : ""}.`) : "");
  $("compare-more").hidden = found.length <= pair.shown;
  $("compare-more").textContent = `Show ${Math.min(CHUNK, found.length - pair.shown)} more`;
}
function toggleKernels(button, r) {
  const opens = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(opens));
  const row = button.closest("tr");
  if (!opens) { row.nextElementSibling.remove(); return; }
  const ops = new Map();
  for (const [side, found] of [[0, r.a], [1, r.b]]) for (const [op, n, us] of found ? found.ops : []) { if (!ops.has(op)) ops.set(op, [null, null]); ops.get(op)[side] = [n, us]; }
  const delta = ([a, b]) => (b ? b[1] : 0) - (a ? a[1] : 0);
  const rows = [...ops].sort((x, y) => Math.abs(delta(y[1])) - Math.abs(delta(x[1])));
  const cells = (found) => [h("td", { class: "num" }, found ? found[0] : "–"), h("td", { class: "num" }, found ? time(found[1]) : "–")];
  row.after(h("tr", { class: "detail" }, h("td", { colspan: 4 }, h("div", { class: "scroll" }, h("table", { class: "kernels" },
    h("caption", { class: "legend" }, "Kernels by op type, per iteration; the largest difference first.", r.moved.length ? ` Differs besides: ${r.moved.join(", ")}.` : ""),
    h("thead", {}, h("tr", {}, ["Op type", "A: count", "A: time", "B: count", "B: time", "B − A"].map((t, i) => h("th", { scope: "col", class: i ? "num" : null }, t)))),
    h("tbody", {}, rows.map(([op, sides]) => h("tr", {}, h("td", {}, DATA.ops[op]), cells(sides[0]), cells(sides[1]), h("td", { class: "num" }, (delta(sides) < 0 ? "−" : "+") + time(Math.abs(delta(sides)))))))))))); 
}

// ---------------------------------------------------------------- keyboard, tabs, theme

function show(view) {
  for (const name of ["cases", "compare"]) { $(name).hidden = name !== view; $(`tab-${name}`).setAttribute("aria-selected", String(name === view)); }
  if (view === "compare") compareView();
}
function keys(e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches("input[type=search], select");
  if (e.key === "/" && !typing && !$("cases").hidden) { e.preventDefault(); $("search").focus(); }
  if (e.key === "Escape" && !$("cases").hidden) { Object.assign(state, { text: "", family: "", device: "", dtype: "", verdict: "", status: "" }); sync(); }
  if ((e.key === "ArrowDown" || e.key === "ArrowUp") && !e.target.matches("select, code")) {
    const buttons = [...document.querySelectorAll("section:not([hidden]) .open")];
    const next = buttons.indexOf(e.target) + (e.key === "ArrowDown" ? 1 : -1);
    if (buttons[next]) { e.preventDefault(); buttons[next].focus(); } else if (next < 0 && e.key === "ArrowUp" && !$("cases").hidden) { e.preventDefault(); $("search").focus(); }
  }
}
function theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}
/** #case=<operator>/<case> opens that case, #view=compare the other view: links that can be sent. */
function follow() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  show(wanted === "view=compare" ? "compare" : "cases");
  if (!wanted.startsWith("case=")) return;
  state.text = wanted.slice(5);
  sync();
  const button = [...document.querySelectorAll("#table .open")].find((b) => b.textContent === state.text);
  if (button) { if (button.getAttribute("aria-expanded") !== "true") button.click(); button.focus(); button.scrollIntoView(); }
}

head();
filters();
overview();
render();
$("more").addEventListener("click", () => { state.shown += CHUNK; render(); });
$("theme").addEventListener("click", theme);
for (const name of ["cases", "compare"]) $(`tab-${name}`).addEventListener("click", () => show(name));
document.addEventListener("keydown", keys);
addEventListener("hashchange", follow);
if (location.hash) follow();
})();
