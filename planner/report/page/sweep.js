// The points of a sweep as a heat map over two of its axes.

function showSweep() {
  const section = view("sweep", "Sweep");
  if (data.sweep.problem) {
    section.append(html("p", { class: "warning" }, data.sweep.problem));
    return;
  }
  const axes = data.sweep.axes, long = axes.filter((axis) => axis.values.length > 1);
  const names = (long.length >= 2 ? long : axes).map((axis) => axis.name);
  // A file with rows may lack some points of the product.
  const scaled = (key, factor) => (i) => (data.sweep[key][i] === null ? null : factor * data.sweep[key][i]);
  const measures = [["efficiency in %", scaled("scaling_efficiency", 100), true], ["iteration in ms", scaled("iteration_us", 1e-3), false],
    ["exposed communication in ms", scaled("exposed_communication_us", 1e-3), false], ["samples/s", scaled("throughput_samples_per_s", 1), true]];
  const state = { across: names.includes("workers") ? "workers" : names[0], down: names.find((name) => name !== "workers") || names[0], measure: 0, fixed: Object.fromEntries(axes.map((axis) => [axis.name, axis.name === "schedule" && axis.values.includes("fusewise") ? axis.values.indexOf("fusewise") : 0])) };
  const controls = html("div", { class: "controls" }), place = html("div");
  section.append(controls, place);
  const free = () => axes.filter((axis) => axis.name !== state.across && axis.name !== state.down && axis.values.length > 1);
  const title = () => [`${capital(measures[state.measure][0])} by ${state.across} and ${state.down}`, ...free().map((axis) => `${axis.name} ${axis.values[state.fixed[axis.name]]}`)].join(", ");
  const show = () => {
    controls.replaceChildren(
      selection("Across", names.filter((name) => name !== state.down), state.across, (value) => { state.across = value; show(); }),
      selection("Down", names.filter((name) => name !== state.across), state.down, (value) => { state.down = value; show(); }),
      selection("Colour", measures.map(([name]) => name), measures[state.measure][0], (value) => { state.measure = measures.findIndex(([name]) => name === value); show(); }),
      ...free().map((axis) => selection(axis.name, axis.values, axis.values[state.fixed[axis.name]], (value) => { state.fixed[axis.name] = axis.values.indexOf(value); draw(); })));
    draw();
  };
  const draw = chart(place, title, (width) => heatMap(width, axes, state, measures[state.measure]));
  show();
}

function heatMap(width, axes, state, [name, value, more]) {
  const across = axes.find((axis) => axis.name === state.across), down = axes.find((axis) => axis.name === state.down);
  const point = (a, d) => axes.reduce((index, axis) => index * axis.values.length + (axis === across ? a : axis === down ? d : state.fixed[axis.name]), 0);
  const values = across.values.flatMap((_, a) => down.values.map((__, d) => value(point(a, d))));
  // From dark blue to yellow, which colour-blind readers see as dark to light; the best value is the lightest.
  const [low, high] = d3.extent(values), colours = d3.scaleSequential(more ? [low, high] : [high, low], d3.interpolateCividis);
  const left = Math.min(width * 0.3, 22 + Math.max(textWidth(down.name), ...down.values.map(textWidth))), top = 24, cell = (width - left - 6) / across.values.length, row = 34;
  const out = [label(left - 8, 14, down.name, { "text-anchor": "end", class: "quiet" })];
  across.values.forEach((text, a) => { if (cell > 14) out.push(label(left + cell * (a + 0.5), 14, shortened(text, cell - 2), { "text-anchor": "middle" })); });
  down.values.forEach((text, d) => {
    out.push(label(left - 8, top + row * d + 21, shortened(text, left - 12), { "text-anchor": "end" }));
    across.values.forEach((other, a) => {
      const here = value(point(a, d));
      if (here === null) return;
      const colour = colours(here), light = d3.lab(colour).l > 48;
      out.push(explained(svg("rect", { x: left + cell * a, y: top + row * d, width: Math.max(cell / 2, cell - 1.5), height: row - 1.5, fill: colour }), `${across.name} ${other}, ${down.name} ${text}: ${name} ${number(here, 5)}`));
      const shown = number(here, 4);
      if (textWidth(shown) < cell - 4) out.push(label(left + cell * (a + 0.5), top + row * d + 21, shown, { "text-anchor": "middle", style: `fill:${light ? "#10151a" : "#ffffff"};pointer-events:none` }));
    });
  });
  const height = top + row * down.values.length + 26;
  out.push(label(left, height - 8, shortened(`across: ${across.name}; numbers: ${name}`, width - left), { class: "quiet" }));
  return { height, children: out };
}
