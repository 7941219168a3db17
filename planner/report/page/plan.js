// The plan: its groups, what to paste, the groups that cost most, and what would change it.

function showPlan() {
  const plan = data.plan;
  const section = view("plan", "The plan");
  if (plan.problem) {
    section.append(html("p", { class: "warning" }, `No plan by ${plan.schedule} for ${plan.workers} workers: ${plan.problem}`));
    return;
  }
  if (plan.stages) {
    showStagePlans(section, plan);
    return;
  }
  const document_ = plan.document, predicted = document_.predicted;
  section.append(html("p", {}, `${document_.model} on ${plan.workers} workers by ${plan.schedule}: ${document_.groups.length} group${document_.groups.length === 1 ? "" : "s"}, ` +
    `${ms(predicted.iteration_us)} ms per iteration${document_.optimality === "exact" ? ", and no other grouping is faster" : ""}. A simple lower bound, which need not be reachable, is ${ms(predicted.lower_bound_us)} ms.`));
  chart(section, () => `Groups in the order of communication, by their bytes: ${plan.schedule} on ${plan.workers} workers`, (width) => groupsChart(width, document_.groups));
  if (plan.explanation) showCostliest(section, plan.explanation);
  showGroups(section, document_, plan.explanation);
  const others = predicted.compared_with || [];
  if (others.length > 0) showOthers(section, predicted.iteration_us, others);
  if (plan.emissions) showEmissions(section, plan.emissions, document_.pipeline);
  if (plan.explanation) showWhatIfs(plan.explanation);
}

/** The plans of all parts of a job with pipeline stages. */
function showStagePlans(section, plan) {
  const all = plan.stages;
  section.append(html("p", {}, `${all.model} on ${plan.workers} workers by ${plan.schedule}: ${ms(all.iteration_us)} ms per iteration${all.exact ? ", and no other grouping is faster" : ""}. A simple lower bound, which need not be reachable, is ${ms(all.lower_bound_us)} ms.`));
  // the explanation has the groups in the order of the plans
  const reasons = plan.explanation ? plan.explanation.groups : [];
  const rows = all.parts.flatMap((part) => part.plan.groups.map((group, i) => ({ part, group, number: i + 1 }))).map((row, i) => ({ ...row, reason: reasons[i] }));
  if (plan.explanation) showCostliestOfStages(section, rows, plan.explanation.iteration_us);
  const times = [["ready ms", "sendable_us"], ["starts ms", "start_us"], ["ends ms", "end_us"], ["exposed ms", "exposed_us"], ["costs ms", "saves_if_free_us"]];
  section.append(html("details", rows.length <= 24 ? { open: "" } : {}, [html("summary", {}, `All ${rows.length} groups` + (plan.explanation ? " (times from the start of the iteration; costs: how much shorter it is without the group's time)" : "")), table(rows, [
    ["stage", (row) => row.part.stage], ...(all.parts.some((part) => part.part !== undefined) ? [["part", (row) => row.part.part]] : []), ...(all.parts.some((part) => part.process_group === "expert") ? [["process group", (row) => row.part.process_group, "left"]] : []),
    ["workers", (row) => row.part.plan.workers], ["group", (row) => row.number], ["tensors", (row) => row.group.tensors.length], ["size", (row) => bytes(row.group.bytes)],
    ["in backward order", (row) => tensorsText(row.group), "wrap"], ...(plan.explanation ? times.map(([name, key]) => [name, (row) => ms(row.reason[key])]) : [])])]));
  showOthers(section, all.iteration_us, all.compared_with);
  showEmissions(section, plan.emissions, all.pipeline);
  if (plan.explanation) showWhatIfs(plan.explanation);
}

/** Groups of stages by what the iteration would be without them: what is exposed in one stage may be hidden by another. */
function showCostliestOfStages(section, rows, iteration_us) {
  const worst = rows.filter((row) => row.reason.saves_if_free_us > 0).sort((a, b) => b.reason.saves_if_free_us - a.reason.saves_if_free_us).slice(0, 3);
  section.append(costliestTitle(worst.length, "No group costs time by itself"));
  if (worst.length === 0) section.append(html("p", {}, "The iteration would take as long without the time of any one group."));
  section.append(html("ol", { class: "advice" }, worst.map(({ part, group, number, reason }) => html("li", {}, [
    html("strong", {}, `Stage ${part.stage}, ${part.part === undefined ? "" : `part ${part.part}, `}group ${number}, ${bytes(group.bytes)}: without its time the iteration is ${ms(reason.saves_if_free_us)} ms shorter`),
    ` (${percent(reason.saves_if_free_us / iteration_us)} of it). ${reasonText(reason, "the iteration")}`]))));
}

const costliestTitle = (count, none) => html("h3", {}, count === 0 ? none : count === 1 ? "The group that costs most" : `The ${["two", "three"][count - 2]} groups that cost most`);

const tensorsText = ({ tensors }) => (tensors.length === 1 ? tensors[0] : `${tensors[0]} .. ${tensors[tensors.length - 1]}`);

function showOthers(section, iteration_us, others) {
  section.append(html("h3", {}, "Against other groupings"));
  section.append(table([{ schedule: "this plan", iteration_us }, ...others], [["schedule", (row) => row.schedule, "left"], ["iteration ms", (row) => ms(row.iteration_us)],
    ["this plan saves", (row, i) => (i === 0 || !(row.iteration_us > 0) ? "" : percent(1 - iteration_us / row.iteration_us))]]));
}

function groupsChart(width, groups) {
  const left = 4, right = width - 4, height = 58;
  const total = groups.reduce((sum, group) => sum + group.bytes, 0), out = [];
  let at = 0;
  groups.forEach((group, i) => {
    const a = left + (right - left) * at / total, b = left + (right - left) * (at + group.bytes) / total;
    out.push(explained(svg("rect", { x: a, y: 4, width: Math.max(0.5, b - a - (b - a > 4 ? 1.5 : 0)), height: 30, style: "fill:var(--communication)", opacity: i % 2 ? 0.72 : 1 }),
      `Group ${i + 1}: ${bytes(group.bytes)}, ${group.tensors.length} tensors, ${group.tensors[0]} .. ${group.tensors[group.tensors.length - 1]}`));
    const long = `${i + 1}: ${bytes(group.bytes)}`, text = textWidth(long) + 6 < b - a ? long : textWidth(String(i + 1)) + 4 < b - a ? String(i + 1) : "";
    if (text) out.push(label((a + b) / 2, 24, text, { "text-anchor": "middle", class: "inside" }));
    at += group.bytes;
  });
  out.push(label(left, 52, "last layer", { class: "quiet" }), label(right, 52, "first layer", { class: "quiet", "text-anchor": "end" }));
  return { height, children: out };
}

function reasonText(group, since = "backward") {
  const waited = { gradients: "It started as soon as its last gradient was ready", channel: "It waited for the group before it, which kept the channel busy", gather: "It waited for an all-gather before it on the channel", tick: "It waited for the next tick of the cycle",
    scatters: "It waited for the limit on reduce-scatters in flight", workers: "It waited for slower workers", pass: "It waited for a pass of its stage, after which gradients are sent" }[group.waited_for];
  let out = waited ? `${waited}${["channel", "gather"].includes(group.waited_for) ? `: ready at ${ms(group.sendable_us)} ms of ${since}, started at ${ms(group.start_us)} ms` : ` (${ms(group.start_us)} ms into ${since})`}.` : "";
  if (group.exposed_by_collective) out += ` Compute waits ${Object.entries(group.exposed_by_collective).map(([kind, us]) => `${ms(us)} ms for its ${kind.replaceAll("_", "-")}s`).join(", ")}.`;
  if (group.merge_cost_us !== undefined) out += ` Merging it with the next group would ${changeText(group.merge_cost_us)}.`;
  if (group.split_cost_us !== undefined) out += ` The best split, after ${group.split_after}, would ${changeText(group.split_cost_us)}.`;
  return out;
}
const changeText = (us) => (us > 0.0005 ? `cost ${ms(us)} ms` : us < -0.0005 ? `save ${ms(-us)} ms` : "change nothing");

function showCostliest(section, explanation) {
  const worst = explanation.groups.map((group, i) => ({ ...group, number: i + 1 })).filter((group) => group.exposed_us > 0).sort((a, b) => b.exposed_us - a.exposed_us).slice(0, 3);
  section.append(costliestTitle(worst.length, "Nothing is exposed"));
  if (worst.length === 0) section.append(html("p", {}, "Every group is hidden under compute."));
  section.append(html("ol", { class: "advice" }, worst.map((group) => html("li", {}, [html("strong", {}, `Group ${group.number}, ${bytes(group.bytes)}: compute waits ${ms(group.exposed_us)} ms for it`),
    ` (${percent(group.exposed_us / explanation.iteration_us)} of the iteration). ${reasonText(group)}`]))));
}

function showGroups(section, document_, explanation) {
  const rows = document_.groups.map((group, i) => ({ group, reason: explanation && explanation.groups[i] }));
  const columns = [["group", (row, i) => i + 1], ["tensors", (row) => row.group.tensors.length], ["size", (row) => bytes(row.group.bytes)],
    ["in backward order", (row) => tensorsText(row.group), "wrap"]];
  if (explanation) columns.push(["ready ms", (row) => ms(row.reason.sendable_us)], ["starts ms", (row) => ms(row.reason.start_us)], ["ends ms", (row) => ms(row.reason.end_us)],
    ["waits for", (row) => row.reason.waited_for, "left"], ["exposed ms", (row) => ms(row.reason.exposed_us)]);
  section.append(html("details", rows.length <= 12 ? { open: "" } : {}, [html("summary", {}, `All ${rows.length} groups` + (explanation ? " (times from the start of backward)" : "")), table(rows, columns)]));
}

function showEmissions(section, emissions, pipeline) {
  const usual = pipeline === "sharded" ? "fsdp" : "ddp";
  section.append(html("h3", {}, "What to paste"));
  let chosen = emissions.some((each) => each.target === usual && each.text) ? usual : (emissions.find((each) => each.text) || emissions[0]).target;
  const summary = html("p", { class: "quiet" }), code = html("pre", { tabindex: 0, "aria-label": "code to paste" });
  const copy = html("button", { type: "button" }, "Copy");
  const show = () => {
    const one = emissions.find((each) => each.target === chosen);
    summary.textContent = one.summary + ".";
    code.textContent = one.text || `${chosen} cannot have this plan: ${one.problem}`;
    copy.textContent = "Copy";
  };
  copy.addEventListener("click", () => {
    const done = () => { copy.textContent = "Copied"; };
    const select = () => { getSelection().selectAllChildren(code); copy.textContent = "Selected: press Ctrl+C"; };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, select); else select();
  });
  section.append(html("div", { class: "controls" }, [selection("Framework", emissions.map((each) => each.target), chosen, (value) => { chosen = value; show(); }), copy]), summary, code);
  show();
}

function showWhatIfs(explanation) {
  const section = view("whatif", "What if");
  const alone = explanation.compute_us === undefined ? `Without the time of collectives it takes ${ms(explanation.without_collectives_us)}` : `Compute alone takes ${ms(explanation.compute_us)}`;
  section.append(html("p", {}, `What bounds the iteration: ${explanation.bound_by}. ${alone} of ${ms(explanation.iteration_us)} ms.`));
  const single = [...explanation.if_free.map((row) => ({ ...row, change: row.change + " free" })), ...explanation.if_other];
  const combined = explanation.combined, chosen = combined ? combined.inputs.map(() => 0) : [];
  const changes = () => (combined ? combined.inputs.flatMap(({ name, values }, i) => (chosen[i] === 0 ? [] : [`${name} ${values[chosen[i]]}`])).join(", ") : "");
  /** What the changes do together; none while nothing is changed. */
  const together = () => {
    if (!changes()) return [];
    const row = combined.inputs.reduce((index, { values }, i) => index * values.length + chosen[i], 0);
    return [{ change: "together", this_plan_us: combined.this_plan_us[row], best_plan_us: combined.best_plan_us[row] }];
  };
  const result = html("p", { class: "controls", role: "status" });
  const say = () => {
    const [row] = together();
    result.textContent = !row ? "Choose changes above to see what they do together." : row.this_plan_us === null ? `${capital(changes())}: this cannot be simulated, as times become too long or too short.` :
      `${capital(changes())}: ${ms(row.this_plan_us)} ms per iteration with this plan and ${ms(row.best_plan_us)} ms with the best plan for these changes, instead of ${ms(explanation.iteration_us)} ms.`;
  };
  if (combined) {
    section.append(html("div", { class: "controls", role: "group", "aria-label": "Changes" }, combined.inputs.map(({ name, values }, i) =>
      selection(capital(name), values, values[0], (value) => { chosen[i] = values.indexOf(value); say(); draw(); }))), result);
    say();
  } else section.append(html("p", { class: "quiet" }, "The job is too large to try several changes at once."));
  const draw = chart(section, () => `Iteration time in ms if inputs changed: ${data.plan.schedule} on ${data.plan.workers} workers${changes() && `; together: ${changes()}`}`, (width) => whatIfChart(width, [...together().filter((row) => row.this_plan_us !== null), ...single], explanation.iteration_us),
    [swatch("with this plan", "var(--backward)"), swatch("with the best plan for the change (number at the right)", "var(--forward)"),
      ["without a change", (x, y) => svg("path", { d: `M${x} ${y - 7}v14`, style: "stroke:var(--idle)", "stroke-width": 2, "stroke-dasharray": "5 3" })]]);
  if ((explanation.compressors || []).length > 0) {
    section.append(html("h3", {}, "Does compression pay?"));
    section.append(html("p", { class: "quiet" }, `The best plan without compression takes ${ms(explanation.best_uncompressed_us)} ms. Extra iterations that a lossy compressor may need are not counted: see fusewise plan --consider-compression.`));
    section.append(table(explanation.compressors, [["compressor", (row) => row.name + (row.density ? ` (density ${number(row.density, 4)})` : ""), "left"], ["iteration ms", (row) => ms(row.iteration_us)],
      ["saves", (row) => percent(1 - row.iteration_us / explanation.best_uncompressed_us)],
      ["pays", (row) => {
        const factor = row.break_even_slowdown_per_byte;
        if (factor === undefined) return "not even with a thousandth of this bandwidth";
        return factor === 0 ? "with any bandwidth up to 1,000 times this one" : `up to ${number(1 / factor, 3)} times this bandwidth`;
      }, "left"]]));
  }
}

function whatIfChart(width, rows, now) {
  const left = Math.min(width * 0.42, 18 + Math.max(60, ...rows.map((row) => textWidth(row.change)))), right = width - 70, row = 30, height = rows.length * row + 48;
  const most = Math.max(now, ...rows.map((each) => Math.max(each.this_plan_us, each.best_plan_us)));
  const x = d3.scaleLinear([0, most / 1000], [left, right]), out = [bottomAxis(x, 4, height - 40, "iteration in ms")];
  rows.forEach((each, i) => {
    const top = 6 + i * row;
    const lines = wrapped(each.change, 1.25 * (left - 12)).slice(0, 2);
    lines.forEach((line, k) => out.push(label(left - 8, top + (lines.length === 1 ? 15 : 9 + 13 * k), line, { "text-anchor": "end" })));
    [[each.this_plan_us, "--backward", 0, "with this plan"], [each.best_plan_us, "--forward", 11, "with the best plan"]].forEach(([us, colour, down, which]) =>
      out.push(explained(svg("rect", { x: left, y: top + down, width: Math.max(0.5, x(us / 1000) - left), height: 10, style: `fill:var(${colour})` }), `${each.change}, ${which}: ${ms(us)} ms`)));
    out.push(label(width - 4, top + 15, ms(each.best_plan_us), { "text-anchor": "end" }));
  });
  out.push(svg("path", { d: `M${x(now / 1000)} 2V${height - 40}`, style: "stroke:var(--idle)", "stroke-width": 2, "stroke-dasharray": "5 3" }));
  return { height, children: out };
}
