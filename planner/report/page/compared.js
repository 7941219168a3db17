// An iteration as it was measured above the same iteration as it was predicted, or before and after a change.

function showCompared() {
  const [first, second] = data.comparison.sides;
  // The measured side stands above the predicted one, and after a change stands below what was before.
  const sides = second.name === "measured" ? [second, first] : [first, second];
  const section = view("compared", `${capital(sides[0].name)} and ${sides[1].name}`);
  const longest = sides.reduce((most, side) => Math.max(most, side.iteration_us), 0);
  section.append(...showWarnings(section));
  for (const side of sides) section.append(html("p", {}, `${side.name}: ${ms(side.iteration_us)} ms, ${side.source}`));
  timeChart(section, [], { label: "Computing and collectives", noun: "the iterations", name: () => `${sides[0].name} and ${sides[1].name}`, draw: (width, shown) => [comparedChart(width, sides, shown)],
    spans: () => ({ first: [-0.01 * longest, 1.02 * longest], whole: [-0.02 * longest, 1.04 * longest], least: 0.05 }),
    describe: (shown) => `The chart shows the times from ${ms(shown[0])} to ${ms(shown[1])} ms.` })();
  if (sides.some((side) => side.name === "predicted"))
    section.append(html("p", { class: "quiet" }, "A prediction times layers as a whole: what it draws as computing holds copies and waits for the host as well, which the table tells apart."));
  section.append(html("h3", {}, "Where the time goes"), table(comparedParts(sides), [["part", ([name]) => name, "left"],
    ...sides.map((side) => [side.name + " ms", ([, value]) => ms(value(side))]), ["difference ms", ([, value]) => signed(value(second) - value(first))]],
  ([name]) => (name === "iteration" ? "best" : null)));
  section.append(html("h3", {}, "What differs most"), html("p", { class: "quiet" }, "These differences add up to that of the iterations."));
  section.append(table(data.comparison.differences.slice(0, 12), [["part", (row) => row.what, "wrap"],
    ...sides.map((side) => [side.name + " ms", (row) => ms(side === first ? row.first_us : row.second_us)]), ["difference ms", (row) => signed(row.difference_us)]]));
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

/** Sides without `computing` have a lane of collectives only. */
function comparedChart(width, sides, shown) {
  const computes = sides.some((side) => side.computing), title = computes ? "Computing and collectives over time in ms" : "Collectives over time in ms";
  const lane = 20, lanes = (computes ? 2 : 1) * lane, x = d3.scaleLinear(shown, [EDGE, width - EDGE]), bottom = 4 + sides.length * (lanes + 34);
  const { room, children: out } = heading(width, title, [...(computes ? [swatch("something computes", "var(--backward)")] : []), swatch("a collective of gradients", "var(--communication)"),
    ...(computes ? [swatch("exposed: a collective while nothing computes", "var(--idle)")] : [])]);
  const marks = svg("g", { "clip-path": `url(#compared-${width})` });
  out.push(bottomAxis(x.copy().domain(shown.map((us) => us / 1000)), 4, bottom, "time in ms"));
  sides.forEach((side, i) => {
    const top = 4 + i * (lanes + 34);
    const bar = (from, to, row, colour, text) => {
      if (to < shown[0] || from > shown[1]) return;
      const rect = svg("rect", { x: x(Math.max(from, shown[0])), y: row, width: Math.max(0.6, x(Math.min(to, shown[1])) - x(Math.max(from, shown[0]))), height: lane - 4, style: `fill:var(${colour})`, stroke: "rgba(0,0,0,.35)", "stroke-width": 0.4 });
      rect.described = text;
      marks.append(rect);
    };
    out.push(label(EDGE, top + 14, `${side.name}: ${ms(side.iteration_us)} ms`, { "font-weight": 600 }));
    for (const [from, to] of side.computing || []) bar(from, to, top + 20, "--backward", `${side.name}: something computes for ${ms(to - from)} ms`);
    side.collectives.forEach((each, k) => {
      const text = `${side.name}: ${each.name || `${each.collective} ${k + 1}`}${each.bytes ? ", " + bytes(each.bytes) : ""}, ` +
        (computes ? `${ms(each.end_us - each.start_us)} ms, exposed ${ms(each.exposed_us)} ms` : `from ${ms(each.start_us)} to ${ms(each.end_us)} ms`) + (each.waiting_us > 0 ? `, of it waiting ${ms(each.waiting_us)} ms` : "");
      bar(each.start_us, each.end_us, top + lanes, "--communication", text);
    });
    for (const [from, to] of computes ? exposedOf(side) : []) bar(from, to, top + lanes, "--idle", `${side.name}: a collective runs and nothing computes for ${ms(to - from)} ms`);
    marks.append(svg("path", { class: "axis", d: `M${x(side.iteration_us)} ${top + 16}V${top + 18 + lanes}`, "stroke-dasharray": "3 2" }));
  });
  return svg("svg", { viewBox: `0 ${-room} ${width} ${bottom + 40 + room}`, role: "img", "aria-label": title },
    [svg("defs", {}, clipped(`compared-${width}`, width)), ...out, marks]);
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
