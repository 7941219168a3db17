// fusewise import: converts logs of other projects and traces of PyTorch to profiles and networks.

#include "profiler/traces/import.hpp"

#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/model/model.hpp"
#include "planner/job/registry.hpp"
#include "planner/scenarios/replay.hpp"
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
  std::optional<double> iteration_ms;
  traces::ImportOptions import;
};

constexpr std::string_view kKineto = "kineto";

/// A trace can be larger than memory, so only the beginning of the file is read here.
bool is_kineto(const Options& options) {
  if (!options.import.format.empty()) return options.import.format == kKineto;
  return kineto::looks_like_trace(options.logs.front());
}

/// Simulates the iteration that was measured, and warns if the difference is large.
std::string compared(kineto::Imported& imported) {
  constexpr double kLargePercent = 5;
  if (!imported.profile.iteration) return "";
  const scenarios::Replay run = scenarios::replay(imported.profile, imported.network, imported.iteration_us,
                                                  imported.exposed_us, imported.buckets);
  const double percent = 100 * (run.iteration_us / imported.iteration_us - 1);
  if (std::abs(percent) > kLargePercent)
    print_warnings(
        {{fmt::format("the simulated iteration differs from the measured one by {:.1f} %: {:.3f} ms of "
                      "communication are exposed in the simulation, and {:.3f} ms were measured, with the "
                      "time in which this worker waited for slower ones",
                      percent, run.exposed_us / 1e3, imported.exposed_us / 1e3)}});
  return fmt::format(
      "  simulated with {} on {} worker{}: {:.3f} ms ({:+.1f} %), of it {:.3f} ms of communication exposed "
      "and "
      "{:.3f} ms waiting for slower workers\n",
      run.schedule, run.workers, run.workers == 1 ? "" : "s", run.iteration_us / 1e3, percent,
      run.exposed_us / 1e3, run.waiting_us / 1e3);
}

void import_network(const Options& options, const traces::ImportOptions& import_options) {
  const kineto::ImportedNetwork imported = kineto::import_network(options.logs.front(), import_options);
  print_warnings(imported.warnings);
  write_or_print(options.network, network_text(imported.network), summary(imported.network));
}

void import_kineto(const Options& options, const traces::ImportOptions& import_options) {
  if (options.logs.size() > 1)
    throw core::InputError(fmt::format("{}: /: expected one trace at a time, got a second file",
                                       core::one_line(options.logs[1])));
  if (options.output.empty() && !options.network.empty()) return import_network(options, import_options);
  kineto::Imported imported = kineto::import_trace(options.logs.front(), import_options, options.step);
  if (!options.network.empty() && !imported.network)
    throw core::InputError(
        fmt::format("{}: /: expected NCCL kernels of known sizes, to write a network, got none",
                    core::one_line(options.logs.front())));
  print_warnings(imported.warnings);
  const std::string comparison = compared(imported);
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, profile_text(imported.profile)});
  if (!options.network.empty()) files.push_back({options.network, network_text(*imported.network)});
  core::write_files(files);
  if (options.output.empty()) return print(profile_text(imported.profile));
  std::string text = summary(imported.profile);
  for (const std::string& line : imported.account) text += "  " + core::one_line(line) + '\n';
  text += comparison;
  if (!options.network.empty()) text += summary(*imported.network);
  print(text);
}

/// A model's name or, with the sizes of its parameters, its file: a fusewise.model or a fusewise.profile.
void read_model(const std::string& file, traces::ImportOptions& into) {
  if (!std::filesystem::is_regular_file(file)) return;
  const core::Field field = core::Field::load(file);
  if (field.at("format").text() == "fusewise.profile") {
    const core::Profile profile = core::read_profile(field);
    into.model = profile.model;
    for (const core::ProfileLayer& layer : profile.layers)
      for (const core::ProfileTensor& tensor : layer.tensors) into.parameters.push_back(tensor.elements);
    return;
  }
  const core::Model model = core::read_model(field);
  into.model = model.name;
  for (const core::Layer& layer : model.layers)
    for (const core::Tensor& tensor : layer.tensors) into.parameters.push_back(tensor.elements);
}

/// What an iteration of one worker takes beyond its layers is the profile's `other_us`.
core::Profile with_iteration(core::Profile profile, double iteration_ms) {
  const double layers_us = core::forward_us(profile) + core::backward_us(profile);
  const double iteration_us = 1e3 * iteration_ms;
  if (profile.iteration || iteration_us < layers_us)
    throw core::InputError(fmt::format(
        "--iteration-ms: expected {}, got {:.6g}",
        profile.iteration ? "a log without iterations of its own"
                          : fmt::format("at least the {:.6g} ms of forward and backward", layers_us / 1e3),
        iteration_ms));
  profile.iteration = core::ProfileIteration{.optimizer_us = 0, .other_us = iteration_us - layers_us};
  profile.origin.source += fmt::format(
      "; other_us is what a measured iteration of {:.6g} ms on one worker leaves, update included",
      iteration_ms);
  return profile;
}

void import(const Options& options) {
  traces::ImportOptions import_options = options.import;
  read_model(options.import.model, import_options);
  import_options.dtype = *core::dtype(options.dtype);
  import_options.tensors = options.tensors == "layer" ? traces::Grouping::layer : traces::Grouping::parameter;
  if (is_kineto(options) && options.iteration_ms)
    throw core::InputError("--iteration-ms: expected a log without iterations of its own, got a trace");
  if (is_kineto(options)) return import_kineto(options, import_options);
  if (!options.network.empty())
    throw core::InputError(
        "--network: expected a trace (kineto), got other logs, whose network --output writes");
  const traces::Imported imported = traces::import_logs(read_logs(options.logs), import_options);
  if (const auto* log_profile = std::get_if<core::Profile>(&imported)) {
    const core::Profile profile =
        options.iteration_ms ? with_iteration(*log_profile, *options.iteration_ms) : *log_profile;
    return write_or_print(options.output, profile_text(profile), summary(profile));
  }
  if (options.iteration_ms)
    throw core::InputError("--iteration-ms: expected logs that give a profile, got measured collectives");
  write_or_print(options.output, network_text(std::get<core::Network>(imported)),
                 summary(std::get<core::Network>(imported)));
}

}  // namespace

void add_import(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("import", "Convert logs of other projects to a profile or a network");
  std::vector<std::string_view> names = planner::names(traces::import_formats());
  names.push_back(kKineto);
  std::string formats = "Formats:\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    formats += fmt::format("  {:<18} {}\n", format.name, format.summary);
  formats += fmt::format("  {:<18} {}\n", kKineto, "PyTorch profiler trace, .json or .json.gz -> profile");
  command.footer(
      formats +
      "Example: fusewise import tmp8comm.log --model googlenet --batch 64 -o googlenet.profile.json");
  command.add_option("LOG", options->logs, "log files of the same measurement").required();
  command.add_output("-o,--output", options->output, "write to this file and print a summary");
  command
      .add_option("--format", options->import.format,
                  "format of the logs (default: recognized from the text)")
      .check(one_of(names));
  command.add_option("--step", options->step, "prefix of the annotations that mark the iterations of a trace")
      .show_default();
  command.add_output("--network", options->network,
                     "write a network made from the NCCL kernels of a trace to this file");
  command.add_option("--model", options->import.model,
                     "name of the model (default: the file's name), or a fusewise.model or fusewise.profile "
                     "with its parameters, for a trace without shapes");
  command.add_option("--name", options->import.network_name,
                     "name of the network (default: the file's name)");
  command
      .add_option("--batch", options->import.batch_size, "samples per worker, if the log does not contain it")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command.add_option("--device", options->import.device, "device that was measured");
  command.add_option("--dtype", options->dtype, "element type of the gradients")
      .check(one_of({"float32", "float16", "bfloat16"}))
      .show_default();
  command.add_option("--tensors", options->tensors, "one tensor per parameter, or one per layer")
      .check(one_of({"parameter", "layer"}))
      .show_default();
  command
      .add_option("--forward-ratio", options->import.forward_ratio,
                  "forward time as a share of the backward time, if the log does not contain it")
      .check(number_in(0, 1000))
      .show_default();
  command
      .add_option("--iteration-ms", options->iteration_ms,
                  "measured iteration of one worker: what the layers leave becomes the profile's other_us")
      .check(number_in(1e-6, 1e9));
  command
      .add_option("--workers", options->import.workers, "number of workers, if the log does not contain it")
      .check(range<std::int64_t>(1, 1'000'000));
  command
      .add_option("--collective", options->import.collective,
                  "collective that was measured, if the log does not contain it")
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather"}));
  command
      .add_option("--line-rate-gbps", options->import.line_rate_gbps,
                  "line rate of the network in 10^9 bits/s")
      .check(number_in(0, 1e6));
  command.on_run([options] { import(*options); });
}

}  // namespace cli
