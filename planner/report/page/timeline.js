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
  return { schedule: timeline.schedule, process: timeline.process, joined: timeline.joined_us, idle, lanes: lanes.filter((lane) => lane.slices.length > 0),
    length: marks[marks.length - 1] - zero, end: Math.max(...lanes.flatMap((lane) => lane.slices.map((slice) => slice.end))), begin: -zero };
}

function showTimelines() {
  const section = view("timeline", "Timelines");
  const counts = [...new Set(data.timelines.map((timeline) => timeline.workers))];
  let workers = data.plan && counts.includes(data.plan.workers) ? data.plan.workers : counts[0];
  let only = "all";
  let rows = [], window_ = [0, 1], whole = [0, 1];
  const status = html("p", { class: "quiet", role: "status" });
  const figure = html("figure", { class: "timeline", tabindex: 0, role: "application", "aria-label": "Timelines. Plus and minus zoom, left and right move, 0 shows the iteration." });
  const names = ["all", ...new Set(data.timelines.map((timeline) => timeline.schedule))];

  const title = () => `Timelines, ${only === "all" ? "all schedules" : only}, on ${workers} worker${workers === 1 ? "" : "s"}`;

  const draw = () => {
    const width = figureWidth();
    const old = figure.querySelector("svg");
    const next = timelineChart(width, rows, window_, title());
    if (old) old.replaceWith(next); else figure.append(next);
    status.textContent = `${rows[0].process.slice(rows[0].schedule.length + 2)}; from ${timeText(window_[0], whole[1])} to ${timeText(window_[1], whole[1])} of the last simulated iteration and its neighbours.` +
      (rows.some((row) => row.joined >= 0) ? " Neighbouring tasks of a kind are drawn as one, to keep this file small." : "");
  };
  const figureWidth = () => Math.max(300, Math.floor(figure.clientWidth || 900));
  let asked = false;
  const redraw = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; draw(); });
  };
  // The scale of one iteration, to which the transforms of the zoom refer.
  const home = d3.scaleLinear();
  const zoom = d3.zoom()
    // The wheel scrolls the page until the chart is selected, and a single finger always.
    .filter((event) => !event.button && (event.type !== "wheel" || event.ctrlKey || document.activeElement === figure) && !(event.touches && event.touches.length < 2))
    .on("zoom", (event) => { window_ = event.transform.rescaleX(home).domain(); redraw(); });
  const chosen = d3.select(figure).call(zoom).on("dblclick.zoom", () => reset()).on("mousedown.focus", () => figure.focus({ preventScroll: true }));
  const reset = () => chosen.call(zoom.transform, d3.zoomIdentity);
  /** Fits the scale to the width of the chart and to the iteration, and shows `shown` of it. */
  const fit = (shown) => {
    const length = d3.max(rows, (row) => row.length);
    home.domain([-0.01 * length, 1.01 * length]).range([EDGE, figureWidth() - EDGE]);
    zoom.scaleExtent([1.02 * length / (1.1 * (whole[1] - whole[0])), 1.02 * length / 50]).translateExtent([[home(whole[0]), -Infinity], [home(whole[1]), Infinity]]);
    const scale = 1.02 * length / (shown[1] - shown[0]);
    chosen.call(zoom.transform, d3.zoomIdentity.translate(EDGE - scale * home(shown[0]), 0).scale(scale));
  };
  const load = () => {
    rows = data.timelines.filter((timeline) => timeline.workers === workers && (only === "all" || timeline.schedule === only)).map(unpacked);
    whole = [d3.min(rows, (row) => row.begin), d3.max(rows, (row) => row.end)];
    const length = d3.max(rows, (row) => row.length);
    fit([-0.01 * length, 1.01 * length]);
    draw();
  };
  const magnify = (factor) => chosen.call(zoom.scaleBy, factor);
  const move = (share) => chosen.call(zoom.translateBy, -share * (window_[1] - window_[0]) * (home(1) - home(0)), 0);

  figure.addEventListener("keydown", (event) => {
    const act = { "+": () => magnify(1.6), "=": () => magnify(1.6), "-": () => magnify(1 / 1.6), ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), 0: reset, Home: reset }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  figure.addEventListener("pointermove", (event) => {
    if (event.target.described) showTooltip(event.target.described, event.clientX, event.clientY); else hideTooltip();
  });
  figure.addEventListener("pointerleave", hideTooltip);

  const button = (text, name, act) => {
    const out = html("button", { type: "button", "aria-label": name, title: name }, text);
    out.addEventListener("click", act);
    return out;
  };
  section.append(html("div", { class: "controls" }, [
    counts.length > 1 ? selection("Workers", counts, workers, (value) => { workers = Number(value); load(); }) : html("span", {}, `${workers} workers`),
    names.length > 2 ? selection("Schedule", names, only, (value) => { only = value; load(); }) : null,
    button("+", "zoom in", () => magnify(1.6)), button("\u2212", "zoom out", () => magnify(1 / 1.6)), button("\u2190", "earlier", () => move(-0.25)),
    button("\u2192", "later", () => move(0.25)), button("iteration", "show one iteration", reset),
    button("Save as SVG", "save the timelines as SVG", () => download(picture(figure.querySelector("svg")), `${data.title}, ${title()}.svg`))]));
  section.append(html("p", { class: "quiet controls" }, "Select the chart, then: + and \u2212 or the wheel zoom, \u2190 and \u2192 or dragging move, 0 or a double click shows the iteration."));
  section.append(figure, status);
  redraws.push(() => { fit(window_); draw(); });
  load();
}

const EDGE = 12;

function timelineChart(width, rows, shown, title) {
  const lane = 19, out = [], x = d3.scaleLinear(shown, [EDGE, width - EDGE]);
  const clip = svg("clipPath", { id: "inside" }, svg("rect", { x: EDGE, y: 0, width: width - 2 * EDGE, height: 100000 }));
  const hatch = svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, [
    svg("rect", { width: 6, height: 6, style: "fill:var(--idle)" }), svg("path", { d: "M0 0V6", stroke: "#ffffff", "stroke-width": 1.6, opacity: 0.55 })]);
  const marks = svg("g", { "clip-path": "url(#inside)" });
  const keys = keyRows([...CATEGORIES.map(([name, colour]) => swatch(name, `var(${colour})`)), swatch("exposed: compute waits", "url(#hatch)")], width - 2 * EDGE);
  out.push(svg("g", { transform: `translate(${EDGE} ${-keys.height})` }, keys.children));
  const lines = wrapped(title, width - 2 * EDGE), room = 8 + 18 * lines.length + keys.height;
  lines.forEach((line, i) => out.push(label(EDGE, 14 + 18 * i - room, line, { class: "title" })));
  let top = 24;
  for (const row of rows) {
    const about = `${row.schedule}: ${number(row.length / 1e6, 6)} ms per iteration`;
    out.push(label(EDGE, top + 12, shortened(about, width - 2 * EDGE), { "font-weight": 600 }));
    top += 18;
    for (const each of row.lanes) {
      out.push(svg("rect", { x: EDGE, y: top, width: width - 2 * EDGE, height: lane - 3, style: "fill:var(--panel)" }));
      if (each.name.startsWith("compute")) drawSlices(marks, row.idle.map((idle) => ({ ...idle, category: -1, text: `compute waits ${timeText(idle.end - idle.start, idle.end - idle.start)}` })), x, shown, top, lane - 3);
      drawSlices(marks, each.slices, x, shown, top, lane - 3);
      top += lane;
    }
    for (const at of [0, row.length]) if (at >= shown[0] && at <= shown[1])
      out.push(svg("path", { d: `M${x(at)} ${top - lane * row.lanes.length - 2}V${top - 1}`, class: "axis", "stroke-dasharray": "3 2" }));
    top += 9;
  }
  const span = shown[1] - shown[0];
  const ticks = x.ticks(Math.max(2, Math.floor(width / 130)));
  for (const tick of ticks) {
    if (x(tick) < EDGE + 20 || x(tick) > width - EDGE - 30) continue;
    out.unshift(svg("path", { class: "grid", d: `M${x(tick)} 18V${top}` }));
    out.push(label(x(tick), 13, timeText(tick, span), { "text-anchor": "middle", class: "quiet" }));
  }
  return svg("svg", { viewBox: `0 ${-room} ${width} ${top + 4 + room}`, role: "img", "aria-label": title }, [svg("defs", {}, [clip, hatch]), ...out, marks]);
}

/** Draws what is visible; slices thinner than a pixel are drawn together. */
function drawSlices(place, slices, x, shown, top, height) {
  let open = null;
  const flush = () => {
    if (!open) return;
    const from = Math.max(open.x, -5), to = Math.min(open.to, 1e5);
    const colour = open.category < 0 ? "url(#hatch)" : `var(${CATEGORIES[open.category][1]})`;
    const rect = svg("rect", { x: from.toFixed(2), y: top, width: Math.max(0.6, to - from).toFixed(2), height, style: `fill:${colour}` });
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
    open = { x: a, to: b, category: slice.category, count: 1, text: slice.category < 0 ? slice.text : `${slice.text} (${lasts})` };
  }
  flush();
}
