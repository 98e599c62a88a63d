/* Small tools: elements without markup, scales, axes. Text from outside becomes text nodes and nothing else. */
const SVG = "http://www.w3.org/2000/svg";
const set = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) node.append(child);
  return node;
};
const h = (tag, attributes, ...children) => set(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => set(document.createElementNS(SVG, tag), attributes, children);
const unique = (values) => [...new Set(values)];
const range = (n) => [...Array(n).keys()];
const finite = (value) => typeof value === "number" && Number.isFinite(value);

function figureText(value, digits) {
  if (!finite(value)) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-6 || size >= 1e9)) return value.toExponential(2);
  if (digits === undefined) digits = size >= 10 ? 2 : size >= 0.1 || !size ? 3 : 2 - Math.floor(Math.log10(size));
  return value.toFixed(digits);
}
const signed = (value, digits) => (value > 0 ? "+" : value < 0 ? "\u2212" : "") + figureText(Math.abs(value), digits);

/* Round steps for an axis. */
function ticks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => span / each <= count) || power * 10;
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(Math.abs(value) < step / 1e6 ? 0 : value);
  const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9) + (/^2\.5/.test((step / power).toString()) ? 1 : 0)));
  return found.map((value) => ({ value, text: Math.abs(value) >= 1e6 || (step < 1e-6) ? value.toExponential(1) : value.toFixed(digits) }));
}
function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const factor of Math.log10(high / low) > 2.6 ? [1] : [1, 2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push({ value, text: value >= 1000 ? value.toLocaleString("en") : String(+value.toPrecision(2)) });
    }
  return found;
}
/* Few numbers of labels: each is a tick, unless two would touch. */
function countTicks(xs, room) {
  const values = unique(xs).sort((a, b) => a - b), apart = room / Math.log(values[values.length - 1] / values[0] || 2), found = [];
  if (values.length > 8) return logTicks(values[0], values[values.length - 1]);
  for (const value of values) if (!found.length || Math.log(value / found[found.length - 1]) * apart > 44) found.push(value);
  return found.map((value) => ({ value, text: value.toLocaleString("en") }));
}
const scale = (low, high, from, to, log) => {
  const f = log ? Math.log : (value) => value;
  const a = f(low), b = f(high);
  return (value) => from + ((f(value) - a) / (b - a || 1)) * (to - from);
};
function extent(values, margin = 0.06) {
  const known = values.filter(finite);
  if (!known.length) return [0, 1];
  let low = Math.min(...known), high = Math.max(...known);
  if (low === high) { const pad = Math.abs(low) * 0.05 || 0.5; low -= pad; high += pad; }
  const pad = (high - low) * margin;
  return [low - pad, high + pad];
}
function xAxis(x, y, marks, top, title, width) {
  return [
    marks.map((mark) => [s("line", { class: "grid", x1: x(mark.value), x2: x(mark.value), y1: top, y2: y }), s("text", { x: x(mark.value), y: y + 14, "text-anchor": "middle" }, mark.text)]),
    s("line", { class: "axis", x1: width[0], x2: width[1], y1: y, y2: y }),
    title && (title.length * 5.9 > width[1] - width[0]
      ? s("text", { x: width[1], y: y + 29, "text-anchor": "end" }, title) /* a narrow chart: the title may reach below the names */
      : s("text", { x: (width[0] + width[1]) / 2, y: y + 29, "text-anchor": "middle" }, title)),
  ];
}
function yAxis(y, x, marks, right, title) {
  return [
    title && s("text", { x: 0, y: 10 }, title),
    marks.map((mark) => [s("line", { class: "grid", x1: x, x2: right, y1: y(mark.value), y2: y(mark.value) }), s("text", { x: x - 6, y: y(mark.value) + 4, "text-anchor": "end" }, mark.text)]),
  ];
}
/* A point that is told by shape as well as by colour. */
function shape(kind, x, y, colour, hollow, title, r = 4.6) {
  const look = hollow ? { fill: "var(--paper)", stroke: colour, "stroke-width": 2 } : { fill: colour, stroke: colour };
  const square = (size) => s("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...look });
  const path = (d) => s("path", { d, ...look });
  const kinds = [
    () => s("circle", { cx: x, cy: y, r, ...look }),
    () => square(r * 0.88),
    () => path(`M${x} ${y - r * 1.2}L${x + r * 1.15} ${y + r * 0.85}H${x - r * 1.15}Z`),
    () => path(`M${x} ${y - r * 1.3}L${x + r * 1.3} ${y}L${x} ${y + r * 1.3}L${x - r * 1.3} ${y}Z`),
    () => path(`M${x} ${y + r * 1.2}L${x + r * 1.15} ${y - r * 0.85}H${x - r * 1.15}Z`),
  ];
  const node = kinds[kind % kinds.length]();
  if (title) node.append(s("title", {}, title));
  return node;
}
const cut = (text, length) => (text.length <= length ? text : text.slice(0, length - 1) + "…");
function svg(width, height, label, ...children) {
  return s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 2", "10 4"];
function line(points, colour, dash, width = 1.8) {
  const parts = [];
  let open = false;
  for (const [x, y] of points) {
    if (!finite(x) || !finite(y)) { open = false; continue; }
    parts.push(`${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`);
    open = true;
  }
  return s("path", { d: parts.join(""), fill: "none", stroke: colour, "stroke-width": width, "stroke-dasharray": DASHES[dash % DASHES.length] || null });
}
/* One chart of several curves: series of {name, xs, ys, colour, dash, mark}. */
function curveChart(title, series, options = {}) {
  const width = options.width || 250, height = options.height || 150, left = 46, bottom = options.x ? 34 : 20, top = options.y ? 20 : 8, right = width - 20;
  const xs = [...series.flatMap((each) => each.xs), ...series.map((each) => each.mark)].filter(finite), ys = series.flatMap((each) => each.ys);
  const [low, high] = extent(ys);
  const x = scale(...(options.log ? [Math.min(...xs), Math.max(...xs)] : extent(xs, 0.01)), left + (options.log ? 18 : 0), right - (options.log ? 10 : 0), options.log);
  const y = scale(low, high, height - bottom, top);
  const marks = options.log ? countTicks(xs, right - left) : ticks(Math.min(...xs), Math.max(...xs), 4).filter((mark) => options.x !== "epoch" || Number.isInteger(mark.value)).map((mark) => ({ ...mark, text: options.x === "epoch" ? String(mark.value) : mark.text }));
  const dodge = (k) => (series.some((each) => each.bands) ? (k - (series.length - 1) / 2) * Math.min(4, 24 / series.length) : 0); /* whiskers beside each other, not on top */
  const node = svg(width, height, `${title}: ${series.map((each) => `${each.name} from ${figureText(each.ys[0])} to ${figureText(each.ys[each.ys.length - 1])}`).join("; ")}`,
    yAxis(y, left, ticks(low, high, 4), right, options.y), xAxis(x, height - bottom, marks, top, options.x, [left, right]),
    series.map((each, k) => [
      (each.bands || []).map((band, i) => band && finite(band[0]) && s("line", { x1: x(each.xs[i]) + dodge(k), x2: x(each.xs[i]) + dodge(k), y1: y(Math.max(low, band[0])), y2: y(Math.min(high, band[1])), stroke: each.colour, "stroke-opacity": 0.45, "stroke-width": 1.4 })),
      line(each.xs.map((value, i) => [x(value) + dodge(k), y(each.ys[i])]), each.colour, each.dash || 0),
      each.points && each.xs.map((value, i) => finite(each.ys[i]) && shape(each.shape || 0, x(value) + dodge(k), y(each.ys[i]), each.colour, each.hollow, `${each.name}: ${figureText(each.ys[i])}`, 3.6)),
      finite(each.mark) && s("line", { x1: x(each.mark), x2: x(each.mark), y1: top, y2: height - bottom, stroke: each.colour, "stroke-dasharray": "2 3" }),
    ]));
  const legend = series.length > 1 && !options.bare && h("ul", { class: "legend small" }, series.map((each) => h("li", {}, s("svg", { width: 22, height: 8, "aria-hidden": "true" }, line([[0, 4], [22, 4]], each.colour, each.dash || 0, 2)), each.name)));
  return h("figure", {}, h("h3", {}, title), node, legend);
}
