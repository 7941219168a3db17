// fusewise import: converts logs of other projects and traces of PyTorch to profiles and networks.

#include "profiler/traces/import.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/import_ranks.hpp"
#include "cli/input.hpp"
#include "cli/measured_iteration.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/model/model.hpp"
#include "core/quantities.hpp"
#include "core/text_table.hpp"
#include "planner/job/registry.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/ranks/execution_trace.hpp"

namespace cli {
namespace {

using core::ms;

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string network;
  std::string plan;
  std::string step = std::string(kineto::kProfilerStep);
  std::string dtype;
  std::string tensors = "parameter";
  std::optional<double> iteration_ms;
  std::string group;
  std::int64_t rank = -1;
  bool json = false;
  traces::ImportOptions import;
};

constexpr std::string_view kKineto = "kineto";
constexpr std::string_view kFsdp = "fsdp";

/// Parts of the iteration that add up to it, as measured and as predicted. Each measured part is the median
/// of all iterations; waiting is that of the rank of the profile. What is missing and is taken for waiting,
/// or for transfers behind it, stands beside the exposed communication of which it is a part.
std::string parts_table(const kineto::Imported& imported, const scenarios::Replay& run,
                        std::optional<double> waiting_us) {
  const double exposed_us = std::max(0.0, imported.exposed_us - waiting_us.value_or(0));
  const double rest_us = imported.iteration_us - imported.computing_us - imported.exposed_us;
  std::vector<std::vector<std::string>> rows = {{"  ms", "measured", "predicted", "difference"}};
  const auto row = [&](std::string_view what, double measured_us, double predicted_us) {
    rows.push_back({fmt::format("  {}", what), ms(measured_us), ms(predicted_us),
                    fmt::format("{:+.3f}", (predicted_us - measured_us) / 1e3)});
  };
  row(imported.computes_on_host ? "layers and update" : "kernels of layers and update", imported.computing_us,
      run.computing_us);
  row(imported.computes_on_host ? "other work, time between operators"
                                : "other work, copies, waits for the host",
      rest_us, run.rest_us);
  const bool has_both = !waiting_us && run.added_waiting_us > 0;
  row(has_both ? "exposed communication, waiting" : "exposed communication", exposed_us,
      run.exposed_us + run.added_waiting_us);
  if (waiting_us)
    row("waiting for slower workers", imported.exposed_us - exposed_us,
        run.waiting_us - run.added_waiting_us);
  row("iteration", imported.iteration_us, run.iteration_us);
  return core::aligned(std::move(rows), {0}) +
         "  measured: of each part the median of this rank's iterations; compare shows one iteration\n";
}

/// What was predicted, in words and, with the trace's own buckets, as a plan.
struct Prediction {
  std::string text;
  std::string plan;
  std::size_t divided = 0;  ///< groups of which the plan has parts
  std::string_view schedule = {};
};

std::string words(const scenarios::Replay& run) {
  if (run.schedule != "zero") return std::string(run.schedule);
  return fmt::format("zero{}, {},", run.all_reduces ? ", gradients all-reduced" : "",
                     run.gathers_beside ? "gathered under forward" : "all gathered after the update");
}

/// Predicts the iteration that was measured, and adds a warning if the difference is large. What is missing
/// becomes waiting for slower workers in the profile, or transfers behind it where the traces of several
/// ranks tell how long that is.
Prediction add_waiting(kineto::Imported& imported, std::optional<double> waiting_us,
                       std::vector<std::string>& warnings) {
  constexpr double kLargePercent = 5;
  if (!imported.profile.iteration) return {};
  if (waiting_us) waiting_us = kineto::exposed_waiting_us(imported, *waiting_us);
  const scenarios::Replay run =
      scenarios::replay(imported.profile, imported.network, measured_iteration(imported, waiting_us));
  const auto percent = [&](double us) {
    return fmt::format("{:+.1f} %", 100 * (us / imported.iteration_us - 1));
  };
  const std::string added =
      run.added_waiting_us > 0
          ? fmt::format("{} ms that were missing are taken for {}", ms(run.added_waiting_us),
                        waiting_us ? "transfers that slower workers delay" : "waiting for slower workers")
          : "";
  if (100 * std::abs(run.predicted_us / imported.iteration_us - 1) > kLargePercent)
    warnings.push_back(fmt::format("the predicted iteration differs from the measured one by {}{}",
                                   percent(run.predicted_us),
                                   added.empty() ? "" : fmt::format(" before {}", added)));
  if (!imported.sharded.warning.empty() && run.schedule == kFsdp)
    warnings.push_back(imported.sharded.warning);
  const std::string buckets =
      run.buckets > 0 ? fmt::format(", with the trace's {} {}{} (--plan writes them{})", run.buckets,
                                    run.schedule == kFsdp ? "group" : "bucket", run.buckets == 1 ? "" : "s",
                                    run.divided > 0 ? fmt::format(", {} in parts", run.divided) : "")
                      : "";
  const std::string before = added.empty() ? ""
                                           : fmt::format("; {}, without which it is {} ms ({})", added,
                                                         ms(run.predicted_us), percent(run.predicted_us));
  return {.text = fmt::format("  predicted with {} on {} worker{}: {} ms, measured {} ms ({}){}{}\n{}",
                              words(run), run.workers, run.workers == 1 ? "" : "s", ms(run.iteration_us),
                              ms(imported.iteration_us), percent(run.iteration_us), buckets, before,
                              parts_table(imported, run, waiting_us)),
          .plan = run.plan,
          .divided = run.divided,
          .schedule = run.schedule};
}

/// Throws InputError if no plan describes what was predicted. Adds a warning if one does not as a whole.
void check_plan(const Prediction& prediction, const core::ShardedGroups& sharded, const std::string& trace,
                std::vector<std::string>& warnings) {
  if (prediction.divided > 0)
    warnings.push_back(fmt::format(
        "a plan's groups are neighbours in backward order: it holds {} of the job's in parts, which the "
        "prediction that import prints does not",
        core::counted(static_cast<std::int64_t>(prediction.divided), "group")));
  if (!prediction.plan.empty()) return;
  if (prediction.schedule == kFsdp)
    throw core::InputError(fmt::format(
        "{}: /: expected collectives whose sizes tell their gradients, to write a plan of them, got those of "
        "FSDP whose groups are not known{}; fusewise compare takes its trace without --plan, or with a "
        "scenario whose schedule is fsdp2",
        core::one_line(trace), sharded.warning.empty() ? "" : fmt::format(" ({})", sharded.warning)));
  throw core::InputError(fmt::format(
      "{}: /: expected all-reduces or reduce-scatters that add up to the gradients, to write a plan "
      "of them, got {}",
      core::one_line(trace), prediction.schedule == "wfbp" ? "none" : "others"));
}

void import_network(const Options& options, const traces::ImportOptions& import_options,
                    const std::string& trace) {
  const kineto::ImportedNetwork imported = kineto::import_network(trace, import_options);
  print_warnings(imported.warnings);
  write_or_print(options.network, network_text(imported.network), summary(imported.network));
}

/// Facts about one rank that only the traces of several ranks together can tell.
struct OfRanks {
  std::optional<core::Network> network = {};  ///< from last arrival to last end
  std::vector<std::string> curve_warnings = {};
  std::optional<double> waiting_us = {};  ///< exposed, for slower workers, in an iteration
  double constant_waiting_us = 0;         ///< see ranks::constant_waiting_us()
  std::vector<std::string> warnings = {};
};

/// What several traces have in common is said once, with their ranks, and not again for the one that is
/// imported.
bool is_said_of_ranks(const std::vector<std::string>& warnings, const std::string& warning) {
  return std::ranges::any_of(warnings,
                             [&](const std::string& each) { return each.ends_with(": " + warning); });
}

/// Imports the trace of one rank.
void import_kineto(const Options& options, const traces::ImportOptions& import_options,
                   const std::string& trace, OfRanks of_ranks = {}) {
  if (options.output.empty() && !options.network.empty())
    return import_network(options, import_options, trace);
  StepLine line;
  line.count_seconds();
  line.next("reading " + core::one_line(trace));
  kineto::Imported imported = kineto::import_trace(trace, import_options, options.step);
  line.end();
  if (of_ranks.network) {
    imported.network = std::move(of_ranks.network);
    imported.curve_warnings = std::move(of_ranks.curve_warnings);
  }
  if (!options.network.empty() && !imported.network)
    throw core::InputError(
        fmt::format("{}: /: expected collectives of known sizes and numbers of ranks (--workers N), to write "
                    "a network, got none",
                    core::one_line(trace)));
  std::vector<std::string> warnings = std::move(of_ranks.warnings);
  for (const auto* more : {&imported.warnings, &imported.curve_warnings})
    for (const std::string& warning : *more)
      if (!is_said_of_ranks(warnings, warning)) warnings.push_back(warning);
  kineto::take_for_waiting(imported, of_ranks.constant_waiting_us);
  const Prediction prediction = add_waiting(imported, of_ranks.waiting_us, warnings);
  if (!options.plan.empty()) check_plan(prediction, imported.sharded, trace, warnings);
  print_warnings(warnings);  // nothing after this finds fault with the trace
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, profile_text(imported.profile)});
  if (!options.network.empty()) files.push_back({options.network, network_text(*imported.network)});
  if (!options.plan.empty()) files.push_back({options.plan, prediction.plan});
  core::write_files(files);
  if (options.output.empty() || options.json) return print(profile_text(imported.profile));
  std::string text = summary(imported.profile);
  for (const std::string& each : imported.account) text += "  " + core::one_line(each) + '\n';
  text += prediction.text;
  if (!options.network.empty()) text += summary(*imported.network);
  print_for_people(printable_lines(text));
}

/// Returns the measurements of the group that sums gradients, or of --group, over all ranks. Groups without
/// gradients have to be named if there are several.
traces::Measurements measurements(const Options& options, const ranks::Report& report, std::size_t rank) {
  if (!options.group.empty()) return ranks::measurements_of(report, options.group);
  if (const auto group = ranks::gradient_group(report, rank, ""))
    if (traces::Measurements out = ranks::measurements_of(report, *group); !out.series.empty()) return out;
  return ranks::measurements_of(report, options.group);
}

/// One rank alone cannot tell waiting from transfer. The network is used for the prediction, also if it is
/// not written.
OfRanks of_ranks(const Options& options, const ranks::Report& report, const ranks::RankTrace& chosen) {
  OfRanks out;
  const auto take = [&](const traces::Measurements& measured) {
    if (measured.series.empty()) return;
    out.network =
        network_of_group(report, measured, options.import.network_name, options.import.line_rate_gbps);
    out.curve_warnings = traces::curve_warnings(measured.series);
  };
  const auto rank = static_cast<std::size_t>(&chosen - report.job.ranks.data());
  if (!options.network.empty()) take(measurements(options, report, rank));
  if (options.output.empty()) return out;
  const std::optional<std::size_t> group = ranks::gradient_group(report, rank, options.group);
  if (!group) return out;
  const bool knows_more = report.job.ranks.size() > 1 || !options.group.empty();
  if (!out.network && knows_more) take(ranks::measurements_of(report, *group));
  out.waiting_us = ranks::waiting_us(report, rank, *group);
  if (out.waiting_us) out.constant_waiting_us = ranks::constant_waiting_us(report, rank, *group);
  return out;
}

/// The traces of a job's ranks: a report, the network from last arrival to last end, and the profile of one
/// rank.
void import_job(const Options& options, const traces::ImportOptions& import_options,
                const Recordings& recordings) {
  if (!options.output.empty() && recordings.kind == ranks::SourceKind::nsys)
    throw core::InputError(fmt::format(
        "{}: /: expected a trace of the PyTorch profiler for --output, got an export of Nsight Systems, "
        "which does not hold the sizes of gradients",
        core::one_line(recordings.files.front())));
  const ranks::Report report =
      ranks::make_report(read_ranks(recordings, options.step, import_options.parameters));
  const ranks::RankTrace& chosen = trace_of(report, options.rank);
  OfRanks measured = of_ranks(options, report, chosen);
  if (!options.output.empty()) {
    measured.warnings = report.warnings;
    import_kineto(options, import_options, chosen.path, std::move(measured));
    if (options.json) return;
  } else {
    print_warnings(report.warnings);
    if (measured.network) {
      print_warnings(measured.curve_warnings);
      core::write_files({{options.network, network_text(*measured.network)}});
      if (!options.json) print_for_people(summary(*measured.network) + '\n');
    }
  }
  options.json ? print(report_json(report))
               : print_for_people(report_text(report, terminal_width(STDOUT_FILENO)));
}

/// An execution trace has no times, so that it makes no profile.
void import_execution_trace(const Options& options, const std::string& file) {
  if (!options.output.empty() || !options.network.empty())
    throw core::InputError(fmt::format(
        "{}: /: expected a trace with times for --output and --network (torch.profiler.profile), got a "
        "PyTorch execution trace",
        core::one_line(file)));
  const ranks::ExecutionTrace trace = ranks::read_execution_trace(file);
  options.json ? print(execution_json(trace)) : print_for_people(execution_text(trace));
}

/// A model's name or, with the sizes of its parameters, its file: a fusewise.model or a fusewise.profile.
/// Names of models may hold dots and slashes, but do not end like a file's.
void read_model(const std::string& file, traces::ImportOptions& into) {
  if (!file.ends_with(".json") && !std::filesystem::is_regular_file(file)) return;
  const core::Field field = core::Field::load(file);
  constexpr std::string_view kFormats[] = {"fusewise.profile", "fusewise.model"};
  if (format_of(field, kFormats) == "fusewise.profile") {
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

/// Sets the profile's `other_us` to the time that an iteration of one worker takes beyond its layers.
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

/// The files, of the kind that --format states or that they show.
Recordings recordings_for(const Options& options) {
  if (options.import.format.empty()) return recordings_of(options.logs);
  Recordings out = {
      .files = {},
      .kind = options.import.format == kKineto ? ranks::SourceKind::kineto : ranks::SourceKind::log};
  for (const std::string& each : options.logs) {
    std::error_code none;
    const bool is_folder = std::filesystem::is_directory(each, none);
    const std::vector<std::string> files =
        is_folder ? recordings_of({each}).files : std::vector<std::string>{each};
    out.files.insert(out.files.end(), files.begin(), files.end());
  }
  return out;
}

void import(const Options& options) {
  traces::ImportOptions import_options = options.import;
  read_model(options.import.model, import_options);
  if (!options.dtype.empty()) import_options.dtype = core::dtype(options.dtype);
  import_options.tensors = options.tensors == "layer" ? traces::Grouping::layer : traces::Grouping::parameter;
  const Recordings recordings = recordings_for(options);
  const ranks::SourceKind kind = recordings.kind;
  const std::vector<std::string>& files = recordings.files;
  if (kind != ranks::SourceKind::log && options.iteration_ms)
    throw core::InputError("--iteration-ms: expected a log without iterations of its own, got a trace");
  if (kind == ranks::SourceKind::execution_trace) return import_execution_trace(options, files.front());
  const bool is_job = files.size() > 1 || (options.json && options.output.empty()) || options.rank >= 0 ||
                      !options.group.empty() || kind == ranks::SourceKind::nsys;
  if (kind != ranks::SourceKind::log && is_job) return import_job(options, import_options, recordings);
  if (kind == ranks::SourceKind::kineto) return import_kineto(options, import_options, files.front());
  if (!options.network.empty())
    throw core::InputError(
        "--network: expected a trace (kineto), got other logs, whose network --output writes");
  const traces::Imported imported = traces::import_logs(read_logs(files), import_options);
  if (const auto* log_profile = std::get_if<core::Profile>(&imported.value)) {
    const core::Profile profile =
        options.iteration_ms ? with_iteration(*log_profile, *options.iteration_ms) : *log_profile;
    return write_or_print(options.output, profile_text(profile), summary(profile), options.json);
  }
  if (options.iteration_ms)
    throw core::InputError("--iteration-ms: expected logs that give a profile, got measured collectives");
  print_warnings(imported.warnings);
  const auto& network = std::get<core::Network>(imported.value);
  write_or_print(options.output, network_text(network), summary(network), options.json);
}

std::string format_list() {
  std::string out = "Formats:\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    out += fmt::format("  {:<18} {}\n", format.name, format.summary);
  out += fmt::format("  {:<18} {}\n", kKineto,
                     "PyTorch profiler trace, .json or .json.gz -> profile; of several ranks: a report");
  out +=
      "Besides, recognized by their contents: PyTorch execution traces (buckets of DDP) and SQLite "
      "exports of\nNsight Systems (nsys export --type sqlite).\n";
  return out;
}

/// Options for what logs do not contain.
void add_facts(const Command& command, Options& options) {
  command.add_option("--model", options.import.model,
                     "name of the model (default: the file's name), or a fusewise.model or fusewise.profile "
                     "with its parameters, for a trace without shapes");
  command.add_option("--name", options.import.network_name, "name of the network (default: the file's name)");
  command
      .add_option("--batch", options.import.batch_size, "samples per worker, if the log does not contain it")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command.add_option("--device", options.import.device, "device that was measured");
  command
      .add_option("--dtype", options.dtype,
                  "element type of the gradients (default: that of a trace's collectives, or float32)")
      .check(one_of({"float32", "float16", "bfloat16"}));
  command.add_option("--tensors", options.tensors, "one tensor per parameter, or one per layer")
      .check(one_of({"parameter", "layer"}))
      .show_default();
  command
      .add_option("--forward-ratio", options.import.forward_ratio,
                  "forward time as a share of the backward time, if the log does not contain it")
      .check(number_in(0, 1000))
      .show_default();
  command
      .add_option("--iteration-ms", options.iteration_ms,
                  "measured iteration of one worker: what the layers leave becomes the profile's other_us")
      .check(number_in(1e-6, 1e9));
  command.add_option("--workers", options.import.workers, "number of workers, if the log does not contain it")
      .check(range<std::int64_t>(1, 1'000'000));
  command
      .add_option("--collective", options.import.collective,
                  "collective that was measured, if the log does not contain it")
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather"}));
  command
      .add_option("--line-rate-gbps", options.import.line_rate_gbps,
                  "line rate of the network in 10^9 bits/s")
      .check(number_in(0, 1e6));
}

}  // namespace

void add_import(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("import", "Convert logs of other projects to a profile or a network");
  std::vector<std::string_view> names = planner::names(traces::import_formats());
  names.push_back(kKineto);
  command.footer(
      format_list() +
      "Example: fusewise import tmp8comm.log --model googlenet --batch 64 -o googlenet.profile.json");
  command
      .add_option("LOG", options->logs,
                  "log files of the same measurement, traces of the ranks of one job, or a folder with them")
      .required();
  const Option output =
      command.add_output("-o,--output", options->output, "write to this file and print a summary");
  command
      .add_option("--format", options->import.format,
                  "format of the logs (default: recognized from the text)")
      .check(one_of(names));
  command.add_option("--step", options->step, "prefix of the annotations that mark the iterations of a trace")
      .show_default();
  command.add_output("--network", options->network,
                     "write a network made from the NCCL kernels of a trace to this file");
  command
      .add_output("--plan", options->plan,
                  "write the buckets of DDP or ZeRO-1/2, or the groups of FSDP, that a trace shows to this "
                  "file, as a plan for "
                  "scenarios and compare")
      .needs(output);
  command.add_option("--group", options->group,
                     "process group whose collectives make the network, by name or description or as "
                     "NAME@RANK (default: the one that sums gradients)");
  command.add_option("--rank", options->rank, "rank whose trace makes the profile (default: the lowest)")
      .check(range<std::int64_t>(0, 999'999));
  command.add_flag("--json", options->json,
                   "print JSON: with --output what is written to it instead of a summary, otherwise the "
                   "report on ranks or buckets");
  add_facts(command, *options);
  command.on_run([options] { import(*options); });
}

}  // namespace cli
