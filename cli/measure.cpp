// fusewise measure: measures collectives between processes, or compressors on this machine.

#include "cli/measure.hpp"

#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"

namespace cli {

void add_measure(const Command& program) {
  const Command command = program.add_command("measure", "Measure the times of collectives or compressors");
  auto options = std::make_shared<MeasureOptions>();
  command.add_output("-o,--output", options->output, "write to this file and print a summary");
  command.add_flag("--json", options->json,
                   "print JSON also with --output, which prints a summary otherwise");
  command
      .add_option("--repetitions", options->repetitions,
                  "repetitions of each measurement (default: 20; for compressors 9)")
      .check(range(1U, 1'000'000U));

  // A new kind of measurement is a file measure_<name>.cpp and an entry in this list.
  const MeasureKind collectives = add_measure_collectives(command);
  auto others = std::make_shared<std::vector<MeasureKind>>();
  for (const auto& add : {add_measure_compressors}) others->push_back(add(command));

  command.on_run([collectives, others, options] {
    for (const MeasureKind& kind : *others) {
      if (!kind.selected_by->is_given()) continue;
      for (const Option& option : collectives.own_options)
        if (option.is_given())
          throw core::InputError(fmt::format("{}: expected no option of collectives with {}, got one",
                                             option.name(), kind.selected_by->name()));
      options->backend = collectives.backend();
      return kind.run(*options);
    }
    collectives.run(*options);
  });
}

}  // namespace cli
