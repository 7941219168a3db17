// An iteration as it was measured above the same iteration as it was predicted, or before and after a change.

function showCompared() {
  const [first, second] = data.comparison.sides;
  // The measured side stands above the predicted one, and after a change stands below what was before.
  const sides = second.name === "measured" ? [second, first] : [first, second];
  const section = view("compared", `${capital(sides[0].name)} and ${sides[1].name}`);
  const longest = sides.reduce((most, side) => Math.max(most, side.iteration_us), 0);
  for (const warning of data.warnings || []) section.append(html("p", { class: "warning" }, "Warning: " + warning));
  for (const side of sides) section.append(html("p", {}, `${side.name}: ${ms(side.iteration_us)} ms, ${side.source}`));
  chart(section, () => "Computing and collectives over time in ms", (width) => comparedChart(width, sides, longest),
    [swatch("something computes", "var(--backward)"), swatch("a collective of gradients", "var(--communication)"), swatch("the same while nothing computes", "var(--idle)")]);
  section.append(html("h3", {}, "Where the time goes"), table(comparedParts(sides), [["part", ([name]) => name, "left"],
    ...sides.map((side) => [side.name + " ms", ([, value]) => ms(value(side))]), ["difference ms", ([, value]) => signed(value(second) - value(first))]],
  ([name]) => (name === "iteration" ? "best" : null)));
  section.append(html("h3", {}, "What differs most"), html("p", { class: "quiet" }, "These differences add up to that of the iterations."));
  section.append(table(data.comparison.differences.slice(0, 12), [["part", (row) => row.what, "wrap"], [first.name + " ms", (row) => ms(row.first_us)],
    [second.name + " ms", (row) => ms(row.second_us)], ["difference ms", (row) => signed(row.difference_us)]]));
  section.append(html("p", {}, data.comparison.same_buckets ? "Both sides have the same collectives of gradients." : "The collectives of gradients differ in number or size; they are compared in their order."));
}

const signed = (us) => (us > 0 ? "+" : "") + ms(us);
/** A prediction does not tell copies from waits for the host. */
const comparedParts = (sides) => [
  ["computing", (side) => side.computing_us],
  ...(sides.some((side) => side.name === "predicted") ? [["other work, copies, waits for the host", (side) => side.copies_us + side.idle_us]]
    : [["copies alone", (side) => side.copies_us], ["waits for the host", (side) => side.idle_us]]),
  ["exposed: other communication", (side) => side.other_exposed_us],
  ["waiting for slower workers", (side) => side.waiting_us],
  ["exposed: collectives of gradients", (side) => side.exposed_us - side.other_exposed_us - side.waiting_us],
  ["iteration", (side) => side.iteration_us]];

function comparedChart(width, sides, longest) {
  const left = 12, right = width - 24, lane = 20, x = d3.scaleLinear([0, longest / 1000], [left, right]);
  const height = sides.length * (2 * lane + 34) + 30, out = [bottomAxis(x, 4, height - 24)];
  sides.forEach((side, i) => {
    const top = 4 + i * (2 * lane + 34), bar = (from, to, row, colour, text) =>
      explained(svg("rect", { x: x(from / 1000), y: row, width: Math.max(0.6, x(to / 1000) - x(from / 1000)), height: lane - 4, style: `fill:var(${colour})`, stroke: "rgba(0,0,0,.35)", "stroke-width": 0.4 }), text);
    out.push(label(left, top + 14, `${side.name}: ${number(side.iteration_us / 1000, 6)} ms`, { "font-weight": 600 }));
    for (const [from, to] of side.computing) out.push(bar(from, to, top + 20, "--backward", `${side.name}: something computes for ${ms(to - from)} ms`));
    side.collectives.forEach((each, k) => {
      const text = `${side.name}: ${each.collective} ${k + 1}${each.bytes ? ", " + bytes(each.bytes) : ""}, ${ms(each.end_us - each.start_us)} ms, exposed ${ms(each.exposed_us)} ms` +
        (each.waiting_us > 0 ? `, of it waiting ${ms(each.waiting_us)} ms` : "");
      out.push(bar(each.start_us, each.end_us, top + 20 + lane, "--communication", text));
    });
    for (const [from, to] of exposedOf(side)) out.push(bar(from, to, top + 20 + lane, "--idle", `${side.name}: a collective runs and nothing computes for ${ms(to - from)} ms`));
    out.push(svg("path", { class: "axis", d: `M${x(side.iteration_us / 1000)} ${top + 16}V${top + 18 + 2 * lane}`, "stroke-dasharray": "3 2" }));
  });
  return { height, children: out };
}

/** The times of collectives during which nothing computes. */
function exposedOf(side) {
  const out = [];
  for (const { start_us: start, end_us: end } of side.collectives) {
    let from = start;
    for (const [begins, ends] of side.computing) {
      if (ends <= from || begins >= end) continue;
      if (begins > from) out.push([from, begins]);
      from = Math.max(from, ends);
    }
    if (from < end) out.push([from, end]);
  }
  return out;
}
