// fusewise compare: what traces of a job measured beside what was predicted, or beside other traces.

#include <unistd.h>

#include <memory>

#include "cli/commands.hpp"
#include "cli/comparisons.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"

namespace cli {
namespace {

struct Options : CompareOptions {
  bool json = false;
};

void compare(const Options& options) {
  const compared::Comparison comparison = comparison_of(options);
  print_warnings(comparison.warnings);
  options.json ? print(comparison_json(comparison))
               : print_for_people(comparison_text(comparison, terminal_width(STDOUT_FILENO)));
}

}  // namespace

void add_compare(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("compare", "Compare traces of a job with a prediction, or with other traces");
  command.footer(
      "Example: fusewise compare rank0.json rank1.json --plan job.plan.json\n"
      "         fusewise compare before.json after.json");
  command
      .add_option(
          "TRACE", options->traces,
          "traces of the ranks of one job, or a folder with them; without --plan two of either, before and "
          "after a change, or one beside what its own profile and collectives predict")
      .required();
  const Option plan = command.add_option("--plan", options->plan,
                                         "what was predicted: a fusewise.plan, or a fusewise.scenario");
  command
      .add_option("--profile", options->profile,
                  "profile for a plan (default: imported from the trace that is compared)")
      .needs(plan);
  command.add_option("--network", options->network, "network for a plan (default: measured by the traces)")
      .needs(plan);
  command
      .add_option("--schedule", options->schedule, "name of the schedule of a scenario (default: its first)")
      .needs(plan);
  command
      .add_option("--workers", options->workers,
                  "number of workers (default: the plan's, or the scenario's first)")
      .needs(plan)
      .check(range<std::int64_t>(1, 1'000'000));
  command.add_option(
      "--group", options->group,
      "process group that sums gradients, by name or description (default: the one that the trace shows)");
  command.add_option("--rank", options->rank, "rank whose iteration is compared (default: the lowest)")
      .check(range<std::int64_t>(0, 999'999));
  command.add_option("--step", options->step, "prefix of the annotations that mark the iterations of a trace")
      .show_default();
  command.add_flag("--json", options->json, "print the comparison as JSON");
  command.on_run([options] { compare(*options); });
}

}  // namespace cli
