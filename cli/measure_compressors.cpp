// fusewise measure --compressors: measures the time of each compressor on the CPU or a GPU.

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/measure.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
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

const profiler::CompressorBackend& backend_of(const MeasureOptions& common) {
  const auto all = profiler::compressor_backends();
  if (!common.backend) return all.front();
  const std::string name =
      known_name("--backend", *common.backend, planner::names(all), "with --compressors");
  return *std::ranges::find(all, name, &profiler::CompressorBackend::name);
}

template <typename Number>
std::vector<Number> sorted_without_duplicates(std::vector<Number> numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

profiler::CompressorOptions options_of(const Options& options, const MeasureOptions& common,
                                       const profiler::CompressorBackend& backend) {
  profiler::CompressorOptions out;
  const std::string condition = fmt::format("with --backend {}", backend.name);
  for (const std::string& name : options.only)
    out.compressors.push_back(known_name("--only", name, backend.compressors(), condition));
  if (!options.elements.empty()) out.elements = sorted_without_duplicates(options.elements);
  if (!options.densities.empty()) out.densities = sorted_without_duplicates(options.densities);
  if (common.repetitions) out.samples = static_cast<int>(*common.repetitions);
  return out;
}

/// The command line that repeats the measurement.
std::string command_of(const Options& options, const MeasureOptions& common) {
  std::string out = "fusewise measure --compressors";
  if (common.backend) out += fmt::format(" --backend {}", *common.backend);
  if (!options.only.empty()) out += fmt::format(" --only {}", fmt::join(options.only, ","));
  if (!options.elements.empty()) out += fmt::format(" --elements {}", fmt::join(options.elements, ","));
  if (!options.densities.empty()) out += fmt::format(" --densities {}", fmt::join(options.densities, ","));
  if (common.repetitions) out += fmt::format(" --repetitions {}", *common.repetitions);
  return out;
}

void run(const Options& options, const MeasureOptions& common) {
  const profiler::CompressorBackend& backend = backend_of(common);
  const profiler::CompressorOptions compressor_options = options_of(options, common, backend);
  StepLine line;
  const core::CompressorCosts costs =
      profiler::measure_compressors(backend, compressor_options, command_of(options, common),
                                    [&](std::size_t total, const std::string& what) {
                                      if (!shows_progress()) return print_progress("measuring " + what);
                                      line.next(total, what);
                                    });
  line.end();
  write_or_print(common.output, compressor_costs_text(costs), summary(costs), common.json);
}

}  // namespace

MeasureKind add_measure_compressors(const Command& command) {
  auto options = std::make_shared<Options>();
  const Option flag = command.add_flag(
      "--compressors", options->compressors,
      fmt::format("measure encoding with error feedback and decoding with each compressor instead of "
                  "collectives; --backend is then one of {}",
                  fmt::join(planner::names(profiler::compressor_backends()), ", ")));
  command.add_option("--only", options->only, "compressors to measure, separated by commas (default: all)")
      .delimiter(',')
      .needs(flag);
  command
      .add_option("--elements", options->elements,
                  "numbers of elements, separated by commas (default: 1024 to 16777216, each four times the "
                  "one before)")
      .delimiter(',')
      .check(range(std::int64_t{1}, std::int64_t{1} << 30))
      .needs(flag);
  command
      .add_option("--densities", options->densities,
                  "shares of the elements that sparse compressors keep (default: 0.001,0.01,0.1)")
      .delimiter(',')
      .check(number_in(1e-6, 1))
      .needs(flag);
  return {.selected_by = flag, .run = [options](const MeasureOptions& common) { run(*options, common); }};
}

}  // namespace cli
