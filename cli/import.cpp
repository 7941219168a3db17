// fusewise import: logs of other projects and traces of PyTorch become profiles and networks.

#include "profiler/traces/import.hpp"

#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/job/registry.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/kineto/read_trace.hpp"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string network;
  std::string step = std::string(kineto::kProfilerStep);
  std::string dtype = "float32";
  std::string tensors = "parameter";
  traces::ImportOptions import;
};

constexpr std::string_view kKineto = "kineto";

/// Traces may be larger than memory, so they are read from the file itself.
bool is_kineto(const Options& options) {
  if (!options.import.format.empty()) return options.import.format == kKineto;
  return kineto::looks_like_trace(options.logs.front());
}

void import_kineto(const Options& options, const traces::ImportOptions& wanted) {
  if (options.logs.size() > 1)
    throw core::InputError(
        fmt::format("{}: expected one trace at a time, got a second file", core::one_line(options.logs[1])));
  const kineto::Imported imported = kineto::import_trace(options.logs.front(), wanted, options.step);
  if (!options.network.empty() && !imported.network)
    throw core::InputError(
        fmt::format("{}: expected NCCL kernels of known sizes, to write a network, got none",
                    core::one_line(options.logs.front())));
  warn(imported.warnings);
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, profile_text(imported.profile)});
  if (!options.network.empty()) files.push_back({options.network, network_text(*imported.network)});
  core::write_files(files);
  if (options.output.empty()) return print(profile_text(imported.profile));
  std::string text = summary(imported.profile);
  for (const std::string& line : imported.account) text += "  " + core::one_line(line) + '\n';
  if (!options.network.empty()) text += summary(*imported.network);
  print(text);
}

void import(const Options& options) {
  traces::ImportOptions wanted = options.import;
  wanted.dtype = *core::dtype(options.dtype);
  wanted.tensors = options.tensors == "layer" ? traces::Grouping::layer : traces::Grouping::parameter;
  if (is_kineto(options)) return import_kineto(options, wanted);
  if (!options.network.empty())
    throw core::InputError("--network: expected a trace (kineto), got logs of which -o takes the network");
  std::vector<traces::LogFile> logs;
  for (const std::string& path : options.logs) logs.push_back(read_log(path));
  const traces::Imported imported = traces::import_logs(logs, wanted);
  if (const auto* profile = std::get_if<core::Profile>(&imported))
    write_or_print(options.output, profile_text(*profile), summary(*profile));
  else
    write_or_print(options.output, network_text(std::get<core::Network>(imported)),
                   summary(std::get<core::Network>(imported)));
}

}  // namespace

traces::LogFile read_log(const std::string& path) {
  try {
    return {.path = path, .text = core::read_file(path)};
  } catch (const std::system_error& error) {
    throw core::InputError(fmt::format("{}: /: expected a file that can be read, got: {}",
                                       core::printable(path), error.code().message()));
  }
}

void add_import(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("import", "Turn logs of other projects into a profile or a network");
  std::vector<std::string_view> names = planner::names(traces::import_formats());
  names.push_back(kKineto);
  std::string formats = "Formats:\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    formats += fmt::format("  {:<10} {}\n", format.name, format.summary);
  formats += fmt::format("  {:<10} {}\n", kKineto, "PyTorch profiler trace, .json or .json.gz -> profile");
  command.footer(
      formats +
      "Example: fusewise import tmp8comm.log --model googlenet --batch 64 -o googlenet.profile.json");
  command.add_option("LOG", options->logs, "log files that belong together").required();
  command.add_option("-o,--output", options->output, "write to this file and print a summary")
      .check(file_name());
  command.add_option("--format", options->import.format, "instead of recognising it").check(one_of(names));
  command.add_option("--step", options->step, "how annotations of a trace begin that are its iterations")
      .show_default();
  command.add_option("--network", options->network, "write the NCCL kernels of a trace to this network file")
      .check(file_name());
  command.add_option("--model", options->import.model, "name of the model (default: the file's name)");
  command.add_option("--name", options->import.network_name,
                     "name of the network (default: the file's name)");
  command.add_option("--batch", options->import.batch_size, "samples per worker, where the log does not say")
      .check(range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command.add_option("--device", options->import.device, "what the log was measured on");
  command.add_option("--dtype", options->dtype, "element type of the gradients")
      .check(one_of({"float32", "float16", "bfloat16"}))
      .show_default();
  command.add_option("--tensors", options->tensors, "a tensor per parameter, or one per layer")
      .check(one_of({"parameter", "layer"}))
      .show_default();
  command
      .add_option("--forward-ratio", options->import.forward_ratio,
                  "assumed forward time as a share of backward, where the log holds none")
      .check(number_in(0, 1000))
      .show_default();
  command.add_option("--workers", options->import.workers, "number of workers, where the log does not say")
      .check(range(std::int64_t{1}, std::int64_t{1'000'000}));
  command
      .add_option("--collective", options->import.collective,
                  "which was measured, where the log does not say")
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather"}));
  command.add_option("--line-rate-gbps", options->import.line_rate_gbps, "of the network, 10^9 bits/s")
      .check(number_in(0, 1e6));
  command.on_run([options] { import(*options); });
}

}  // namespace cli
