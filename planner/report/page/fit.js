// How far the models of a fit are off, size by size.

const FIT_MODELS = ["line", "segments", "curve"];
const FIT_TEXTS = { line: "one straight line", segments: "segments", curve: "lines between measured sizes, tested on sizes left out" };

function showFit() {
  const section = view("fit", "Errors of the fit");
  section.append(...showWarnings(section));
  const keys = [...FIT_MODELS.map((name, i) => [FIT_TEXTS[name], (x, y) => marker(x, y, look(i))]),
    ["border of segments", (x, y) => svg("path", { class: "axis", "stroke-dasharray": "3 3", d: `M${x} ${y - 7}v14` })]];
  section.append(html("p", { class: "quiet" }, "The scale leaves out errors of the straight line that exceed all others; such points lie on the edge."));
  for (const curve of data.fit) {
    chart(section, () => `${curve.title}: error in %`, (width) => fitChart(width, curve), keys);
    section.append(html("details", {}, [html("summary", {}, "As numbers"), table(curve.models, [["model", (model) => model.model, "left"], ["pieces", (model) => model.pieces],
      ["mean error", (model) => percent(shownErrors(model).mean_relative_error)], ["largest error", (model) => percent(shownErrors(model).max_relative_error)], ["sizes", (model) => shownErrors(model).residuals.length]])]));
  }
}

/** A curve passes through nearly all sizes: only those that were left out are informative. */
const shownErrors = (model) => (model.out_of_sample && (model.model === "curve" || !model.in_sample) ? model.out_of_sample : model.in_sample);
const sizeText = (count) => (count >= 1048576 ? number(count / 1048576, 4) + " MiB" : count >= 1024 ? number(count / 1024, 4) + " KiB" : count + " B");

function fitChart(width, curve) {
  const left = 66, right = width - 16, top = 8, bottom = 200, height = bottom + 46;
  const sizes = curve.models.flatMap((model) => shownErrors(model).residuals.map(([size]) => Math.max(1, size)));
  const from = Math.min(...sizes), to = Math.max(2, ...sizes);
  const most = Math.max(1, ...curve.models.filter((model) => model.model !== "line").map((model) => 110 * shownErrors(model).max_relative_error));
  const x = d3.scaleLog([from, to], [left + 8, right - 8]).base(2), y = d3.scaleLinear([-most, most], [bottom, top]);
  const step = Math.max(1, Math.ceil(Math.log2(to / from) / ((right - left) / 72)));
  const powers = d3.range(Math.ceil(Math.log2(from)), Math.log2(to) + 1e-9, step).map((power) => 2 ** power);
  const out = [leftAxis(y, left, right, y.ticks(6), "error in %", (error) => (error > 0 ? "+" : "") + number(error)), svg("path", { class: "axis", d: `M${left} ${y(0)}H${right}` }),
    drawnAxis(d3.axisBottom(x).tickValues(powers).tickFormat(sizeText), 0, bottom, -5)];
  out.push(axisTitle((left + right) / 2, height - 6, "size of the message"));
  for (const border of curve.borders) if (border > from && border < to) out.push(svg("path", { class: "axis", "stroke-dasharray": "3 3", d: `M${x(border)} ${top}V${bottom}` }));
  for (const model of curve.models) for (const [size, us, predicted] of shownErrors(model).residuals) {
    const error = 100 * (predicted / us - 1);
    out.push(explained(marker(x(Math.max(1, size)), y(Math.min(most, Math.max(-most, error))), look(FIT_MODELS.indexOf(model.model)), 24),
      `${FIT_TEXTS[model.model]}, ${sizeText(size)}: ${number(predicted, 5)} us predicted, ${number(us, 5)} us measured, ${number(error, 3)} %`));
  }
  return { height, children: out };
}
