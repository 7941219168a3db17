// fusewise measure: what collectives take between processes or, if asked, what compressors take here.

#include "cli/measure.hpp"

#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"

namespace cli {

void add_measure(const Command& program) {
  const Command command =
      program.add_command("measure", "Time collectives, or compressors, and write them down");
  auto options = std::make_shared<MeasureOptions>();
  command.add_option("-o,--output", options->output, "write to this file and print a summary")
      .check(file_name());
  command
      .add_option("--repetitions", options->repetitions,
                  "of each measurement that count (default: 20; of compressors 9)")
      .check(range(1U, 1'000'000U));

  // To add something to measure: write measure_<name>.cpp and list it here.
  const MeasureKind collectives = add_measure_collectives(command);
  auto others = std::make_shared<std::vector<MeasureKind>>();
  for (const auto& add : {add_measure_compressors}) others->push_back(add(command));

  command.on_run([collectives, others, options] {
    for (const MeasureKind& kind : *others) {
      if (!kind.chosen_by->is_given()) continue;
      for (const Option& option : collectives.own)
        if (option.is_given())
          throw core::InputError(fmt::format("{}: expected nothing of collectives with {}, got it",
                                             option.name(), kind.chosen_by->name()));
      return kind.run(*options);
    }
    collectives.run(*options);
  });
}

}  // namespace cli
