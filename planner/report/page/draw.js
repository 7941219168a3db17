// Elements, scales, ticks and tooltips: what every chart is drawn with.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

// Okabe and Ito's colours, which colour-blind readers can distinguish, and a brown that is darker than all but the first.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f"];
const DASHES = ["", "7 4", "2 3", "8 3 2 3", "8 2 2 2 2 2"];
const MARKERS = [d3.symbolCircle, d3.symbolSquare, d3.symbolDiamond, d3.symbolTriangle, d3.symbolCross, d3.symbolStar, d3.symbolWye];

function setAll(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  for (const child of [].concat(children ?? []))
    if (child !== null && child !== undefined)
      element.append(child.nodeType ? child : document.createTextNode(String(child)));
  return element;
}
const html = (tag, attributes, children) => setAll(document.createElement(tag), attributes, children);
const svg = (tag, attributes, children) => setAll(document.createElementNS(SVG, tag), attributes, children);
const label = (x, y, text, attributes) => svg("text", { x, y, ...attributes }, text);

/** A key: its text, and what draws its mark around a point. */
const swatch = (text, colour) => [text, (x, y) => svg("rect", { x: x - 6, y: y - 6, width: 12, height: 12, rx: 2, style: `fill:${colour}`, stroke: "#000000", "stroke-width": 0.3 })];

/** Keys side by side, in as many rows as they need. */
function keyRows(keys, width) {
  const out = [];
  let x = 0, row = 0;
  for (const [text, mark] of keys) {
    const wide = 36 + textWidth(text);
    if (x > 0 && x + wide > width) { x = 0; ++row; }
    out.push(mark(x + 8, 20 * row + 8), label(x + 20, 20 * row + 12, text));
    x += wide;
  }
  return { height: keys.length === 0 ? 0 : 20 * row + 24, children: out };
}

// On upright and on wide paper: the widths of a chart and of each of a pair, and the height that a chart may have.
const PAPERS = { upright: [700, 700, 430], wide: [1000, 480, 540] };
let printing = false;

/** The width of a chart on the screen. */
const placeWidth = (figure) => Math.max(300, Math.floor(figure.clientWidth || figure.parentNode.clientWidth || 900));

/** Puts the drawings that `draw(width, height)` returns in the place of what the figure shows. When the page is printed,
 * these are drawings for each kind of paper, of which the style shows the right ones. */
function show(figure, draw) {
  for (const old of figure.querySelectorAll("svg")) old.remove();
  if (!printing) figure.append(...draw(placeWidth(figure), Infinity));
  else for (const [paper, [alone, beside, height]] of Object.entries(PAPERS))
    figure.append(...draw(figure.parentNode.className === "pair" ? beside : alone, height).map((each) => setAll(each, { class: paper })));
}

/** A chart as wide as its place, with its keys and `title()`, which names all that was chosen, so that a printed or
 * saved chart needs no page. `draw(width)` returns its height and its elements. */
function chart(place, title, draw, keys = []) {
  const save = html("button", { type: "button", class: "save" }, "Save as SVG");
  const figure = html("figure", { tabindex: 0, role: "application" }, save);
  place.append(figure);
  explains(figure, "ArrowLeft", "ArrowRight");
  const redraw = () => show(figure, (width) => {
    const { height, children } = draw(width), above = keyRows(keys, width), lines = wrapped(title(), width - 110);
    const room = 8 + 18 * lines.length + above.height;
    const titleLines = lines.map((line, i) => label(0, 16 + 18 * i - room, line, { class: "title" }));
    save.setAttribute("aria-label", `Save as SVG: ${title()}`);
    figure.setAttribute("aria-label", `${title()}. Arrow keys go from mark to mark and explain it, Escape ends that.`);
    return [svg("svg", { viewBox: `0 ${-room} ${width} ${height + room}`, role: "img", "aria-label": title() },
      [...titleLines, svg("g", { transform: `translate(0 ${-above.height})` }, above.children), ...children])];
  });
  save.addEventListener("click", () => download(picture(figure.querySelector("svg")), `${data.title}, ${title()}.svg`));
  redraws.push(redraw);
  redraw();
  return redraw;
}
const redraws = [];

/** A chart as a document of its own, with its present colours written into each element. */
function picture(drawn) {
  const copy = drawn.cloneNode(true), [left, top, width, height] = drawn.getAttribute("viewBox").split(" ");
  const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight"];
  const originals = drawn.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    element.removeAttribute("class");
    element.removeAttribute("style");
    for (const name of element.tagName === "text" ? kept : kept.slice(0, 5)) element.setAttribute(name, style.getPropertyValue(name));
  });
  copy.prepend(svg("rect", { x: left, y: top, width, height, fill: getComputedStyle(document.body).backgroundColor }));
  return setAll(copy, { xmlns: SVG, width, height, "font-family": "Helvetica, Arial, sans-serif" }).outerHTML;
}
function download(text, name) {
  const link = html("a", { href: URL.createObjectURL(new Blob([text], { type: "image/svg+xml" })), download: name.replace(/[^\w .,-]+/g, "") });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The ticks of a logarithmic scale that have a label; over less than a decade, those of a linear one. */
function logTicks(scale, count) {
  const [from, to] = scale.domain();
  return to < 10 * from ? d3.ticks(from, to, count) : scale.ticks(count).filter(scale.tickFormat(count));
}

/** An axis with grid lines, below or to the left of a chart that is `length` high or wide. */
function drawnAxis(axis, across, down, length) {
  const group = svg("g", { class: "ticks", transform: `translate(${across} ${down})` });
  const made = d3.select(group).call(axis.tickSize(-length).tickPadding(8)).attr("font-size", null).attr("font-family", null);
  made.select(".domain").remove();
  made.selectAll(".tick line").attr("class", "grid");
  return group;
}
/** What an axis shows, in the middle of it. */
const axisTitle = (x, y, text, attributes) => label(x, y, text, { "text-anchor": "middle", class: "quiet axis-title", ...attributes });
/** Grid lines of a horizontal axis from `top` to `bottom`, with their numbers and its title in the 40 pixels below. */
function bottomAxis(x, top, bottom, title) {
  const [left, right] = x.range(), count = Math.max(2, Math.floor((right - left) / 110));
  const group = drawnAxis(d3.axisBottom(x).ticks(count).tickFormat((value) => number(value)), 0, bottom, bottom - top);
  group.append(axisTitle((left + right) / 2, 34, title));
  return group;
}
/** Grid lines of a vertical axis from `left` to `right`, with their numbers and its title at the left. */
function leftAxis(y, left, right, ticks, title, format = number) {
  const group = drawnAxis(d3.axisLeft(y).tickValues(ticks).tickFormat((value) => format(value)), left, 0, right - left);
  group.append(axisTitle(0, 0, title, { transform: `translate(${13 - left} ${(y.range()[0] + y.range()[1]) / 2}) rotate(-90)` }));
  return group;
}

/** A number with as many digits as are worth reading. */
function number(value, digits = 4) {
  return d3.format(`.${digits}~r`)(value).replace("\u2212", "-");
}
const capital = (word) => word[0].toUpperCase() + word.slice(1);
const ms = (us) => (us / 1000).toFixed(3);
const percent = (share) => (100 * share).toFixed(1) + " %";
const bytes = (count) => (count >= 1e6 ? number(count / 1e6, 4) + " MB" : number(count / 1e3, 4) + " kB");

/** Time in the unit that suits the length of what is shown. */
function timeText(ns, span) {
  if (span >= 2e9) return number(ns / 1e9, 5) + " s";
  if (span >= 2e6) return number(ns / 1e6, 6) + " ms";
  return number(ns / 1e3, 6) + " us";
}

/** A time with as many digits as can be read from a chart of the times `shown`. */
function roundTime(ns, [from, to]) {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(to - from)) - 2);
  return timeText(Math.round(ns / step) * step, to - from);
}

/** Width of a text in a chart, with some room for bold letters. */
const brush = document.createElement("canvas").getContext("2d");
brush.font = "12px system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";
const textWidth = (text) => 1.1 * brush.measureText(text).width;
/** The text, or as much of its beginning as fits. */
function shortened(text, width) {
  if (textWidth(text) <= width) return text;
  let fits = 0;
  for (let step = 256; step >= 1; step /= 2)
    if (textWidth(text.slice(0, fits + step) + "\u2026") <= width) fits += step;
  return fits < 2 ? "" : text.slice(0, Math.min(fits, text.length)) + "\u2026";
}

/** The text in lines that fit, broken after words. */
function wrapped(text, width) {
  const lines = [];
  for (const part of text.split(" ")) {
    const longer = lines.length === 0 ? part : `${lines[lines.length - 1]} ${part}`;
    if (lines.length > 0 && 1.25 * textWidth(longer) > width) lines.push(part); else lines.splice(-1, 1, longer);
  }
  return lines.map((line) => shortened(line, width / 1.25));
}

/** Moves labels apart so that none overlaps; `at` is where each would like to be. */
function spread(items, spacing, low, high) {
  const sorted = items.slice().sort((a, b) => a.at - b.at);
  let last = -Infinity;
  for (const item of sorted) last = item.y = Math.max(item.at, last + spacing, low);
  let limit = high;
  for (const item of sorted.reverse()) limit = (item.y = Math.min(item.y, limit)) - spacing;
  return items;
}

const tooltip = document.getElementById("tooltip");
function showTooltip(text, x, y) {
  tooltip.hidden = false;  // first, so that screen readers notice the text
  tooltip.textContent = text;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tooltip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}
const hideTooltip = () => { tooltip.hidden = true; };
/** A mark of a chart, with the text that explains it. */
function explained(mark, text) {
  mark.described = text;
  return mark;
}
/** The mark to which keys have gone. */
let here = null;
/** Explains the mark on which the pointer is, or to which keys have gone: `previous` and `next` in the order in which marks
 * are drawn; the upward and downward arrow, if they are not these, to the nearest one there. Escape ends it. */
function explains(figure, previous, next) {
  const choose = (mark) => {
    if (here) here.classList.remove("here");
    here = mark;
    if (!mark) return hideTooltip();
    mark.classList.add("here");
    mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    const box = mark.getBoundingClientRect(), around = figure.getBoundingClientRect();
    showTooltip(mark.described, (Math.max(box.left, around.left) + Math.min(box.right, around.right)) / 2, box.bottom - 8);
  };
  const middle = (mark) => { const box = mark.getBoundingClientRect(); return [(box.left + box.right) / 2, (box.top + box.bottom) / 2]; };
  const nearest = (marks, way) => {
    const [x, y] = middle(here), far = ([toX, toY]) => (way * (toY - y) > 1 ? 4 * Math.abs(toY - y) + Math.abs(toX - x) : Infinity);
    const best = d3.least(marks, (mark) => far(middle(mark)));
    return far(middle(best)) < Infinity ? best : here;
  };
  figure.addEventListener("keydown", (event) => {
    if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return choose(null);
    if (![previous, next, "ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    const marks = [...figure.querySelectorAll("svg *")].filter((mark) => mark.described);
    if (marks.length === 0) return;
    // After a chart has been drawn again, its marks are others.
    const at = here ? marks.findIndex((mark) => (here.isConnected ? mark === here : mark.described === here.described)) : -1;
    if (at < 0) choose(marks[event.key === previous ? marks.length - 1 : 0]);
    else if (event.key === previous || event.key === next) choose(marks[Math.max(0, Math.min(at + (event.key === next ? 1 : -1), marks.length - 1))]);
    else { here = marks[at]; choose(nearest(marks, event.key === "ArrowUp" ? -1 : 1)); }
  });
  figure.addEventListener("blur", () => choose(null));
  figure.addEventListener("pointermove", (event) => {
    if (here && !event.movementX && !event.movementY) return;  // a key has moved the page under the pointer
    choose(null);
    if (event.target.described) showTooltip(event.target.described, event.clientX, event.clientY);
  });
  figure.addEventListener("pointerleave", () => { if (!here) hideTooltip(); });
}

/** A table. A column is [title, text of a row, "left" or "wrap" if it is not a number]. */
function table(rows, columns, classOf) {
  const head = html("tr", {}, columns.map(([title, , side]) => html("th", { scope: "col", class: side ? "left" : null }, title)));
  const body = rows.map((row, i) => html("tr", { class: classOf ? classOf(row) : null },
    columns.map(([, text, side]) => html("td", { class: side ? (side === "wrap" ? "left wrap" : "left") : null }, text(row, i)))));
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "table" }, html("table", {}, [html("thead", {}, head), html("tbody", {}, body)]));
}

/** Appends what has to be known about the input. Returns the warnings beyond the second, to be opened below the charts. */
function showWarnings(section) {
  const all = (data.warnings || []).map((warning) => html("p", { class: "warning" }, "Warning: " + warning));
  section.append(...all.slice(0, 2));
  return all.length <= 2 ? [] : [html("details", {}, [html("summary", {}, `${all.length - 2} more warning${all.length === 3 ? "" : "s"}`), ...all.slice(2)])];
}

function selection(title, options, chosen, change) {
  const select = html("select", {}, options.map((option) => html("option", { value: option, selected: String(option) === String(chosen) ? "" : null }, option)));
  select.addEventListener("change", () => change(select.value));
  return html("label", {}, [title + " ", select]);
}

/** A view with its heading and its entry in the contents. */
function view(id, title) {
  const section = html("section", { id, "aria-labelledby": id + "-title" }, html("h2", { id: id + "-title" }, title));
  document.getElementById("views").append(section);
  document.getElementById("contents").append(html("a", { href: "#" + id }, title));
  return section;
}

// ---- schedules, each with its colour, dash and marker on the whole page

const scheduleNames = [];
for (const entry of data.results || [])
  if (entry.workers === data.results[0].workers) scheduleNames.push(entry.schedule);
const isOurs = (name) => name.startsWith("fusewise");

// A named schedule looks the same in every report. The first seven, which are compared most often, have solid lines
// of seven colours; then come the same colours with other dashes and other markers. Other schedules take the places that
// follow. Up to 35 places differ in colour or dash, and more in marker, too.
const NAMED = ["fusewise", "ddp", "wfbp", "horovod", "sync-easgd", "fusewise-dear", "mg-wfbp",
  "zero", "dear", "s-sgd", "fsdp", "bytescheduler", "dear-fb", "dear-nl",
  "fsdp2", "hsdp", "zero1", "zero2", "zero3", "megatron-do", "dear-no-fusion",
  "grace", "hipress", "cupcake", "topk-a", "topk-dsa", "gtopk", "gaussian-k", "ok-topk", "hitopk", "dense", "dense-overlap", "parameter-server"];

function look(place) {
  const row = Math.floor(place / COLOURS.length);
  return { colour: COLOURS[place % COLOURS.length], dash: DASHES[row % DASHES.length], marker: MARKERS[(place + 3 * row) % MARKERS.length] };
}
// "topk-a 0.01" has the look of "topk-a", unless another schedule of the page has it.
const places = [], free = d3.range(NAMED.length + scheduleNames.length);
const claim = (index, place) => { if (places[index] === undefined && free.includes(place)) places[index] = free.splice(free.indexOf(place), 1)[0]; };
scheduleNames.forEach((name, i) => claim(i, NAMED.indexOf(name)));
scheduleNames.forEach((name, i) => claim(i, NAMED.findIndex((named) => name.startsWith(named + " "))));
scheduleNames.forEach((_, i) => claim(i, free.find((place) => place >= NAMED.length)));
const styleOf = (index) => look(places[index]);

function marker(x, y, style, size = 44) {
  return svg("path", { d: d3.symbol(style.marker, size)(), transform: `translate(${x} ${y})`, fill: style.colour });
}

/** The entries of each schedule, in the order of the scenario. */
function curves() {
  const out = scheduleNames.map((name, index) => ({ name, index, points: [] }));
  let nth = 0;
  data.results.forEach((entry, i) => {
    nth = i === 0 || entry.workers !== data.results[i - 1].workers ? 0 : nth + 1;
    out[nth].points.push(entry);
  });
  for (const curve of out) curve.points.sort((a, b) => a.workers - b.workers);
  return out;
}
const workerCounts = data.results ? [...new Set(data.results.map((entry) => entry.workers))].sort((a, b) => a - b) : [];
