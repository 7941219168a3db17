// Shows the views for which there are data.

document.getElementById("about").textContent = data.about || "";
if (data.results) showScaling();
if (data.timelines) showTimelines();
if (data.results) showParts();
if (data.plan) showPlan();
if (data.sweep) showSweep();
if (data.accuracy) showAccuracy();
if (data.live) showLive();
if (data.comparison) showCompared();
if (data.fit) showFit();
if (data.front) showFront();
if (data.results) showNumbers();
// Only now does every chart know how wide its place is.
for (const redraw of redraws) redraw();

const theme = document.getElementById("theme");
theme.addEventListener("click", () => {
  const names = ["system", "light", "dark"], root = document.documentElement;
  const next = names[(names.indexOf(root.dataset.theme || "system") + 1) % names.length];
  if (next === "system") delete root.dataset.theme; else root.dataset.theme = next;
  theme.textContent = "Colours: " + next;
  theme.setAttribute("aria-label", "Colours: " + (next === "system" ? "as the system has them" : next));
});

// Paper has another width than the screen, and no details that can be opened.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const each of opened) each.open = true;
  printing = true;
  for (const redraw of redraws) redraw();
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
  printing = false;
  for (const redraw of redraws) redraw();
});

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const redraw of redraws) redraw();
});
