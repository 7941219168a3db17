// The collectives of a live run: as they were measured above as they were predicted.

function showLive() {
  const section = view("live", "Collectives, measured and predicted");
  let run = data.live[0];
  const names = data.live.map((each) => each.plan);
  const controls = names.length === 1 ? [] : [selection("Plan", names, run.plan, (name) => { run = data.live[names.indexOf(name)]; showFirst(); })];
  const times = () => run.sides.flatMap((side) => [0, side.iteration_us, ...side.collectives.flatMap((each) => [each.start_us, each.end_us])]);
  const showFirst = timeChart(section, controls, { label: "Collectives", noun: "the iterations", name: () => `Collectives of ${run.plan}, measured and predicted`,
    draw: (width, shown) => [comparedChart(width, run.sides, shown)],
    spans: () => {
      const [from, to] = d3.extent(times()), room = 0.02 * (to - from);
      return { first: [from - room / 2, to + room], whole: [from - room, to + 2 * room], least: 0.05 };
    },
    describe: (shown) => `The chart shows worker ${run.worker} under ${run.plan} from ${ms(shown[0])} to ${ms(shown[1])} ms. Measured starts and ends are medians over iterations.` });
  showFirst();
}
