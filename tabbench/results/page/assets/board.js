/* The main table: sorted, filtered, in any metric, with whiskers. */
const AXES = [["data", "Datasets"], ["ssl", "Methods"], ["model", "Models"], ["protocol", "Protocols"], ["labels", "Labels"]];
const state = { view: 0, metric: 0, sort: { by: "rank", reverse: false }, off: Object.fromEntries(AXES.map(([axis]) => [axis, new Set()])) };
const view = () => data.views[state.view];
const rowName = (row) => `${row.ssl} + ${row.model}`;
const fullName = (row) => rowName(row) + [row.tag, row.protocol !== "frozen" && row.protocol !== "raw" ? row.protocol : "", row.labels !== "100%" ? `${row.labels} labels` : ""].filter(Boolean).map((text) => ` [${text}]`).join("");
const anchor = (row) => "row-" + [row.ssl, row.model, row.protocol, row.labels, row.variant, ...row.trials.map(String)].map((word) => [...word].map((c) => (/[A-Za-z0-9]/.test(c) ? c : "_")).join("")).join("-");
function axisValues(axis) {
  const found = view();
  if (axis === "data") return found.datasets.map((each) => each.name);
  if (axis === "protocol") return unique(found.groups.map((group) => group.protocol));
  return unique(found.rows.map((row) => row[axis])).sort((a, b) => (axis === "labels" ? parseFloat(a) - parseFloat(b) : a < b ? -1 : 1));
}
const shownDatasets = () => range(view().datasets.length).filter((d) => !state.off.data.has(view().datasets[d].name));
const shownRows = () => range(view().rows.length).filter((r) => {
  const row = view().rows[r];
  return !state.off.ssl.has(row.ssl) && !state.off.model.has(row.model) && !state.off.labels.has(row.labels) && !state.off.protocol.has(view().groups[row.group].protocol);
});
const isFiltered = () => Object.values(state.off).some((off) => off.size);
const lowerIsBetter = (metric, d) => (metric.name === "score" ? view().datasets[d].lower : metric.lower);
const boundsOf = (metric, d) => { const [least, most] = metric.name === "score" ? view().datasets[d].range : metric.range; return [least ?? -Infinity, most ?? Infinity]; };
const mean = (metric, r, d) => { const cell = metric.cells[r][d]; return cell && finite(cell[0]) ? cell[0] : null; };
function colourOf(row) {
  if (row.ssl === "none") return { colour: "var(--raw)", shape: 1, hollow: false };
  const base = row.ssl.replace(/^untrained:/, "");
  const methods = unique(data.views.flatMap((each) => each.rows.map((other) => other.ssl.replace(/^untrained:/, "")))).filter((name) => name !== "none").sort();
  const index = methods.indexOf(base);
  return { colour: `var(--c${index % 8})`, shape: [0, 2, 3, 4][(index + Math.floor(index / 8)) % 4], hollow: base !== row.ssl };
}
/* Ranks among the rows and datasets that are shown; ties share the best rank, missing cells are last. */
function ranks(metric, rows, datasets) {
  const found = {};
  for (const d of datasets) for (const g of unique(rows.map((r) => view().rows[r].group))) {
    const here = rows.filter((r) => view().rows[r].group === g);
    const sign = lowerIsBetter(metric, d) ? 1 : -1;
    const known = here.map((r) => mean(metric, r, d)).filter(finite).map((value) => sign * value).sort((a, b) => a - b);
    if (known.length) for (const r of here) { const value = mean(metric, r, d); found[`${r},${d}`] = finite(value) ? known.indexOf(sign * value) + 1 : known.length + 1; }
  }
  return found;
}
function averageRanks(found, rows, datasets) {
  return Object.fromEntries(rows.map((r) => { const own = datasets.map((d) => found[`${r},${d}`]).filter(finite); return [r, own.length ? own.reduce((a, b) => a + b, 0) / own.length : null]; }));
}
function domain(metric, rows, d) {
  const cells = rows.map((r) => metric.cells[r][d]).filter((cell) => cell && finite(cell[0]));
  if (!cells.length) return null;
  const means = cells.map((cell) => cell[0]), low = Math.min(...means), high = Math.max(...means);
  const halves = cells.filter((cell) => finite(cell[2])).map((cell) => (cell[2] - cell[1]) / 2).sort((a, b) => a - b);
  const room = Math.max(high - low, halves.length ? halves[Math.floor(halves.length / 2)] : 0) || Math.abs(high) * 0.02 || 0.01;
  const ends = cells.flatMap((cell) => [cell[1], cell[2], cell[0]]).filter(finite), [least, most] = boundsOf(metric, d);
  return [Math.max(low - 0.7 * room, Math.min(...ends), least), Math.min(high + 0.7 * room, Math.max(...ends), most)].map((value, i, both) => (both[0] === both[1] ? value + (i ? 1 : -1) * room : value));
}
/* Few datasets leave room for wide whiskers. */
const miniWidth = (datasets) => (innerWidth <= 640 ? 92 : datasets.length === 1 ? 420 : datasets.length === 2 ? 230 : datasets.length <= 4 ? 140 : 92);
let MINI = 92;
function miniWhisker(cell, ends, style) {
  const x = scale(ends[0], ends[1], 5, MINI - 5), clamp = (value) => Math.max(2, Math.min(MINI - 2, x(value)));
  return s("svg", { class: "mini", width: MINI, height: 11, "aria-hidden": "true" }, s("line", { class: "grid", x1: 0, x2: MINI, y1: 5.5, y2: 5.5 }),
    finite(cell[1]) && s("line", { x1: clamp(cell[1]), x2: clamp(cell[2]), y1: 5.5, y2: 5.5, stroke: style.colour, "stroke-width": 2 }), shape(style.shape, clamp(cell[0]), 5.5, style.colour, style.hollow, null, 3.2));
}
function miniAxis(ends) {
  return s("svg", { class: "mini", width: MINI, height: 16, "aria-hidden": "true" }, s("line", { class: "axis", x1: 5, x2: MINI - 5, y1: 13, y2: 13 }), [5, MINI - 5].map((x) => s("line", { class: "axis", x1: x, x2: x, y1: 10, y2: 16 })),
    s("text", { x: 5, y: 8, "text-anchor": "start", style: "font-size:9.5px" }, figureText(ends[0])), s("text", { x: MINI - 5, y: 8, "text-anchor": "end", style: "font-size:9.5px" }, figureText(ends[1])));
}
function header(key, label, extra, cls) {
  const active = state.sort.by === key;
  const click = () => { state.sort = { by: key, reverse: active ? !state.sort.reverse : false }; drawBoard(`[data-key="${CSS.escape(String(key))}"]`); };
  return h("th", { scope: "col", class: cls, "aria-sort": active ? (state.sort.reverse ? "descending" : "ascending") : null }, h("button", { class: "sort", type: "button", onclick: click, "data-key": key }, label), extra);
}
function bodyCell(metric, r, d, rank, best, ends) {
  const cell = metric.cells[r][d], row = view().rows[r];
  if (!cell) return h("td", { class: "empty" }, "–");
  if (!finite(cell[0])) return h("td", { class: "empty" }, cell[5] ? "not shared" : "left out");
  const [value, low, high, std, n, found, expected, incomplete] = cell;
  const spread = finite(std) ? ` ± ${figureText(std, (figureText(value).split(".")[1] || "").length)}` : "";
  const partial = found < expected ? ` ${found}/${expected}` : "";
  const about = [`${fullName(row)} on ${view().datasets[d].name}: ${figureText(value)}`, finite(low) ? `95 % interval ${figureText(low)} to ${figureText(high)}` : "interval not estimable", `${n} record${n === 1 ? "" : "s"}`, incomplete ? `${incomplete} failed or flagged` : ""].filter(Boolean).join(", ");
  return h("td", { class: best.get(`${r},${d}`) || null, title: about }, h("div", { class: "cell" }, h("span", { class: "value" }, h("b", {}, figureText(value)), h("small", {}, spread), finite(rank) ? h("small", { class: "place" }, ` (${rank})`) : "", h("small", {}, partial)), ends && miniWhisker(cell, ends, colourOf(row))));
}
function sortedRows(rows, metric, average) {
  const by = state.sort.by;
  const value = (r) => {
    if (by === "rank") return average[r];
    if (by === "name") return fullName(view().rows[r]);
    const found = mean(metric, r, +by);
    return finite(found) ? (lowerIsBetter(metric, +by) ? found : -found) : null;
  };
  const compare = (a, b) => { const x = value(a), y = value(b); if (x === y) return a - b; if (x === null) return 1; if (y === null) return -1; return (x < y ? -1 : 1) * (state.sort.reverse ? -1 : 1); };
  return [...rows].sort(compare);
}
function drawBoard(focus) {
  const metric = view().metrics[state.metric], rows = shownRows(), datasets = shownDatasets();
  const found = ranks(metric, rows, datasets), average = averageRanks(found, rows, datasets);
  const groups = unique(rows.map((r) => view().rows[r].group)).sort((a, b) => a - b);
  const ends = Object.fromEntries(groups.map((g) => [g, Object.fromEntries(datasets.map((d) => [d, domain(metric, rows.filter((r) => view().rows[r].group === g), d)]))]));
  MINI = miniWidth(datasets);
  const several = groups.length > 1; /* then each group has axes of its own, in its title's row */
  const best = new Map();
  for (const d of datasets) for (const g of groups) {
    const here = rows.filter((r) => view().rows[r].group === g && finite(mean(metric, r, d)));
    const order = unique(here.map((r) => found[`${r},${d}`])).sort((a, b) => a - b);
    if (here.length > 1) here.forEach((r) => { const rank = found[`${r},${d}`]; if (rank === order[0]) best.set(`${r},${d}`, "best"); else if (rank === order[1]) best.set(`${r},${d}`, "second"); });
  }
  const exact = metric.name === "score" && !isFiltered();
  const digits = String(Math.max(1, ...Object.values(found))).length, lettered = Math.min(5, Math.max(0, ...rows.map((r) => (view().rows[r].rank[3] || "").length)));
  const head = h("tr", {}, header("name", "Method + model", null, "name"), header("rank", [h("span", { class: "long" }, "Average "), h("span", { class: "first" }, "rank")], null, "rank"),
    datasets.map((d) => { const set = view().datasets[d]; return header(d, cut(set.name, 22), [h("span", { class: "unit" }, `${metric.name === "score" ? set.unit : metric.label} ${lowerIsBetter(metric, d) ? "\u2193" : "\u2191"}${set.few ? " \u2020" : ""}`), !several && groups.length && ends[groups[0]][d] && miniAxis(ends[groups[0]][d])]); }));
  const bodies = groups.map((g) => {
    const own = sortedRows(rows.filter((r) => view().rows[r].group === g), metric, average);
    const title = several && h("tr", { class: "group" }, h("th", { colspan: 2, scope: "rowgroup" }, view().groups[g].title), datasets.map((d) => h("td", {}, ends[g][d] && miniAxis(ends[g][d]))));
    return h("tbody", {}, title, own.map((r) => {
      const row = view().rows[r], rank = row.rank;
      const label = [h("span", {}, row.ssl.split(":").flatMap((part, i) => (i ? [":", h("wbr"), part] : [part]))), h("span", { class: "model" }, ` + ${row.model}`), row.tag && h("span", { class: "model" }, ` [${cut(row.tag.replaceAll(`${row.ssl.replace(/^untrained:/, "")}.`, ""), 40)}]`), row.usesLabels && " *"];
      return h("tr", { class: row.control ? "control" : null }, h("th", { scope: "row", class: "name", title: row.variant ? `${rowName(row)} [${row.variant}]` : rowName(row) }, h("a", { href: `#${anchor(row)}` }, label)),
        h("td", { class: "rank" }, finite(average[r]) ? average[r].toFixed(2) : "–", " ", exact && finite(rank[1]) && h("small", { class: "letters interval" }, ` [${rank[1].toFixed(1)}, ${rank[2].toFixed(1)}]`), exact && lettered > 0 && h("span", { class: "letters shared", title: rank[3] ? `shares the letters ${rank[3]}` : null }, ` ${cut(rank[3] || "", 5)}`)),
        datasets.map((d) => bodyCell(metric, r, d, found[`${r},${d}`], best, ends[g][d])));
    }));
  });
  const counted = (shown, all, word) => `${shown === all ? "" : `${shown} of `}${all} ${word}${all === 1 ? "" : "s"}`;
  const what = `${counted(rows.length, view().rows.length, "row")}, ${counted(datasets.length, view().datasets.length, "dataset")}${isFiltered() ? "; ranks are among what is shown" : ""}`;
  const told = rows.length ? `${what}. ${metric.label[0].toUpperCase()}${metric.label.slice(1)}: mean ± standard deviation; whiskers: 95 % intervals over splits.` : "No rows match these filters.";
  const board = document.getElementById("board");
  const at = [board.scrollLeft, board.scrollTop];
  board.replaceChildren(h("table", { class: MINI > 200 ? "roomy" : null, style: `--place:${digits + 2.4}ch;--shared:${lettered + 0.6}ch` }, h("thead", {}, head), bodies));
  [board.scrollLeft, board.scrollTop] = at;
  document.getElementById("status").textContent = told;
  document.getElementById("notes").replaceChildren(...view().notes.flatMap((note, i) => (i ? [h("br"), note] : [note])));
  if (focus) { const button = board.querySelector(focus); if (button) button.focus(); }
}
function openTarget() {
  let target = null;
  try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { /* not one of ours */ }
  if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView({ block: "center" }); target.querySelector("summary").focus({ preventScroll: true }); }
}
function filterBox(axis, label, redraw) {
  const values = axisValues(axis);
  if (values.length < 2) return null;
  const off = state.off[axis], summary = h("summary", {});
  const boxes = values.map((value) => h("input", { type: "checkbox", checked: !off.has(value) }));
  const box = h("details", { class: "filter", "data-axis": axis });
  const tell = () => { summary.textContent = `${label} ${values.length - off.size}/${values.length}`; box.classList.toggle("active", off.size > 0); };
  const apply = () => { values.forEach((value, i) => (boxes[i].checked ? off.delete(value) : off.add(value))); tell(); redraw(); };
  const all = (checked) => () => { boxes.forEach((each) => { each.checked = checked; }); apply(); };
  boxes.forEach((each) => each.addEventListener("change", apply));
  box.append(summary, h("fieldset", {}, h("legend", { class: "soft" }, label), h("button", { type: "button", onclick: all(true) }, "all"), h("button", { type: "button", onclick: all(false) }, "none"), values.map((value, i) => h("label", {}, boxes[i], value))));
  box.addEventListener("toggle", () => { if (box.open) document.querySelectorAll("details.filter[open]").forEach((other) => { if (other !== box) other.open = false; }); });
  tell();
  return box;
}
function drawControls(redraw) {
  const place = document.getElementById("controls");
  const pick = (label, id, names, index, change) => names.length > 1 && h("label", {}, label, h("select", { id, onchange: (event) => change(event.target.selectedIndex) }, names.map((name, i) => h("option", { selected: i === index }, name))));
  const reset = () => { Object.values(state.off).forEach((off) => off.clear()); state.sort = { by: "rank", reverse: false }; drawControls(redraw); redraw(); };
  place.replaceChildren(...[
    pick("Metric", "metric", view().metrics.map((metric) => metric.label), state.metric, (i) => { state.metric = i; redraw(); }),
    pick("Fidelity", "fidelity", data.views.map((each) => `${each.fidelity}, ${each.tuning}`), state.view, (i) => { state.view = i; state.metric = 0; Object.values(state.off).forEach((off) => off.clear()); state.sort = { by: "rank", reverse: false }; drawControls(redraw); redraw(); }),
    ...AXES.map(([axis, label]) => filterBox(axis, label, redraw)),
    h("button", { type: "button", id: "reset", onclick: reset }, "Reset"),
  ].filter(Boolean));
}
document.addEventListener("click", (event) => { document.querySelectorAll("details.filter[open]").forEach((box) => { if (!box.contains(event.target)) box.open = false; }); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") document.querySelectorAll("details.filter[open]").forEach((box) => { box.open = false; box.querySelector("summary").focus(); }); });
