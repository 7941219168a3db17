// The fastest sharded plans over the memory that a worker needs, above what no plan beats.

function showFront() {
  const section = view("front", "Time against memory");
  const { plans, chosen, workers, exact, activations } = data.front;
  chart(section, () => `Iteration in ms over the peak memory of a worker in GB, ${workers} workers`, (width) => frontChart(width, data.front),
    [["fastest known plan", (x, y) => marker(x, y, look(0))], ["chosen: the fastest within the cap, or of all", (x, y) => marker(x, y, look(0), 130)],
      ...(exact ? [] : [["no plan within that memory takes less", (x, y) => svg("path", { d: `M${x - 8} ${y}h16`, stroke: COLOURS[1], "stroke-width": 2, "stroke-dasharray": "4 4" })]])]);
  if (exact) section.append(html("p", { class: "quiet" }, "The front is exact: no plan is faster within as much memory."));
  if (!activations) section.append(html("p", { class: "quiet" }, "Activations are left out."));
  section.append(table(plans, [["memory MB", (plan) => (plan.peak_bytes / 1e6).toFixed(1)], ["iteration ms", (plan) => ms(plan.iteration_us)],
    ["above the bound", (plan) => percent(plan.iteration_us / plan.lower_bound_us - 1)], ["groups", (plan) => plan.groups], ["of whole", (plan) => plan.units, "left"],
    ["prefetch", (plan) => plan.prefetch], ["backward prefetch", (plan) => plan.backward_prefetch], ["kept groups", (plan) => plan.kept_groups]],
  (plan) => (plan === plans[chosen] ? "best" : null)));
}

function frontChart(width, { plans, chosen, exact }) {
  const left = 66, right = width - 24, top = 10, bottom = 320, gb = (plan) => plan.peak_bytes / 1e9;
  const x = d3.scaleLinear(around(plans.map(gb)), [left, right]);
  const y = d3.scaleLinear(around([...plans.map((plan) => plan.iteration_us / 1000), ...(exact ? [] : plans.map((plan) => plan.lower_bound_us / 1000))]), [bottom, top]);
  const steps = (us, curve, end) => d3.line((plan) => x(plan === null ? x.invert(end) : gb(plan)), (plan) => y(us(plan || plans[plans.length - 1]) / 1000)).curve(curve);
  const out = [leftAxis(y, left, right, y.ticks(5), "iteration in ms"), bottomAxis(x, top, bottom, "peak memory of a worker in GB")];
  // A plan is the fastest known one up to the memory of the next; a bound holds for all plans of no more memory.
  if (!exact) out.push(svg("path", { class: "curve", stroke: COLOURS[1], "stroke-dasharray": "4 4", d: steps((plan) => plan.lower_bound_us, d3.curveStepBefore)(plans) }));
  out.push(svg("path", { class: "curve", stroke: COLOURS[0], d: steps((plan) => plan.iteration_us, d3.curveStepAfter, right)([...plans, null]) }));
  plans.forEach((plan, i) => out.push(explained(marker(x(gb(plan)), y(plan.iteration_us / 1000), look(0), i === chosen ? 130 : 44),
    `${number(gb(plan), 5)} GB, ${ms(plan.iteration_us)} ms, ${plan.groups} group${plan.groups === 1 ? "" : "s"}, no plan below ${ms(plan.lower_bound_us)} ms${i === chosen ? ", chosen" : ""}`)));
  return { height: bottom + 42, children: out };
}

/** The ends of an axis: from 0 if distances from there can still be seen, otherwise around the values. */
function around(values) {
  const [low, high] = d3.extent(values), room = 0.08 * (high - low || high);
  return [low < high / 2 ? 0 : low - room, high + room];
}
