// A timeline per schedule on one time axis: compute above communication, and in one colour what is exposed.

const CATEGORIES = [["input", "--input"], ["forward", "--forward"], ["backward", "--backward"], ["encoding, decoding", "--compression"],
  ["communication", "--communication"], ["update", "--update"]];

/** The slices of a timeline by lane, with times relative to its last iteration. */
function unpacked(timeline) {
  const marks = timeline.marks, zero = marks[Math.max(0, marks.length - 2)];
  const lanes = timeline.lanes.map((name) => ({ name, slices: [] }));
  for (let i = 0; i < timeline.slices.length; i += 5) {
    const [lane, category, text, start, duration] = timeline.slices.slice(i, i + 5);
    lanes[lane].slices.push({ category, text: data.texts[text], start: start - zero, end: start - zero + duration });
  }
  const idle = [];
  for (let i = 0; i < timeline.idle.length; i += 2)
    idle.push({ start: timeline.idle[i] - zero, end: timeline.idle[i] - zero + timeline.idle[i + 1] });
  return { schedule: timeline.schedule, stage: timeline.stage, process: timeline.process, joined: timeline.joined_us, idle, lanes: lanes.filter((lane) => lane.slices.length > 0),
    length: marks[marks.length - 1] - zero, end: Math.max(...lanes.flatMap((lane) => lane.slices.map((slice) => slice.end))), begin: -zero };
}

function showTimelines() {
  const section = view("timeline", "Timelines");
  const counts = [...new Set(data.timelines.map((timeline) => timeline.workers))];
  let workers = data.plan && counts.includes(data.plan.workers) ? data.plan.workers : counts[0];
  let only = "all", rows = [];
  const names = ["all", ...new Set(data.timelines.map((timeline) => timeline.schedule))];
  const title = () => `Timelines, ${only === "all" ? "all schedules" : only}, on ${workers} worker${workers === 1 ? "" : "s"}`;
  const spans = () => {
    const length = d3.max(rows, (row) => row.length);
    return { first: [-0.01 * length, 1.01 * length], whole: [d3.min(rows, (row) => row.begin), d3.max(rows, (row) => row.end)], least: 50 };
  };
  const describe = (shown) => {
    const who = rows[0].process.slice(rows[0].schedule.length + 2), joined = d3.max(rows, (row) => row.joined) * 1000;
    return `The chart shows ${rows[0].stage === undefined ? who : "a worker of each stage"}, from ${roundTime(shown[0], shown)} to ${roundTime(shown[1], shown)}. At 0 the last simulated iteration begins.` +
      (joined >= 0 ? ` Neighbouring tasks of one kind that together take at most ${roundTime(joined, [0, joined])} are drawn as one, to keep this file below 3 MB.` : "");
  };
  const load = () => {
    rows = data.timelines.filter((timeline) => timeline.workers === workers && (only === "all" || timeline.schedule === only)).map(unpacked);
    showFirst();
  };
  const showFirst = timeChart(section, [
    counts.length > 1 ? selection("Workers", counts, workers, (value) => { workers = Number(value); load(); }) : html("span", {}, `${workers} workers`),
    names.length > 2 ? selection("Schedule", names, only, (value) => { only = value; load(); }) : null],
  { label: "Timelines", noun: "the iteration", name: title, draw: (width, shown, height) => sheets(rows, height).map((part) => timelineChart(width, part, shown, title())), spans, describe });
  load();
}

const LANE = 19;

/** The rows in parts of which none is higher than `height`. */
function sheets(rows, height) {
  const out = [];
  let used = Infinity;
  for (const row of rows) {
    const needed = 27 + LANE * row.lanes.length;
    if (used + needed > height || out.length === 0) {
      out.push([]);
      used = 100;  // title, keys and axis
    }
    out[out.length - 1].push(row);
    used += needed;
  }
  return out;
}

function timelineChart(width, rows, shown, title) {
  const x = d3.scaleLinear(shown, [EDGE, width - EDGE]);
  const hatched = `url(#hatch-${width})`, hatch = svg("pattern", { id: `hatch-${width}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
    svg("rect", { width: 6, height: 6, style: "fill:var(--idle)" }), svg("path", { d: "M0 0V6", stroke: "#ffffff", "stroke-width": 1.6, opacity: 0.55 })]);
  const marks = svg("g", { "clip-path": `url(#inside-${width})` });
  const { room, children: out } = heading(width, title, [...CATEGORIES.map(([name, colour]) => swatch(name, `var(${colour})`)), swatch("exposed: compute waits", hatched)]);
  let top = 24;
  for (const row of rows) {
    const about = `${row.schedule}${row.stage === undefined ? "" : `, stage ${row.stage}`}: ${number(row.length / 1e6, 6)} ms per iteration`;
    out.push(label(EDGE, top + 12, shortened(about, width - 2 * EDGE), { "font-weight": 600 }));
    top += 18;
    for (const each of row.lanes) {
      out.push(svg("rect", { x: EDGE, y: top, width: width - 2 * EDGE, height: LANE - 3, style: "fill:var(--panel)" }));
      if (each.name.startsWith("compute")) drawSlices(marks, row.idle.map((idle) => ({ ...idle, category: -1, colour: hatched, text: `compute waits ${timeText(idle.end - idle.start, idle.end - idle.start)}` })), x, shown, top, LANE - 3);
      drawSlices(marks, each.slices, x, shown, top, LANE - 3);
      top += LANE;
    }
    for (const at of [0, row.length]) if (at >= shown[0] && at <= shown[1])
      out.push(svg("path", { d: `M${x(at)} ${top - LANE * row.lanes.length - 2}V${top - 1}`, class: "axis", "stroke-dasharray": "3 2" }));
    top += 9;
  }
  const span = shown[1] - shown[0];
  const ticks = x.ticks(Math.max(2, Math.floor(width / 130)));
  for (const tick of ticks) {
    if (x(tick) < EDGE + 20 || x(tick) > width - EDGE - 30) continue;
    out.unshift(svg("path", { class: "grid", d: `M${x(tick)} 18V${top}` }));
    out.push(label(x(tick), 13, timeText(tick, span), { "text-anchor": "middle", class: "quiet" }));
  }
  return svg("svg", { viewBox: `0 ${-room} ${width} ${top + 4 + room}`, role: "img", "aria-label": title }, [svg("defs", {}, [clipped(`inside-${width}`, width), hatch]), ...out, marks]);
}

/** Draws what is visible; slices thinner than a pixel are drawn together. */
function drawSlices(place, slices, x, shown, top, height) {
  let open = null;
  const flush = () => {
    if (!open) return;
    const from = Math.max(open.x, -5), to = Math.min(open.to, 1e5);
    const rect = svg("rect", { x: from.toFixed(2), y: top, width: Math.max(0.6, to - from).toFixed(2), height, style: `fill:${open.colour}` });
    if (to - from > 3) setAll(rect, { stroke: "rgba(0,0,0,.35)", "stroke-width": 0.5 });
    rect.described = open.count > 1 ? `${open.count} tasks from ${open.text} on` : open.text;
    place.append(rect);
    const left = Math.max(from, EDGE), right = Math.min(to, x(shown[1]));
    const text = open.count === 1 ? shortened(open.text, right - left - 6) : "";
    if (text.length > 4) place.append(label(left + 3, top + 12, text, { class: "inside", "font-size": 11 }));
    open = null;
  };
  for (const slice of slices) {
    if (slice.end < shown[0] || slice.start > shown[1]) continue;
    const a = x(slice.start), b = x(slice.end);
    if (open && open.category === slice.category && open.to - open.x < 1.5 && a - open.to < 0.8 && b - a < 1.5) {
      open.to = Math.max(open.to, b);
      ++open.count;
      continue;
    }
    flush();
    const lasts = timeText(slice.end - slice.start, slice.end - slice.start);
    open = { x: a, to: b, category: slice.category, colour: slice.colour || `var(${CATEGORIES[slice.category][1]})`, count: 1, text: slice.category < 0 ? slice.text : `${slice.text} (${lasts})` };
  }
  flush();
}
