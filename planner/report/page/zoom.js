// A chart of times that the mouse, the wheel and the keyboard zoom and move.

const EDGE = 12;

/** Appends a chart of times to `section`, below `controls`. `draw(width, shown, height)` returns its drawings for the times `shown`, each of which is at most that high; `spans()` returns
 * the times `first` shown and all times (`whole`), as [from, to], and the shortest span (`least`); `describe(shown)` says below
 * what is shown; `noun` is what it shows at first, and `name()` the title of a saved picture. Returns a function that shows the first times again. */
function timeChart(section, controls, { label: about, noun, name, draw, spans, describe }) {
  const figure = html("figure", { class: "timeline", tabindex: 0, role: "application", "aria-label": `${about}. Plus and minus zoom, left and right move, 0 shows ${noun}, up and down go from one part to the next and explain it.` });
  const status = html("p", { class: "quiet", role: "status" });
  let shown = [0, 1], asked = false;
  const redraw = () => {
    show(figure, (width, height) => draw(width, shown, height));
    status.textContent = describe(shown);
  };
  const redrawSoon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; redraw(); });
  };
  // The scale of the times shown first, to which the transforms of the zoom refer.
  const home = d3.scaleLinear();
  const zoom = d3.zoom()
    // The wheel scrolls the page until the chart is selected, and a single finger always.
    .filter((event) => !event.button && (event.type !== "wheel" || event.ctrlKey || document.activeElement === figure) && !(event.touches && event.touches.length < 2))
    .on("zoom", (event) => { shown = event.transform.rescaleX(home).domain(); redrawSoon(); });
  const chosen = d3.select(figure).call(zoom).on("dblclick.zoom", () => reset()).on("mousedown.focus", () => figure.focus({ preventScroll: true }));
  const reset = () => chosen.call(zoom.transform, d3.zoomIdentity);
  /** Fits the scale to the width of the chart, and shows `times`. */
  const fit = (times) => {
    const { first, whole, least } = spans(), length = first[1] - first[0];
    home.domain(first).range([EDGE, placeWidth(figure) - EDGE]);
    zoom.scaleExtent([length / (1.1 * (whole[1] - whole[0])), length / least]).translateExtent([[home(whole[0]), -Infinity], [home(whole[1]), Infinity]]);
    const scale = length / (times[1] - times[0]);
    chosen.call(zoom.transform, d3.zoomIdentity.translate(EDGE - scale * home(times[0]), 0).scale(scale));
    redraw();
  };
  const magnify = (factor) => chosen.call(zoom.scaleBy, factor);
  const move = (share) => chosen.call(zoom.translateBy, -share * (shown[1] - shown[0]) * (home(1) - home(0)), 0);

  figure.addEventListener("keydown", (event) => {
    const act = { "+": () => magnify(1.6), "=": () => magnify(1.6), "-": () => magnify(1 / 1.6), ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), 0: reset, Home: reset }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    hideTooltip();
    act();
  });
  explains(figure, "ArrowUp", "ArrowDown");

  const button = (text, title, act) => {
    const out = html("button", { type: "button", "aria-label": title, title }, text);
    out.addEventListener("click", act);
    return out;
  };
  section.append(html("div", { class: "controls" }, [...controls,
    button("+", "zoom in", () => magnify(1.6)), button("\u2212", "zoom out", () => magnify(1 / 1.6)), button("\u2190", "earlier", () => move(-0.25)),
    button("\u2192", "later", () => move(0.25)), button("reset", `show ${noun}`, reset),
    button("Save as SVG", "save the timelines as SVG", () => download(picture(figure.querySelector("svg")), `${data.title}, ${name()}.svg`))]));
  section.append(html("p", { class: "quiet controls" }, `Select the chart, then: + and \u2212 or the wheel zoom, \u2190 and \u2192 or dragging move, 0 or a double click shows ${noun}, \u2191 and \u2193 explain one part after the other.`));
  section.append(figure, status);
  redraws.push(() => fit(shown));
  return () => fit(spans().first);
}

/** What lies outside the edges of a zoomed chart is not drawn. */
const clipped = (id, width) => svg("clipPath", { id }, svg("rect", { x: EDGE, y: 0, width: width - 2 * EDGE, height: 100000 }));

/** Title and keys above a zoomed chart, and the height that they take. */
function heading(width, title, keys) {
  const drawn = keyRows(keys, width - 2 * EDGE), lines = wrapped(title, width - 2 * EDGE), room = 8 + 18 * lines.length + drawn.height;
  return { room, children: [svg("g", { transform: `translate(${EDGE} ${-drawn.height})` }, drawn.children),
    ...lines.map((line, i) => label(EDGE, 14 + 18 * i - room, line, { class: "title" }))] };
}
