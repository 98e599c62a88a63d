/* The charts below the table. Each fills its section, or says that there is nothing to draw. */
const FEW = 12;
const roomOf = (place, columns = 1) => Math.max(280, Math.min(640, Math.floor((place.clientWidth || 900) / columns) - 20));
const columnsOf = (place, figures = 99) => Math.max(1, Math.min(figures, Math.floor(((place.clientWidth || 900) + 24) / (368 + 24))));
const chartGrid = (columns, figures) => h("div", { class: "charts", style: `grid-template-columns:repeat(${columns},minmax(0,1fr))` }, figures);
const groupName = (row) => (row.tag ? `${rowName(row)} [${row.tag}]` : rowName(row)); /* within a group: its protocol and labels go without saying */
const tagOf = (variant) => (view().rows.find((row) => row.variant === variant) || { tag: variant }).tag;
const denseRoom = (place) => { const width = place.clientWidth || 900, columns = Math.max(1, Math.floor((width + 26) / (240 + 26))); return Math.floor((width - 26 * (columns - 1)) / columns); };
const dashOf = (ssl, protocol) => (protocol === "finetune" ? 1 : 0) + (ssl.startsWith("untrained:") ? 2 : 0);
const marker = (style) => s("svg", { width: 14, height: 12, "aria-hidden": "true" }, shape(style.shape, 7, 6, style.colour, style.hollow, null, 4.2));
/* Raw features first, then each method and its untrained encoder. */
function byMethod(a, b) {
  const key = (ssl) => (ssl === "none" ? "" : `${ssl.replace(/^untrained:/, "")} ${ssl.startsWith("untrained:") ? 1 : 0}`);
  return key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
}
function methodLegend(rows) {
  const methods = unique(rows.map((r) => view().rows[r].ssl)).sort(byMethod);
  return h("ul", { class: "legend" }, methods.map((ssl) => h("li", {}, marker(colourOf({ ssl })), ssl === "none" ? "none (raw features)" : ssl)));
}
/* Rows as dots with whiskers over an axis. */
function dotPlot(title, items, width, unit, zero, bounds) {
  const step = 21, left = Math.min(width * 0.46, 16 + 6.3 * Math.max(...items.map((each) => each.name.length))), top = 4, bottom = 34, height = top + step * items.length + bottom;
  const clip = (value) => (bounds && finite(value) ? Math.max(bounds[0], Math.min(bounds[1], value)) : value);
  const [low, high] = extent([...items.flatMap((each) => [each.value, clip(each.low), clip(each.high)]), ...(zero ? [0] : [])]);
  const place = scale(low, high, left, width - 10), x = (value) => place(clip(value));
  const node = svg(width, height, `${title}: ${items.slice(0, 3).map((each) => `${each.name} ${figureText(each.value)}`).join(", ")}${items.length > 3 ? ` and ${items.length - 3} more` : ""}`,
    xAxis(x, height - bottom, ticks(low, high, width > 420 ? 6 : 4).filter((mark) => !bounds || (mark.value >= bounds[0] && mark.value <= bounds[1])), top, unit, [left, width - 10]), zero && s("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: height - bottom }),
    items.map((each, i) => { const y = top + step * i + step / 2; return [
      s("text", { class: "ink", x: left - 10, y: y + 4, "text-anchor": "end" }, cut(each.name, Math.floor((left - 10) / 6)), s("title", {}, each.name)),
      finite(each.low) && s("line", { x1: x(each.low), x2: x(each.high), y1: y, y2: y, stroke: each.style.colour, "stroke-width": 1.6 }), finite(each.low) && [each.low, each.high].map((end) => s("line", { x1: x(end), x2: x(end), y1: y - 3.5, y2: y + 3.5, stroke: each.style.colour, "stroke-width": 1.6 })),
      shape(each.style.shape, x(each.value), y, each.style.colour, each.style.hollow, each.title)]; }));
  return h("figure", {}, h("h3", {}, title), node);
}
/* The critical-difference diagram: names on both sides of an axis of average ranks, bars over what cannot be told apart. */
function differenceChart(place, found) {
  if (found.reason) return h("p", { class: "soft" }, `No critical-difference diagram. ${found.reason}`);
  const width = Math.max(560, Math.min(1000, place.clientWidth || 900)), names = found.ranks, end = Math.max(Math.ceil(Math.max(...names.map(([, rank]) => rank))), 2), side = Math.ceil(names.length / 2);
  const left = Math.min(width * 0.36, 46 + 6.4 * Math.max(...names.map(([r]) => fullName(view().rows[r]).length))), letters = Math.floor((left - 46) / 6.4);
  const x = scale(1, end, left, width - left), top = 50 + found.bars.length * 9, height = top + side * 19 + 10, step = Math.max(1, Math.ceil(((end - 1) * 26) / (width - 2 * left)));
  const marks = range(end).filter((i) => i % step === 0).map((i) => i + 1);
  return h("figure", {}, h("h3", {}, "Critical difference"), h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Critical-difference diagram" }, svg(width, height, `Critical difference ${found.difference} over ${found.datasets} datasets; best: ${fullName(view().rows[names[0][0]])}`,
    names.map(([r, rank], i) => { const onLeft = i < side, y = top + (onLeft ? i : names.length - 1 - i) * 19 + 8, stop = onLeft ? left - 8 : width - left + 8, style = colourOf(view().rows[r]); return [s("path", { d: `M${x(rank)} 34V${y}H${stop}`, fill: "none", class: "grid" }), shape(style.shape, x(rank), 34, style.colour, style.hollow, `${fullName(view().rows[r])}: ${rank.toFixed(2)}`, 4),
      s("text", { class: "ink", x: stop + (onLeft ? -4 : 4), y: y + 4, "text-anchor": onLeft ? "end" : "start" }, onLeft ? `${cut(fullName(view().rows[r]), letters)}  ${rank.toFixed(1)}` : `${rank.toFixed(1)}  ${cut(fullName(view().rows[r]), letters)}`, s("title", {}, fullName(view().rows[r])))]; }),
    marks.map((mark) => [s("line", { class: "axis", x1: x(mark), x2: x(mark), y1: 26, y2: 34 }), s("text", { x: x(mark), y: 22, "text-anchor": "middle" }, String(mark))]), s("line", { class: "axis", x1: x(1), x2: x(end), y1: 34, y2: 34 }),
    s("line", { x1: x(1), x2: x(1 + found.difference), y1: 5, y2: 5, stroke: "var(--ink)", "stroke-width": 2 }), s("text", { x: x(1 + found.difference) + 6, y: 9 }, `critical difference ${figureText(found.difference, 2)}`),
    found.bars.map((bar, i) => { const own = bar.map((r) => names.find(([other]) => other === r)[1]); return s("line", { x1: x(Math.min(...own)) - 3, x2: x(Math.max(...own)) + 3, y1: 46 + i * 9, y2: 46 + i * 9, stroke: "var(--ink)", "stroke-width": 3.5 }); }))),
  h("figcaption", {}, `Friedman p = ${found.p.toPrecision(2)} over ${found.datasets} datasets. Rows joined by a bar cannot be told apart (Nemenyi, 95 %).`));
}
/* One group of rows at a time: those that share their ranks. */
function byGroup(place, groups, draw) {
  if (!groups.length) return false;
  const select = h("select", { "aria-label": "Group of rows" }, groups.map((g) => h("option", { selected: String(g) === place.dataset.group }, view().groups[g].title)));
  const body = h("div", {});
  const redraw = () => { const g = groups[Math.max(0, select.selectedIndex)]; place.dataset.group = g; body.replaceChildren(...[draw(g)].flat(Infinity).filter(Boolean)); };
  select.addEventListener("change", redraw);
  place.replaceChildren(...(groups.length > 1 ? [h("p", { class: "controls" }, h("label", {}, "Group ", select))] : []), body);
  redraw();
  return true;
}
const shownGroups = (test) => range(view().groups.length).filter((g) => shownRows().some((r) => view().rows[r].group === g) && test(view().statistics[g]));
const charts = {
  scores: (place) => byGroup(place, shownGroups(() => true), (g) => charts.scoresOf(place, g)),
  scoresOf(place, g) {
    const metric = view().metrics[state.metric], rows = shownRows().filter((r) => view().rows[r].group === g), datasets = shownDatasets();
    const limit = place.dataset.all ? datasets.length : FEW, columns = columnsOf(place, datasets.length), width = roomOf(place, columns);
    const figures = datasets.slice(0, limit).map((d) => {
      const items = rows.filter((r) => finite(mean(metric, r, d))).map((r) => {
        const row = view().rows[r], [value, low, high, , n] = metric.cells[r][d];
        return { name: groupName(row), value, low, high, style: colourOf(row), title: `${fullName(row)}: ${figureText(value)}${finite(low) ? ` [${figureText(low)}, ${figureText(high)}]` : ", interval not estimable"}, n = ${n}` };
      }).sort((a, b) => (lowerIsBetter(metric, d) ? a.value - b.value : b.value - a.value));
      const set = view().datasets[d];
      return items.length ? dotPlot(set.name, items, width, `${metric.name === "score" ? set.unit : metric.label} (${lowerIsBetter(metric, d) ? "lower" : "higher"} is better)`, false, boundsOf(metric, d)) : null;
    }).filter(Boolean);
    const all = () => { place.dataset.all = "1"; charts.scores(place); };
    return [methodLegend(rows), chartGrid(columns, figures), datasets.length > limit && h("p", {}, h("button", { type: "button", onclick: all }, `Show all ${datasets.length} datasets`))];
  },
  gains(place) {
    const shown = new Set(shownRows());
    const gained = view().gains.filter((gain) => shown.has(gain.row) && !view().rows[gain.row].control && gain.none.some((cell) => cell));
    return byGroup(place, unique(gained.map((gain) => view().rows[gain.row].group)).sort((a, b) => a - b), (g) => charts.gainsOf(place, gained.filter((gain) => view().rows[gain.row].group === g)));
  },
  gainsOf(place, found) {
    const datasets = shownDatasets();
    const start = (gain) => { const own = view().rows[gain.row]; return view().gains.find((other) => { const row = view().rows[other.row]; return row.ssl === `untrained:${own.ssl}` && row.model === own.model && row.group === own.group && row.variant === own.variant && String(row.trials) === String(own.trials); }); };
    const select = h("select", { "aria-label": "Dataset of the gains" }, h("option", {}, `${datasets.length > 1 ? "all datasets, " : ""}in % of the raw error`), datasets.map((d) => h("option", {}, `${view().datasets[d].name}, in ${view().datasets[d].unit}`)));
    const body = h("div", {});
    const draw = () => body.replaceChildren(select.selectedIndex === 0 ? overview() : single(datasets[select.selectedIndex - 1]));
    const overview = () => {
      const width = roomOf(place), step = 27, left = Math.min(190, width * 0.4), top = 6, bottom = 36, height = top + step * found.length + bottom;
      const percent = (cell) => (cell ? cell[5] : null);
      const values = found.flatMap((gain) => datasets.flatMap((d) => [percent(gain.none[d]), percent((start(gain) || { none: [] }).none[d])]));
      const known = values.filter(finite).sort((a, b) => a - b);
      const lo = Math.max(known[0] || 0, -100), hi = known[known.length - 1] || 1;
      const [low, high] = extent([lo, hi, 0]), x = scale(low, high, left, width - 12), clamp = (value) => Math.max(left, Math.min(width - 12, x(value)));
      return h("figure", {}, svg(width, height, `Gains of ${found.length} rows over raw features, in percent of the raw error`,
        xAxis(x, height - bottom, ticks(low, high, width > 480 ? 8 : 4), top, "gain in % of the raw error: better to the right", [left, width - 12]), s("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: height - bottom, "stroke-width": 1.5 }),
        found.map((gain, i) => { const row = view().rows[gain.row], style = colourOf(row), y = top + step * i + step / 2, before = start(gain); return [
          s("text", { class: "ink", x: left - 10, y: y + 4, "text-anchor": "end" }, cut(groupName(row), Math.floor((left - 10) / 6.1)), s("title", {}, fullName(row))),
          datasets.map((d) => { const cell = gain.none[d]; if (!cell || !finite(percent(cell))) return null; const from = before && before.none[d] ? percent(before.none[d]) : null; const name = view().datasets[d].name; return [
            finite(from) && s("line", { x1: clamp(from), x2: clamp(percent(cell)), y1: y, y2: y, stroke: style.colour, "stroke-opacity": 0.45 }), finite(from) && shape(style.shape, clamp(from), y, style.colour, true, `untrained on ${name}: ${signed(from, 1)} %`, 3.4),
            shape(style.shape, clamp(percent(cell)), y, style.colour, false, `${fullName(row)} on ${name}: ${signed(percent(cell), 1)} %, ${cell[4]}`, 4)]; }),
          finite(gain.percent[0]) && s("line", { x1: clamp(gain.percent[0]), x2: clamp(gain.percent[0]), y1: y - 9, y2: y + 9, stroke: "var(--ink)", "stroke-width": 2 }, s("title", {}, `mean: ${signed(gain.percent[0], 1)} %`))]; })),
      h("figcaption", {}, "Filled: trained, one mark per dataset. Hollow: the same encoder untrained. Line: what training adds. Bar: mean over datasets. 0: raw features.", known[0] < low && " Marks at the left edge lie beyond it."));
    };
    const single = (d) => {
      const items = found.filter((gain) => gain.none[d]).flatMap((gain) => { const row = view().rows[gain.row], before = start(gain); return [[gain, row, false], before && before.none[d] ? [before, view().rows[before.row], true] : null].filter(Boolean).map(([each, own]) => { const [value, low, high, , verdict] = each.none[d]; return { name: fullName(own), value, low, high, style: colourOf(own), title: `${fullName(own)}: ${signed(value)}${finite(low) ? ` [${signed(low)}, ${signed(high)}]` : ""}, ${verdict}` }; }); });
      return dotPlot(`Gain over raw features on ${view().datasets[d].name}`, items, roomOf(place), `${view().datasets[d].unit}: better to the right`, true);
    };
    select.addEventListener("change", draw);
    const verdicts = h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Verdicts" }, h("table", {}, h("caption", {}, "Over raw features and over the untrained encoder: helps / hurts / not shown, and the mean gain"), h("thead", {}, h("tr", {}, ["Method + model", "over raw", "gain", "over untrained", "gain"].map((text, i) => h("th", { scope: "col", style: i ? null : "text-align:left" }, text)))),
      h("tbody", {}, found.map((gain) => h("tr", {}, h("th", { scope: "row", style: "text-align:left;font-weight:400" }, groupName(view().rows[gain.row])), ["none", "untrained"].map((control, k) => {
        const cells = datasets.map((d) => gain[control][d]).filter((cell) => cell), count = (verdict) => cells.filter((cell) => cell[4] === verdict).length;
        if (!cells.length) return [h("td", { class: "empty" }, "–"), h("td", { class: "empty" }, "–")];
        const percents = cells.map((cell) => cell[5]).filter(finite), average = percents.length ? percents.reduce((a, b) => a + b, 0) / percents.length : null;
        return [h("td", {}, h("span", { class: "helps" }, `▲ ${count("helps")}`), "  ", h("span", { class: "hurts" }, `▼ ${count("hurts")}`), `  · ${cells.length - count("helps") - count("hurts")}`), h("td", {}, finite(average) ? `${signed(average, 1)} %` : "–")];
      }))))));
    draw();
    return [h("p", { class: "controls" }, h("label", {}, "Show ", select)), h("div", { class: "pair" }, body, verdicts)];
  },
  labels(place) {
    const rows = shownRows(), datasets = shownDatasets(), metric = view().metrics[state.metric];
    if (unique(view().rows.map((row) => row.labels)).length < 2) return false;
    const count = (row, d) => row.counts[d];
    const figures = [], models = unique(rows.map((r) => view().rows[r].model)), columns = columnsOf(place, datasets.length * models.length);
    for (const d of datasets) for (const model of models) {
      const curves = new Map();
      for (const r of rows) { const row = view().rows[r]; if (row.model !== model || !finite(mean(metric, r, d)) || !finite(count(row, d))) continue; const protocol = view().groups[row.group].protocol, key = JSON.stringify([row.ssl, row.raw ? "" : protocol, row.variant]); if (!curves.has(key)) curves.set(key, new Map()); curves.get(key).set(count(row, d), metric.cells[r][d]); }
      const series = [...curves].filter(([, points]) => points.size > 1).map(([key, points], i) => { const [ssl, protocol, variant] = JSON.parse(key), style = colourOf({ ssl }), sorted = [...points].sort((a, b) => a[0] - b[0]); return { name: [ssl, protocol === "frozen" ? "" : protocol, tagOf(variant)].filter(Boolean).join(" "), xs: sorted.map(([n]) => n), ys: sorted.map(([, cell]) => cell[0]), bands: sorted.map(([, cell]) => [cell[1], cell[2]]), colour: style.colour, shape: style.shape, hollow: style.hollow, dash: dashOf(ssl, protocol), points: true }; });
      if (series.length) figures.push(curveChart(`${view().datasets[d].name}, ${model}`, series, { x: `labels`, y: metric.name === "score" ? view().datasets[d].unit : metric.label, log: true, bare: true, width: roomOf(place, columns), height: 230 }));
    }
    if (!figures.length) return false;
    const limit = place.dataset.all ? figures.length : FEW, all = () => { place.dataset.all = "1"; charts.labels(place); };
    const worth = (view().labelWorth || []).filter(([r, name]) => rows.includes(r) && !state.off.data.has(name) && view().rows[r].labels !== "100%").slice(0, 40);
    const drawn = unique(rows.map((r) => JSON.stringify([view().rows[r].ssl, view().rows[r].raw ? "" : view().groups[view().rows[r].group].protocol]))).map((key) => JSON.parse(key)).sort((a, b) => byMethod(a[0], b[0]) || (a[1] === b[1] ? 0 : a[1] === "frozen" ? -1 : 1));
    const legend = h("ul", { class: "legend" }, drawn.map(([ssl, protocol]) => { const style = colourOf({ ssl }); return h("li", {}, s("svg", { width: 30, height: 12, "aria-hidden": "true" }, line([[0, 6], [30, 6]], style.colour, dashOf(ssl, protocol), 2), shape(style.shape, 15, 6, style.colour, style.hollow, null, 3.6)), ssl === "none" ? "none (raw features)" : protocol === "frozen" ? ssl : `${ssl}, ${protocol}`); }));
    place.replaceChildren(legend, chartGrid(columns, figures.slice(0, limit)), figures.length > limit ? h("p", {}, h("button", { type: "button", onclick: all }, `Show all ${figures.length} charts`)) : "", worth.length ? h("details", {}, h("summary", {}, "What pretraining is worth in labels"), h("ul", {}, worth.map(([r, name, text]) => h("li", {}, `${fullName(view().rows[r])} on ${name}: raw features need ${text} labels to do as well.`)))) : "");
    return true;
  },
  difference(place) {
    if (view().datasets.length > 1) return byGroup(place, shownGroups(() => true), (g) => charts.differenceOf(place, g));
    place.replaceChildren(h("p", { class: "soft" }, "There is one dataset. Average ranks, ratings and tests compare rows over several."));
    return true;
  },
  differenceOf(place, g) {
      const group = view().statistics[g], shown = shownRows().filter((r) => view().rows[r].group === g), columns = columnsOf(place, 3), width = roomOf(place, columns);
      const plot = (title, unit, found, lower, bounds) => {
        const items = shown.filter((r) => found(r) && finite(found(r)[0])).map((r) => { const [value, low, high] = found(r), row = view().rows[r]; return { name: groupName(row), value, low, high, style: colourOf(row), title: `${fullName(row)}: ${figureText(value, 2)}${finite(low) ? ` [${figureText(low, 2)}, ${figureText(high, 2)}]` : ""}` }; });
        return items.length > 1 && dotPlot(title, items.sort((x, y) => (lower ? x.value - y.value : y.value - x.value)), width, unit, false, bounds);
      };
      const figures = [plot("Average rank", "average rank: 1 is best", (r) => view().rows[r].rank, true, [1, Infinity]), plot("Rating", "Elo: higher is better", (r) => group.elo[r], false), plot("Distance to the best row", "improvability, % of the error: 0 is best", (r) => [group.improvability[r]], true)].filter(Boolean);
      return [methodLegend(shown), chartGrid(columns, figures), h("p", { class: "soft" }, "Whiskers: 95 % bootstrap intervals over datasets and splits. 400 points of rating mean odds of 10 to 1 of being better on a dataset. Ranks are among all rows of the group."), differenceChart(place, group.difference)];
  },
  wins: (place) => byGroup(place, shownGroups((group) => group.wins.rows.length > 1), (g) => {
      const group = view().statistics[g], rows = group.wins.rows, names = rows.map((r) => fullName(view().rows[r]));
      const cell = (found, i, j) => {
        if (!found) return h("td", { class: "empty" }, "·");
        const [won, tied, lost, open] = found, decided = won + tied + lost;
        if (!decided) return h("td", { class: "empty", title: "undecided everywhere" }, "–");
        const rate = (won + tied / 2) / decided, strength = Math.round(Math.abs(rate - 0.5) * 2 * 36), one = view().datasets.length === 1;
        return h("td", { title: `${names[i]} against ${names[j]}: ${won} won, ${tied} tied, ${lost} lost${open ? `, ${open} undecided` : ""}`, style: `background:color-mix(in srgb, var(${rate >= 0.5 ? "--c0" : "--c1"}) ${strength}%, var(--paper))` }, one ? (won ? "won" : lost ? "lost" : "tied") : `${won}–${tied}–${lost}`);
      };
      return [h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Win matrix" }, h("table", { class: "matrix" }, h("caption", {}, view().datasets.length === 1 ? "Row against column" : "Datasets that the row won – tied – lost against the column"), h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col", title: name }, name.split(" + ").flatMap((part, k) => (k ? [h("br"), `+ ${cut(part, 20)}`] : [cut(part, 20)])))))), h("tbody", {}, rows.map((r, i) => h("tr", {}, h("th", { scope: "row" }, cut(names[i], 34)), group.wins.cells[i].map((found, j) => cell(found, i, j))))))),
        h("p", { class: "soft" }, `${group.wins.rule}${group.wins.of > rows.length ? ` The best ${rows.length} of ${group.wins.of} rows.` : ""}`)];
  }),
  time: (place) => byGroup(place, shownGroups((group) => Object.keys(group.seconds).length > 1), (g) => {
      const shown = new Set(shownRows()), group = view().statistics[g];
      const points = Object.entries(group.seconds).map(([r, seconds]) => ({ r: +r, seconds, rank: view().rows[+r].rank[0] })).filter((point) => shown.has(point.r) && finite(point.rank) && point.seconds > 0);
      if (points.length < 2) return h("p", { class: "soft" }, "Fewer than two rows are shown.");
      const width = Math.min(1000, place.clientWidth || 760), height = 400, left = 44, bottom = 40, top = 24;
      const low = Math.min(...points.map((point) => point.seconds)), high = Math.max(...points.map((point) => point.seconds));
      const x = scale(low / 1.3, high * 1.5, left, width - 20, true), [best, worst] = extent(points.map((point) => point.rank)), y = scale(best, worst, top, height - bottom);
      const front = group.front.filter((r) => shown.has(r)).map((r) => points.find((point) => point.r === r)).filter(Boolean);
      const labels = (chosen) => { const taken = []; return chosen.map((point) => { const at = x(point.seconds), right = at > width * 0.62; const text = cut(fullName(view().rows[point.r]), 30), long = text.length * 6.2, from = right ? at - 10 - long : at + 10;
        const free = (level) => !taken.some(([a, b, c]) => from < b + 8 && a < from + long + 8 && Math.abs(c - level) < 12) && level > top + 6 && level < height - bottom - 5 && from > left && from + long < width - 4 && !points.some((other) => x(other.seconds) > from - 6 && x(other.seconds) < from + long + 6 && Math.abs(y(other.rank) + 4 - level) < 12);
        const level = [-9, 17, 4, -22, 30, -35].map((shift) => y(point.rank) + shift).find(free);
        if (level === undefined) return null; /* a label over another says less than none; the mark has its name as a title */
        taken.push([from, from + long, level]); return s("text", { class: "ink halo", x: at + (right ? -10 : 10), y: level, "text-anchor": right ? "end" : "start" }, text); }); };
      return [methodLegend(points.map((point) => point.r)), h("figure", {}, svg(width, height, `Average rank against seconds; on the front: ${front.map((point) => fullName(view().rows[point.r])).join(", ")}`,
        yAxis(y, left, ticks(best, worst, 8).filter((mark) => mark.value >= 1), width - 20, "average rank (1 is best, on top)"), xAxis(x, height - bottom, logTicks(low / 1.3, high * 1.5), top, "seconds per record, mean over datasets (log scale)", [left, width - 20]),
        line(front.map((point) => [x(point.seconds), y(point.rank)]), "var(--soft)", 1, 1.4),
        points.map((point) => { const row = view().rows[point.r], style = colourOf(row); return shape(style.shape, x(point.seconds), y(point.rank), style.colour, style.hollow, `${fullName(row)}: rank ${point.rank.toFixed(2)}, ${figureText(point.seconds)} s`, 5.2); }),
        labels([...front, ...points.filter((point) => !front.includes(point))])),
      h("figcaption", {}, `Up and to the left is better. Dashed: no other row is as good and as fast. Over ${group.timed} dataset${group.timed === 1 ? "" : "s"}.`))];
  }),
  curves(place) {
    const sets = data.curves.sets.filter((each) => !state.off.data.has(each.data) && !state.off.ssl.has(each.ssl) && !state.off.model.has(each.model));
    if (!sets.length) return false;
    const names = unique(sets.map((each) => each.data));
    const select = h("select", { "aria-label": "Dataset of the curves" }, names.map((name) => h("option", {}, name)));
    const what = h("select", { "aria-label": "Kind of training" }, unique(sets.map((each) => each.what)).map((kind) => h("option", { value: kind }, kind === "pretraining" ? "encoders" : "models")));
    const body = h("div", {});
    const titleOf = (each) => [each.ssl, each.model && `+ ${each.model}`, tagOf(each.variant) && `[${tagOf(each.variant)}]`].filter(Boolean).join(" ");
    const draw = () => {
      const options = { x: "epoch", width: denseRoom(place), height: 170 };
      const own = sets.filter((each) => each.data === names[select.selectedIndex] && each.what === what.value);
      body.replaceChildren(h("div", { class: "charts dense" }, own.slice(0, 60).flatMap((each) => {
        const style = colourOf(each), plain = titleOf(each), title = own.filter((other) => titleOf(other) === plain).length > 1 ? [plain, each.protocol !== "raw" && each.protocol, each.labels !== "100%" && `${each.labels} labels`].filter(Boolean).join(", ") : plain;
        const losses = ["loss", "train_loss", "validation_loss"].filter((name) => each.curves[name]);
        const series = (name, i) => ({ name: name.replaceAll("_", " "), xs: each.curves[name][0], ys: each.curves[name][1], colour: i ? "var(--soft)" : style.colour, dash: i, mark: i === 0 && finite(each.best) ? each.best : null });
        return [losses.length && curveChart(`${title}: loss`, losses.map(series), options), ...Object.keys(each.curves).filter((name) => !losses.includes(name)).map((name) => curveChart(`${title}: ${name.replaceAll("_", " ")}`, [series(name, 0)], options))].filter(Boolean);
      })), own.length ? "" : h("p", { class: "soft" }, "No curves of this kind here."));
    };
    [select, what].forEach((each) => each.addEventListener("change", draw));
    place.replaceChildren(h("p", { class: "controls" }, names.length > 1 && h("label", {}, "Dataset ", select), what.options.length > 1 && h("label", {}, "Training of ", what)), body, h("p", { class: "soft" }, `First split and seed of each row${data.curves.of > data.curves.sets.length ? `; ${data.curves.sets.length} of ${data.curves.of} trainings` : ""}. Dotted: the epoch whose weights were kept; at 0, the encoder as it was before training.`));
    draw();
    return true;
  },
  tuning(place) {
    const studies = data.tuning.studies.filter((each) => !state.off.data.has(each.data) && !state.off.ssl.has(each.ssl) && !state.off.model.has(each.model));
    if (!studies.length) return false;
    const names = unique(studies.map((each) => each.data)), select = h("select", { "aria-label": "Dataset of the searches" }, names.map((name) => h("option", {}, name))), body = h("div", { class: "charts dense" });
    const draw = () => body.replaceChildren(...studies.filter((each) => each.data === names[select.selectedIndex]).slice(0, 60).map((each) => {
      const style = colourOf(each), width = denseRoom(place), height = 182, left = 46, bottom = 34, top = 20, better = each.lower ? Math.min : Math.max, good = each.trials.filter((trial) => finite(trial[1]));
      if (!good.length) return h("figure", {}, h("h3", {}, `${each.ssl} + ${each.model}`), h("p", { class: "soft" }, "no trial has a score"));
      const [low, high] = extent(good.map((trial) => trial[1])), last = Math.max(1, ...each.trials.map((trial) => trial[0])), x = scale(0, last, left + 6, width - 12), y = scale(low, high, height - bottom, top);
      let best = each.lower ? Infinity : -Infinity; const steps = good.flatMap(([number, value]) => { const before = best; best = better(best, value); return [...(finite(before) ? [[x(number), y(before)]] : []), [x(number), y(best)]]; });
      return h("figure", {}, h("h3", {}, `${each.role === "encoder" ? each.ssl : `${each.ssl} + ${each.model}`}: ${each.role}, split ${each.split}`), svg(width, height, `${each.trials.length} trials; default ${figureText((each.trials.find((trial) => trial[0] === 0) || [])[1])}, best ${figureText(best)}`,
        yAxis(y, left, ticks(low, high, 4), width - 8, `${each.role === "encoder" ? "linear probe" : each.unit} (${each.lower ? "lower" : "higher"} is better)`), xAxis(x, height - bottom, ticks(0, last, 4).filter((mark) => Number.isInteger(mark.value)), top, "trial", [left, width - 8]), line(steps, style.colour, 0, 1.4),
        each.trials.map(([number, value, status]) => finite(value) ? (number === 0 ? shape(3, x(0), y(value), "var(--ink)", true, `default settings: ${figureText(value)}`, 5) : shape(0, x(number), y(value), style.colour, status !== "ok", `trial ${number}, ${status}: ${figureText(value)}`, 3.2)) : s("text", { x: x(number), y: height - bottom - 3, "text-anchor": "middle" }, "×", s("title", {}, `trial ${number}: ${status}`)))));
    }));
    select.addEventListener("change", draw);
    place.replaceChildren(names.length > 1 ? h("p", { class: "controls" }, h("label", {}, "Dataset ", select)) : "", body, h("p", { class: "soft" }, "Scores on validation. Diamond: the default settings. Line: the best so far. Hollow: stopped early. ×: failed."));
    draw();
    return true;
  },
  inspections(place) {
    if (!data.inspections || !data.inspections.length) return false;
    const select = h("select", { "aria-label": "Inspection" }, data.inspections.map((one) => h("option", {}, `${one.ssl} on ${one.data}`))), body = h("div", {});
    const draw = () => { body.replaceChildren(); drawInspection(body, data.inspections[select.selectedIndex]); };
    select.addEventListener("change", draw);
    place.replaceChildren(data.inspections.length > 1 ? h("p", { class: "controls" }, h("label", {}, "Show ", select)) : "", body);
    draw();
    return true;
  },
};
