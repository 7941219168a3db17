// fusewise measure: what this machine's compressors cost. One kind of measurement at a time.

#include "cli/measure.hpp"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "models/errors.hpp"

namespace cli {
namespace {

// To add something to measure: write measure_<name>.cpp and list it here.
constexpr MeasureKind (*kKinds[])(CLI::App&) = {add_measure_compressors};

const MeasureKind& chosen(const std::vector<MeasureKind>& kinds) {
  const MeasureKind* out = nullptr;
  std::vector<std::string> names;
  for (const MeasureKind& kind : kinds) {
    names.push_back(kind.chosen_by->get_name());
    if (kind.chosen_by->count() == 0) continue;
    if (out != nullptr)
      throw models::InputError(fmt::format("{}: expected one thing to measure, got {}, too",
                                           kind.chosen_by->get_name(), out->chosen_by->get_name()));
    out = &kind;
  }
  if (out == nullptr)
    throw models::InputError(
        fmt::format("measure: expected what to measure ({}), got nothing", fmt::join(names, ", ")));
  return *out;
}

}  // namespace

void add_measure(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("measure", "Measure what encoding and decoding gradients costs here");
  command->footer("Example: fusewise measure --compressors -o cpu.compressors.json");
  auto kinds = std::make_shared<std::vector<MeasureKind>>();
  for (const auto& add : kKinds) kinds->push_back(add(*command));
  auto output = std::make_shared<std::string>();
  command->add_option("-o,--output", *output, "write to this file and print a summary")->check(file_name());
  command->callback([kinds, output] { chosen(*kinds).run(*output); });
}

}  // namespace cli
