// fusewise measure: what collectives take between processes or, if asked, what compressors take here.

#include "cli/measure.hpp"

#include <array>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"

namespace cli {

void add_measure(CLI::App& app) {
  CLI::App* command = app.add_subcommand("measure", "Time collectives, or compressors, and write them down");
  auto wishes = std::make_shared<MeasureWishes>();
  command->add_option("-o,--output", wishes->output, "write to this file and print a summary")
      ->check(file_name());
  command
      ->add_option("--repetitions", wishes->repetitions,
                   "of each measurement that count (default: 20; of compressors 9)")
      ->check(CLI::Range(1U, 1'000'000U));

  // To add something to measure: write measure_<name>.cpp and list it here.
  const MeasureKind collectives = add_measure_collectives(*command);
  auto others = std::make_shared<std::vector<MeasureKind>>();
  for (const auto& add : {add_measure_compressors}) others->push_back(add(*command));
  for (const MeasureKind& kind : *others)
    for (CLI::Option* option : collectives.own) kind.chosen_by->excludes(option);

  command->callback([collectives, others, wishes] {
    for (const MeasureKind& kind : *others)
      if (kind.chosen_by->count() > 0) return kind.run(*wishes);
    collectives.run(*wishes);
  });
}

}  // namespace cli
