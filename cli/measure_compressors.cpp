// fusewise measure --compressors: what the compressors of compression/ take on this machine.

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "cli/commands.hpp"
#include "cli/measure.hpp"
#include "collectives/compression/compressor.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/job/registry.hpp"
#include "profiler/measure/compressors/measure.hpp"

namespace cli {
namespace {

struct Options {
  bool compressors = false;
  std::vector<std::string> only;
  std::vector<std::int64_t> elements;
  std::vector<double> densities;
};

void check_names(const std::vector<std::string>& only) {
  const std::vector<std::string_view> known = planner::names(compression::compressors());
  for (const std::string& name : only)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw core::InputError(fmt::format("--only: expected one of {}, got '{}'{}", fmt::join(known, ", "),
                                         core::printable(name), core::suggestion(name, known)));
}

template <typename Number>
std::vector<Number> growing(std::vector<Number> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

profiler::CompressorOptions options_of(const Options& options, const MeasureOptions& common) {
  check_names(options.only);
  profiler::CompressorOptions out;
  out.compressors = options.only;
  if (!options.elements.empty()) out.elements = growing(options.elements);
  if (!options.densities.empty()) out.densities = growing(options.densities);
  if (common.repetitions) out.samples = static_cast<int>(*common.repetitions);
  return out;
}

/// As it could be given again.
std::string command_of(const Options& options, const MeasureOptions& common) {
  std::string out = "fusewise measure --compressors";
  if (!options.only.empty()) out += fmt::format(" --only {}", fmt::join(options.only, ","));
  if (!options.elements.empty()) out += fmt::format(" --elements {}", fmt::join(options.elements, ","));
  if (!options.densities.empty()) out += fmt::format(" --densities {}", fmt::join(options.densities, ","));
  if (common.repetitions) out += fmt::format(" --repetitions {}", *common.repetitions);
  return out;
}

void run(const Options& options, const MeasureOptions& common) {
  const core::CompressorCosts costs =
      profiler::measure_compressors(options_of(options, common), command_of(options, common),
                                    [](const std::string& what) { spdlog::info("measuring {}", what); });
  write_or_print(common.output, compressor_costs_text(costs), summary(costs));
}

}  // namespace

MeasureKind add_measure_compressors(const Command& command) {
  auto options = std::make_shared<Options>();
  const Option flag = command.add_flag(
      "--compressors", options->compressors,
      "encoding, with error feedback, and decoding by every compressor: a fusewise.compressors file");
  command.add_option("--only", options->only, "these compressors alone (default: all)")
      .delimiter(',')
      .needs(flag);
  command
      .add_option("--elements", options->elements,
                  "elements of the gradients (default: 1024 to 16777216, four times as many each)")
      .delimiter(',')
      .check(range(std::int64_t{1}, std::int64_t{1} << 30))
      .needs(flag);
  command
      .add_option("--densities", options->densities,
                  "shares of the elements that sparse compressors keep (default: 0.001,0.01,0.1)")
      .delimiter(',')
      .check(number_in(1e-6, 1))
      .needs(flag);
  return {.chosen_by = flag, .run = [options](const MeasureOptions& common) { run(*options, common); }};
}

}  // namespace cli
