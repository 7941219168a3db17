// Elements, scales, ticks and tooltips: what every chart is drawn with.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

// Okabe and Ito's colours, which colour-blind readers can distinguish.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f"];
const DASHES = ["", "7 4", "2 3"];
const MARKERS = ["circle", "square", "diamond", "triangle"];

function setAll(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  for (const child of [].concat(children || []))
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

/** A chart as wide as its place, with its title and keys. `draw(width)` returns its height and its elements. */
function chart(place, title, draw, keys = []) {
  const save = html("button", { type: "button", class: "save", "aria-label": `Save as SVG: ${title}` }, "Save as SVG");
  const figure = html("figure", {}, save);
  place.append(figure);
  let drawn = null;
  const redraw = () => {
    const width = Math.max(300, Math.floor(figure.clientWidth || place.clientWidth || 900));
    const { height, children } = draw(width), above = keyRows(keys, width), room = 26 + above.height;
    const next = svg("svg", { viewBox: `0 ${-room} ${width} ${height + room}`, role: "img", "aria-label": title },
      [label(0, 16 - room, shortened(title, width - 110), { class: "title" }), svg("g", { transform: `translate(0 ${-above.height})` }, above.children), ...children]);
    if (drawn) drawn.replaceWith(next); else figure.append(next);
    drawn = next;
  };
  save.addEventListener("click", () => download(picture(drawn), `${data.title}, ${title}.svg`));
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

function linear(from, to, low, high) {
  const scale = (value) => low + (high - low) * (to === from ? 0.5 : (value - from) / (to - from));
  return scale;
}
function logarithmic(from, to, low, high) {
  return (value) => low + (high - low) * (to === from ? 0.5 : Math.log(value / from) / Math.log(to / from));
}

/** Round numbers from `from` to `to`, about `count` of them. */
function linearTicks(from, to, count) {
  const rough = (to - from) / Math.max(1, count);
  if (!(rough > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999) * power;
  const out = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to * (1 + 1e-12) + step * 1e-9; ++i) out.push(i * step);
  return out;
}
function logTicks(from, to) {
  for (const digits of [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8], [1, 1.2, 1.4, 1.6, 1.8, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5]]) {
    const out = [];
    for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); ++power)
      for (const digit of digits) {
        const tick = digit * 10 ** power;
        if (tick >= from * 0.9999 && tick <= to * 1.0001) out.push(tick);
      }
    if (out.length >= 3) return out;
  }
  return [from, to];
}

/** A number with as many digits as are worth reading. */
function number(value, digits) {
  if (value === 0) return "0";
  const places = Math.max(0, (digits || 4) - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 6)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}
const ms = (us) => (us / 1000).toFixed(3);
const percent = (share) => (100 * share).toFixed(1) + " %";
const bytes = (count) => (count >= 1e6 ? number(count / 1e6, 4) + " MB" : number(count / 1e3, 4) + " kB");

/** Time in the unit that suits the length of what is shown. */
function timeText(ns, span) {
  if (span >= 2e9) return number(ns / 1e9, 5) + " s";
  if (span >= 2e6) return number(ns / 1e6, 6) + " ms";
  return number(ns / 1e3, 6) + " us";
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
  tooltip.textContent = text;
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  tooltip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tooltip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}
const hideTooltip = () => { tooltip.hidden = true; };
/** Shows this text while the pointer is on the element. */
function explained(element, text) {
  element.addEventListener("pointermove", (event) => showTooltip(text, event.clientX, event.clientY));
  element.addEventListener("pointerleave", hideTooltip);
  return element;
}

/** A table. A column is [title, text of a row, "left" or "wrap" if it is not a number]. */
function table(rows, columns, classOf) {
  const head = html("tr", {}, columns.map(([title, , side]) => html("th", { scope: "col", class: side ? "left" : null }, title)));
  const body = rows.map((row, i) => html("tr", { class: classOf ? classOf(row) : null },
    columns.map(([, text, side]) => html("td", { class: side ? (side === "wrap" ? "left wrap" : "left") : null }, text(row, i)))));
  return html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "table" }, html("table", {}, [html("thead", {}, head), html("tbody", {}, body)]));
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
// of seven colours; then come the same colours dashed, then dotted. Other schedules take the places that follow.
const NAMED = ["fusewise", "ddp", "wfbp", "horovod", "sync-easgd", "fusewise-dear", "mg-wfbp",
  "zero", "dear", "s-sgd", "fsdp", "bytescheduler", "dear-fb", "dear-nl",
  "fsdp2", "hsdp", "zero1", "zero2", "zero3", "megatron-do", "dear-no-fusion",
  "grace", "hipress", "cupcake", "topk-a", "topk-dsa", "gtopk", "gaussian-k", "ok-topk", "hitopk", "dense", "dense-overlap", "parameter-server"];

const look = (place) => ({ colour: COLOURS[place % COLOURS.length], dash: DASHES[Math.floor(place / COLOURS.length) % DASHES.length], marker: MARKERS[place % MARKERS.length] });
function styleOf(index) {
  const named = NAMED.indexOf(scheduleNames[index]);
  return look(named >= 0 ? named : NAMED.length + scheduleNames.slice(0, index).filter((name) => !NAMED.includes(name)).length);
}

function marker(x, y, style, size) {
  const r = size || 3.6;
  if (style.marker === "square") return svg("rect", { x: x - r, y: y - r, width: 2 * r, height: 2 * r, fill: style.colour });
  if (style.marker === "diamond") return svg("path", { d: `M${x} ${y - 1.3 * r}L${x + 1.3 * r} ${y}L${x} ${y + 1.3 * r}L${x - 1.3 * r} ${y}Z`, fill: style.colour });
  if (style.marker === "triangle") return svg("path", { d: `M${x} ${y - 1.2 * r}L${x + 1.2 * r} ${y + r}L${x - 1.2 * r} ${y + r}Z`, fill: style.colour });
  return svg("circle", { cx: x, cy: y, r, fill: style.colour });
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
