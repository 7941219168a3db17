// Iteration time and efficiency over the number of workers, with intervals and the knee.

function showScaling() {
  const section = view("scaling", "Scaling");
  section.append(html("ul", { class: "advice" }, (data.advice || []).map((line) => html("li", {}, line))));
  const rest = showWarnings(section);
  const all = curves();
  const hidden = new Set();
  const draws = [];
  const legend = html("ul", { class: "legend", "aria-label": "Schedules: press to hide or show" });
  for (const curve of all) {
    const style = styleOf(curve.index);
    const sample = svg("svg", { width: 44, height: 12, style: "width:44px;flex:none", "aria-hidden": "true" }, [
      svg("path", { d: "M0 6H44", stroke: style.colour, "stroke-width": isOurs(curve.name) ? 3.4 : 1.8, "stroke-dasharray": style.dash || null }),
      marker(22, 6, style)]);
    const button = html("button", { type: "button", "aria-pressed": "true" }, [sample, curve.name]);
    button.addEventListener("click", () => {
      if (hidden.has(curve.index)) hidden.delete(curve.index); else if (hidden.size < all.length - 1) hidden.add(curve.index);
      button.setAttribute("aria-pressed", String(!hidden.has(curve.index)));
      draws.forEach((draw) => draw());
    });
    legend.append(html("li", {}, button));
  }
  section.append(legend);
  const pair = html("div", { class: "pair" });
  section.append(pair);
  const shown = () => all.filter((curve) => !hidden.has(curve.index));
  draws.push(chart(pair, () => "Iteration time in ms", (width) => curvesChart(width, shown(), {
    value: (entry) => entry.iteration_us / 1000, title: "iteration in ms", unit: " ms", logarithmic: true,
    low: (entry) => entry.interval && entry.interval.low_us / 1000, high: (entry) => entry.interval && entry.interval.high_us / 1000 })));
  // A single worker varies along with the others, so that no efficiency is above 100 %.
  const highest = (entry) => Math.max(entry.scaling_efficiency, Math.min(1, entry.scaling_efficiency * entry.iteration_us / entry.interval.low_us));
  draws.push(chart(pair, () => "Scaling efficiency in %", (width) => curvesChart(width, shown(), {
    value: (entry) => 100 * entry.scaling_efficiency, title: "efficiency in %", unit: " %", logarithmic: false,
    low: (entry) => entry.interval && 100 * entry.scaling_efficiency * entry.iteration_us / entry.interval.high_us,
    high: (entry) => entry.interval && 100 * highest(entry) })));
  if (data.results.some((entry) => entry.interval))
    section.append(html("p", { class: "quiet" }, "Bands hold 95 % of iterations drawn from the measured spread of the inputs."));
  if (data.knees && data.knees.some((knee) => knee.is_passed && knee.workers > 1))
    section.append(html("p", { class: "quiet" }, "A ring marks the knee of a curve: beyond it, an added worker adds less than half of the throughput of a single worker."));
  section.append(...rest);
}

function curvesChart(width, shown, what) {
  const named = width >= 430 && shown.length <= 14;
  const names = named ? Math.min(150, 26 + Math.max(...shown.map((curve) => textWidth(curve.name)))) : 14;
  const left = 66, right = width - names, top = 12, height = Math.max(Math.min(printing ? 255 : 400, Math.max(260, width * 0.62)), named ? shown.length * 15 + 60 : 0), bottom = height - 44;
  const values = shown.flatMap((curve) => curve.points.flatMap((entry) => [what.value(entry), what.low(entry), what.high(entry)].filter((value) => value > 0)));
  const low = what.logarithmic ? Math.min(...values) / 1.12 : 0;
  const high = what.logarithmic ? Math.max(...values) * 1.12 : Math.max(100, ...values);
  const y = (what.logarithmic ? d3.scaleLog : d3.scaleLinear)([low, high], [bottom, top]);
  const x = d3.scaleLog(d3.extent(workerCounts), [left + 10, right - 10]);
  const out = [leftAxis(y, left, right, what.logarithmic ? logTicks(y, 6) : y.ticks(5), what.title)];
  let last = -Infinity;
  const largest = workerCounts[workerCounts.length - 1], end = x(largest) - textWidth(String(largest)) / 2 - 4;
  for (const count of workerCounts) {
    const at = x(count), half = textWidth(String(count)) / 2 + 4;
    if (at - half < last || (count !== largest && at + half > end)) continue;
    last = at + half;
    out.push(svg("path", { class: "axis", d: `M${at} ${bottom}v5` }), label(at, bottom + 19, count, { "text-anchor": "middle" }));
  }
  out.push(svg("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
  out.push(axisTitle((left + right) / 2, height - 6, "workers"));
  for (const curve of shown) {
    const style = styleOf(curve.index);
    const banded = curve.points.filter((entry) => entry.interval);
    if (banded.length > 0) {
      const band = d3.area((entry) => x(entry.workers), (entry) => y(what.low(entry)), (entry) => y(what.high(entry)));
      out.push(svg("path", { d: band(banded), fill: style.colour, stroke: style.colour, "stroke-width": banded.length > 1 ? 0 : 4, opacity: 0.18 }));
    }
    out.push(svg("path", { class: "curve" + (isOurs(curve.name) ? " ours" : ""), stroke: style.colour, "stroke-dasharray": style.dash || null,
      d: d3.line((entry) => x(entry.workers), (entry) => y(what.value(entry)))(curve.points) }));
    const knee = (data.knees || [])[curve.index];
    for (const entry of curve.points) {
      const px = x(entry.workers), py = y(what.value(entry));
      if (knee && knee.is_passed && knee.workers === entry.workers)
        out.push(svg("circle", { cx: px, cy: py, r: 7.5, fill: "none", stroke: style.colour, "stroke-width": 1.6 }));
      out.push(explained(marker(px, py, style), `${curve.name}, ${entry.workers} workers: ${number(what.value(entry), 5)}${what.unit}` +
        (entry.interval ? `, 95 % interval ${number(what.low(entry), 5)} to ${number(what.high(entry), 5)}${what.unit}` : "")));
    }
  }
  if (named) {
    const ends = shown.map((curve) => ({ curve, at: y(what.value(curve.points[curve.points.length - 1])) }));
    for (const end of spread(ends, 15, top + 2, bottom)) {
      const style = styleOf(end.curve.index), from = x(end.curve.points[end.curve.points.length - 1].workers);
      out.push(svg("path", { class: "leader", stroke: style.colour, d: `M${from + 5} ${end.at}L${right + 8} ${end.y}h7` }));
      out.push(label(right + 19, end.y + 4, shortened(end.curve.name, names - 22), {}));
    }
  }
  return { height, children: out };
}

function showNumbers() {
  const section = view("numbers", "All numbers");
  const best = new Map();
  for (const entry of data.results) if (!(best.get(entry.workers) <= entry.iteration_us)) best.set(entry.workers, entry.iteration_us);
  section.append(html("p", { class: "quiet" }, "The fastest schedule of each number of workers is in bold, with those that are not told apart from it."));
  section.append(table(data.results, [
    ["workers", (entry) => entry.workers], ["schedule", (entry) => entry.schedule, "left"], ["groups", (entry) => entry.groups],
    ["iteration ms", (entry) => ms(entry.iteration_us)], ["exposed ms", (entry) => ms(entry.exposed_communication_us)],
    ["channel ms", (entry) => ms(entry.communication_us)], ["samples/s", (entry) => entry.throughput_samples_per_s.toFixed(1)],
    ["speedup", (entry) => entry.speedup.toFixed(2)], ["efficiency", (entry) => percent(entry.scaling_efficiency)],
    ["sent per worker", (entry) => bytes(entry.bytes_sent_per_worker)]],
    (entry) => (entry.iteration_us === best.get(entry.workers) || (entry.interval && entry.interval.slower_share < 0.975) ? "best" : null)));
  if (data.jobs) showJobs(section);
}

function showJobs(section) {
  const rows = data.jobs.flatMap((job) => [...job.phases.map((phase) => ({ workers: job.workers, ...phase })), { ...job, name: "all of the job" }]);
  const columns = [["workers", (row) => row.workers], ["phase", (row) => row.name, "left"], ["schedule", (row) => row.schedule || "", "left"], ["epochs", (row) => row.epochs || ""],
    ["iterations an epoch", (row) => row.iterations_per_epoch || ""], ["first epoch ms", (row) => (row.phases ? "" : ms(row.first_epoch_iteration_us))],
    ["iteration ms", (row) => (row.phases ? "" : ms(row.iteration_us))], ["seconds", (row) => row.seconds.toFixed(1)]];
  if (data.jobs.some((job) => job.cost !== undefined)) columns.push(["cost", (row) => (row.cost === undefined ? "" : row.cost.toFixed(2))]);
  section.append(html("h3", {}, "The whole job"), table(rows, columns, (row) => (row.phases ? "best" : null)));
}
