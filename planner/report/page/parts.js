// Where the time of an iteration goes: parts that add up to it.

const PARTS = [
  ["forward", (entry) => entry.forward_us, "--forward"],
  ["backward", (entry) => entry.backward_us, "--backward"],
  ["bubble", bubbleOf, "--bubble"],
  ["encoding and decoding", (entry) => entry.encode_us + entry.decode_us, "--compression"],
  ["exposed communication", (entry) => entry.exposed_communication_us, "--idle"],
  ["update", (entry) => entry.update_us, "--update"],
  ["input", (entry) => entry.unoverlapped_input_us, "--input"]];

/** What the stage that computes longest waits for others, without collectives. */
function bubbleOf(entry) {
  if (!entry.stages) return 0;
  return entry.stages.reduce((a, b) => (b.forward_us + b.backward_us > a.forward_us + a.backward_us ? b : a)).bubble_us;
}

/** The parts that any result has: bubbles belong to stages. */
const partsHere = () => PARTS.map((part, i) => ({ part, i })).filter(({ part }) => part[0] !== "bubble" || data.results.some((entry) => entry.stages));

/** The parts of an iteration in us; what overlapped reading takes longer than all of them is input, too. */
function partsOf(entry) {
  const out = PARTS.map(([, value]) => value(entry));
  const rest = entry.iteration_us - out.reduce((sum, part) => sum + part, 0);
  out[out.length - 1] += Math.abs(rest) > 1e-6 * entry.iteration_us ? rest : 0;
  return out;
}

function showParts() {
  const section = view("parts", "Where the time goes");
  let workers = workerCounts[workerCounts.length - 1];
  if (data.plan && workerCounts.includes(data.plan.workers)) workers = data.plan.workers;
  const place = html("div");
  const rows = () => data.results.filter((entry) => String(entry.workers) === String(workers));
  const numbers = html("div"), stages = html("div");
  const refresh = () => {
    draw();
    numbers.replaceChildren(table(rows(), [["schedule", (entry) => entry.schedule, "left"],
      ...partsHere().map(({ part, i }) => [part[0] + " ms", (entry) => ms(partsOf(entry)[i])]), ["iteration ms", (entry) => ms(entry.iteration_us)]]));
    stages.replaceChildren(...stageTable(rows()));
  };
  section.append(html("div", { class: "controls" }, selection("Workers", workerCounts, workers, (value) => { workers = value; refresh(); })));
  section.append(place);
  const draw = chart(place, () => `Parts of an iteration in ms, by schedule, on ${workers} worker${Number(workers) === 1 ? "" : "s"}`, (width) => partsChart(width, rows()), partsHere().map(({ part }) => swatch(part[0], `var(${part[2]})`)));
  section.append(html("details", {}, [html("summary", {}, "As numbers"), numbers]), stages);
  refresh();
}

/** A row for each pipeline stage; nothing where there are none. */
function stageTable(entries) {
  const rows = entries.flatMap((entry) => (entry.stages || []).map((stage) => ({ schedule: entry.schedule, ...stage })));
  if (rows.length === 0) return [];
  return [html("h3", {}, "Stages"), html("p", {}, "The bubble is what a stage would wait for others if collectives took no time. The bar above is that of the stage that computes longest."),
    table(rows, [["schedule", (row) => row.schedule, "left"], ["stage", (row) => row.stage], ["groups", (row) => row.groups], ["forward ms", (row) => ms(row.forward_us)], ["backward ms", (row) => ms(row.backward_us)],
      ["bubble ms", (row) => ms(row.bubble_us)], ["channel ms", (row) => ms(row.communication_us)], ["passes end ms", (row) => ms(row.passes_end_us)], ["end ms", (row) => ms(row.end_us)]])];
}

function partsChart(width, rows) {
  const left = Math.min(width * 0.36, 16 + Math.max(...rows.map((entry) => textWidth(entry.schedule)))), right = width - 74, row = 26;
  const height = rows.length * row + 48;
  const x = d3.scaleLinear([0, d3.max(rows, (entry) => entry.iteration_us) / 1000], [left, right]);
  const out = [bottomAxis(x, 4, height - 40, "iteration in ms")];
  rows.forEach((entry, i) => {
    const top = 6 + i * row;
    out.push(label(left - 8, top + 14, shortened(entry.schedule, left - 12), { "text-anchor": "end", "font-weight": isOurs(entry.schedule) ? 700 : null }));
    let from = 0;
    partsOf(entry).forEach((part, k) => {
      if (!(part > 0)) return;
      const a = x(from / 1000), b = x((from + part) / 1000);
      out.push(explained(svg("rect", { x: a, y: top, width: Math.max(0.3, b - a), height: row - 8, style: `fill:var(${PARTS[k][2]})` }),
        `${entry.schedule}: ${PARTS[k][0]} ${ms(part)} ms, ${percent(part / entry.iteration_us)} of the iteration`));
      from += part;
    });
    out.push(label(x(entry.iteration_us / 1000) + 6, top + 14, number(entry.iteration_us / 1000, 5), {}));
  });
  return { height, children: out };
}
