// Predictions of a suite or of live runs beside measurements.

function showAccuracy() {
  const section = view("accuracy", "Predicted and measured");
  const errors = data.accuracy.filter((row) => !row.is_part).map((row) => Math.abs(errorOf(row)));
  section.append(html("p", {}, `${errors.length} measured case${errors.length === 1 ? "" : "s"}; the predicted iteration is off by ${percent(d3.mean(errors))} in the mean and ${percent(d3.max(errors))} at worst.`));
  const unjudged = data.accuracy.filter((row) => row.verdict === "not judged"), reasons = new Set(unjudged.map((row) => row.not_judged_because));
  if (unjudged.length > 0) {
    const which = unjudged.length === data.accuracy.length ? "None of these cases is" : `${unjudged.length} of these cases ${unjudged.length === 1 ? "is" : "are"} not`;
    const why = reasons.size > 1 ? "The table names the reasons." : [...reasons][0] ? `Reason: ${[...reasons][0]}.` : "";
    section.append(html("p", { class: "warning" }, `${which} judged, because the machine was not quiet during the measurement. Errors of such cases say nothing for or against the predictions. ${why}`));
  }
  chart(section, () => "Error of each prediction in % of the measured iteration", (width) => errorChart(width, data.accuracy),
    [swatch("measured, with its 95 % interval", "var(--backward)"), swatch("predicted before the run", "var(--idle)")]);
  section.append(table(data.accuracy, [[data.accuracy[0].of_us ? "plan" : "group", (row) => row.group, "left"], [data.accuracy[0].of_us ? "time" : "plan", (row) => row.case, "left"], ["predicted ms", (row) => ms(row.predicted_us)], ["measured ms", (row) => ms(row.measured_us)],
    ["error", (row) => percent(errorOf(row))],
    ...(data.accuracy[0].of_us ? [] : [["verdict", (row) => row.verdict, "left"]]),
    ...(reasons.size > 1 ? [["why it is not judged", (row) => row.not_judged_because || "", "wrap"]] : [])]));
}

/** Relative to the measured iteration, of which a row may be a part. */
const errorOf = (row, us = row.predicted_us) => (us - row.measured_us) / (row.of_us || row.measured_us);

function errorChart(width, rows) {
  const names = rows.map((row) => `${row.group}, ${row.case}`);
  const left = Math.min(width * 0.45, 16 + Math.max(...names.map(textWidth))), right = width - 16, row = 20, height = rows.length * row + 46;
  const ends = rows.flatMap((each) => [each.predicted_us, ...each.interval_us].map((us) => errorOf(each, us)));
  const most = 100 * Math.max(0.01, ...ends.map(Math.abs)) * 1.1, x = d3.scaleLinear([-most, most], [left, right]);
  const out = [bottomAxis(x, 4, height - 40, "predicted less measured, in %")];
  out.push(svg("path", { class: "axis", d: `M${x(0)} 4V${height - 40}` }));
  rows.forEach((each, i) => {
    const y = 14 + i * row, share = (us) => x(100 * errorOf(each, us));
    out.push(label(left - 8, y + 4, shortened(names[i], left - 12), { "text-anchor": "end" }));
    out.push(svg("path", { d: `M${share(each.interval_us[0])} ${y}H${share(each.interval_us[1])}`, style: "stroke:var(--backward)", "stroke-width": 6 }));
    out.push(explained(svg("path", { d: `M${share(each.predicted_us)} ${y - 6}l5 6l-5 6l-5 -6Z`, style: "fill:var(--idle)" }), `${names[i]}: predicted ${ms(each.predicted_us)} ms, measured ${ms(each.measured_us)} ms`));
  });
  return { height, children: out };
}
