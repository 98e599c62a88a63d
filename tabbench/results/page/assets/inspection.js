/* How a representation develops: curves, a map with a slider over epochs, tokens, features. */
const GOOD = {
  kl: "embeddings of different rows differ", distance: "embeddings of different rows lie apart", uniformity: "embeddings spread over the space",
  probe: "a linear model can read the target", rank_me: "more directions are used", token_variance: "features keep their own meaning",
};
const METRIC_NAMES = { kl: "mean pairwise KL divergence", distance: "mean pairwise distance", uniformity: "uniformity", probe: "linear probe on validation", rank_me: "effective rank", token_variance: "variance between tokens of a row" };
const RAMP = ["#3b4cc0", "#5977e3", "#7b9ff9", "#9ebeff", "#c0d4f5", "#d9dce1", "#f2cbb7", "#f7ac8e", "#ee8468", "#d65244", "#b40426"];
const CLASSES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7a00", "#808890"];
function mapColour(target, value) {
  if (target.kind === "number") return RAMP[Math.max(0, Math.min(10, Math.round(value * 10)))];
  return CLASSES[value % CLASSES.length];
}
function mapChart(one, epoch, size) {
  const map = one.maps[epoch], points = map.points;
  const xs = points.map((point) => point[0]), ys = points.map((point) => point[1]);
  const [lx, hx] = extent(xs), [ly, hy] = extent(ys);
  const half = Math.max(hx - lx, hy - ly) / 2 || 1, cx = (lx + hx) / 2, cy = (ly + hy) / 2;
  const x = scale(cx - half, cx + half, 4, size - 4), y = scale(cy - half, cy + half, size - 4, 4);
  return svg(size, size, `Map of ${points.length} rows, ${map.epoch ? `epoch ${map.epoch}` : "untrained"}: first two principal components, coloured by target`,
    s("rect", { x: 0.5, y: 0.5, width: size - 1, height: size - 1, fill: "none", class: "grid" }),
    points.map((point, i) => shape(one.target.kind === "number" ? 0 : one.target.values[i] % 5, x(point[0]), y(point[1]), mapColour(one.target, one.target.values[i]), false, null, 2.6)));
}
function targetLegend(target) {
  if (target.kind === "number")
    return h("ul", { class: "legend" }, h("li", {}, `${figureText(target.low)} `, s("svg", { width: 110, height: 10, "aria-hidden": "true" }, RAMP.map((colour, i) => s("rect", { x: i * 10, y: 0, width: 10, height: 10, fill: colour }))), ` ${figureText(target.high)} (${target.name})`));
  return h("ul", { class: "legend" }, target.names.slice(0, 12).map((name, i) => h("li", {}, s("svg", { width: 12, height: 12, "aria-hidden": "true" }, shape(i % 5, 6, 6, CLASSES[i % CLASSES.length], false, null, 4)), cut(name, 24))), target.names.length > 12 && h("li", {}, `and ${target.names.length - 12} more classes`));
}
function heatMap(title, names, columns, values, text) {
  const known = values.flat().filter(finite);
  const most = text ? 1 : Math.max(...known.map(Math.abs)) || 1; /* as far below 0 as above, so that grey is 0 */
  const share = (value) => (value + most) / (2 * most);
  return h("figure", {}, h("h3", {}, title), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": title }, h("table", { class: "matrix" },
    columns && h("thead", {}, h("tr", {}, h("td", {}), columns.map((name) => h("th", { scope: "col" }, cut(name, 18))))),
    h("tbody", {}, names.map((name, i) => h("tr", {}, h("th", { scope: "row" }, cut(name, 26)), values[i].map((value) => {
      const p = share(value), strong = p > 0.8 || p < 0.2;
      return h("td", { style: `background:${RAMP[Math.round(p * 10)]};color:${strong ? "#fff" : "#111"};${text ? "" : "padding:.3rem;min-width:.6rem"}`, title: `${name}: ${figureText(value)}` }, text ? figureText(value, 2) : "");
    })))))), h("p", { class: "soft" }, `Blue: ${signed(-most, 2)}. Grey: 0. Red: ${signed(most, 2)}.`));
}
const named = (name) => (METRIC_NAMES[name] || name).replaceAll("_", " ");
function trainingCharts(one) {
  const runs = [[one.ssl, one.training || {}], ...Object.entries(one.ablation || {}).map(([label, other]) => [label, other.training || {}])];
  return unique(runs.flatMap(([, curves]) => Object.keys(curves))).map((name) => curveChart(`training: ${name.replaceAll("_", " ")}`,
    runs.filter(([, curves]) => curves[name]).map(([label, curves], i) => ({ name: label, xs: curves[name].map((_, k) => k + 1), ys: curves[name], colour: `var(--c${i % 8})`, dash: i })), { x: "epoch", width: 330, height: 190 }));
}
function drawInspection(place, one) {
  const epochs = one.metrics.epoch, ablation = one.ablation || {};
  const figures = Object.keys(METRIC_NAMES).filter((name) => one.metrics[name] && one.metrics[name].some(finite)).map((name) => {
    const figure = curveChart(named(name), [
      { name: one.ssl, xs: epochs, ys: one.metrics[name], colour: "var(--c0)", points: true },
      ...Object.entries(ablation).filter(([, other]) => other[name]).map(([label, other], i) => ({ name: label, xs: other.epoch, ys: other[name], colour: `var(--c${(i + 1) % 8})`, dash: i + 1, points: true, hollow: true })),
    ], { x: "epoch", width: 330, height: 190 });
    figure.append(h("figcaption", {}, `Higher is better: ${GOOD[name]}.`));
    return figure;
  });
  place.append(h("div", { class: "charts" }, figures));
  const training = trainingCharts(one);
  if (training.length) place.append(h("h3", {}, Object.keys(ablation).length ? "Training regime, and the same with other settings" : "Training regime"), h("p", { class: "soft" }, "A loss that falls to nearly 0 at once and stays there means a collapse. If it rises again, the encoder has escaped it."), h("div", { class: "charts" }, training));
  if (one.maps && one.maps.length) {
    const picture = h("div", {}), tokens = h("div", {}), caption = h("output", {});
    const slider = h("input", { type: "range", min: 0, max: one.maps.length - 1, step: 1, value: one.maps.length - 1, "aria-label": "Epoch of the map and of the tokens" });
    const draw = () => {
      const map = one.maps[+slider.value];
      picture.replaceChildren(mapChart(one, +slider.value, Math.min(420, place.clientWidth || 420)));
      if (one.tokens && one.tokens.frames[+slider.value]) tokens.replaceChildren(heatMap("Tokens of one row", one.tokens.names, null, one.tokens.frames[+slider.value], false), h("p", { class: "soft" }, "Each line is one feature's token, each column one dimension. If all lines look alike, the representation has collapsed, or the encoder does not tell features apart."));
      caption.textContent = map.epoch ? `epoch ${map.epoch}` : "untrained";
      slider.setAttribute("aria-valuetext", caption.textContent);
    };
    slider.addEventListener("input", draw);
    place.append(h("h3", {}, "Map of the same rows"), h("p", { class: "soft" }, `First two principal components, coloured by the target. It is good if rows with similar targets lie close together.${one.maps.length > 1 ? " The slider moves through the epochs." : ""}`), targetLegend(one.target), h("p", {}, slider, " ", caption), h("div", { class: "pair" }, h("figure", {}, picture), tokens));
    draw();
  }
  if (one.kendall) place.append(heatMap("Kendall's tau: how well rankings of features agree", one.kendall.names, one.kendall.names, one.kendall.values, true), h("p", { class: "soft" }, "1: the same order. 0: nothing in common. It is good if the encoder's measures agree with the trees, which have seen the target, more than a random order does."));
}
