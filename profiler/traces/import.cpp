#include "profiler/traces/import.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces {
namespace {

using core::InputError;

using Names = std::vector<std::string_view>;

constexpr auto kFormats = std::to_array<ImportFormat>({
    {.name = "b-caffe",
     .summary = "layer times of B-Caffe, `[index, elements, backward_us, ...]` -> profile",
     .recognises = importers::is_b_caffe,
     .profile = importers::import_b_caffe},
    {.name = "b-caffe-all-reduce",
     .summary = "the all-reduces of a B-Caffe log; with --format only -> network",
     .recognises = [](std::string_view, std::string_view) { return false; },  // it is b-caffe's text
     .series = importers::read_b_caffe_all_reduces,
     .measured = "all-reduces inside a B-Caffe job, median of each size"},
    {.name = "csv",
     .summary = "`bytes,us`, with collective, algorithm, workers where you like -> network",
     .recognises = importers::is_csv,
     .series = importers::read_csv_series,
     .measured = "table of measured collectives"},
    {.name = "espresso",
     .summary = "gradient-ready times of Espresso, `idx,tensor,numel,gap_us` -> profile",
     .recognises = importers::is_espresso,
     .profile = importers::import_espresso},
    {.name = "nccl-inspector",
     .summary = "JSON lines of NCCL's inspector plugin, the logs of all ranks together -> network",
     .recognises = importers::is_nccl_inspector,
     .series_of_ranks = importers::read_nccl_inspector,
     .measured = "NCCL inspector, the shortest time of all ranks"},
    {.name = "nccl-table",
     .summary = "a machine's nccl-tests results, `collective,dtype,gpus,elements,ms` -> network",
     .recognises = importers::is_nccl_table,
     .series = importers::read_nccl_table,
     .measured = "nccl-tests, out-of-place time"},
    {.name = "nccl-tests",
     .summary = "all_reduce_perf, reduce_scatter_perf, all_gather_perf, text or -J -> network",
     .recognises = importers::is_nccl_tests,
     .series = importers::read_nccl_tests,
     .measured = "nccl-tests, out-of-place time"},
    {.name = "osu",
     .summary = "OSU MPI all-reduce latency, one log per number of nodes -> network",
     .recognises = importers::is_osu,
     .series = importers::read_osu,
     .measured = "OSU MPI all-reduce latency, average of all ranks"},
    {.name = "triosim",
     .summary = "TrioSim operator trace and tensor table, both CSV -> profile",
     .recognises = importers::is_triosim,
     .profile = importers::import_triosim},
    {.name = "vtrain",
     .summary = "vTrain NCCL all-reduce table, `size(B),count,type,time(ns),...` -> network",
     .recognises = importers::is_vtrain,
     .series = importers::read_vtrain,
     .measured = "vTrain NCCL all-reduce, out-of-place time"},
});

Names format_names() {
  Names names;
  names.reserve(kFormats.size());
  for (const ImportFormat& format : kFormats) names.push_back(format.name);
  return names;
}

const ImportFormat& format_named(std::string_view name) {
  for (const ImportFormat& format : kFormats)
    if (format.name == name) return format;
  const Names names = format_names();
  throw InputError(fmt::format("--format: expected one of {}, got '{}'{}", fmt::join(names, ", "),
                               core::printable(name), core::suggestion(name, names)));
}

/// What the text is instead, if it is one of fusewise's own files.
std::string own_format(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n"), at = text.find("\"fusewise.");
  constexpr std::size_t kNearBegin = 100;
  if (begin == std::string::npos || text[begin] != '{' || at > begin + kNearBegin) return "none of them";
  return fmt::format("a {} file", core::printable(text.substr(at + 1, text.find('"', at + 1) - at - 1)));
}

const ImportFormat& recognise(const LogFile& log) {
  for (const ImportFormat& format : kFormats)
    if (format.recognises(log.text, log.path)) return format;
  importers::refuse(
      log,
      fmt::format("a trace of the PyTorch profiler (JSON, also gzip), a PyTorch execution trace, an SQLite "
                  "export of Nsight Systems, or a log in one of the formats {}",
                  fmt::join(format_names(), ", ")),
      own_format(log.text));
}

/// Logs that are imported together must have the same format.
const ImportFormat& recognise(const std::vector<LogFile>& logs) {
  const ImportFormat& format = recognise(logs.front());
  for (const LogFile& log : logs)
    if (const ImportFormat& other = recognise(log); &other != &format)
      importers::refuse(
          log, fmt::format("the format {}, as in {}", format.name, importers::shown_path(logs.front())),
          other.name);
  return format;
}

void check_number(std::string_view flag, double value, double max) {
  if (!(value >= 0 && value <= max))
    throw InputError(fmt::format("{}: expected a number from 0 to {:.15g}, got {}", flag, max, value));
}

void check(const ImportOptions& options) {
  constexpr double kMaxRatio = 1e6;
  check_number("--forward-ratio", options.forward_ratio, kMaxRatio);
  check_number("--line-rate-gbps", options.line_rate_gbps, core::kMaxTimeUs);
  check_number("--batch", static_cast<double>(options.batch_size), static_cast<double>(core::kMaxElements));
  check_number("--workers", static_cast<double>(options.workers), static_cast<double>(core::kMaxWorkers));
}

/// Writes and reads the profile, so that no importer returns what the reader rejects.
core::Profile checked(core::Profile profile, const ImportOptions& options, const std::string& source) {
  if (options.tensors == Grouping::layer)
    for (core::ProfileLayer& layer : profile.layers) merge_tensors(layer);
  return read_profile(core::Field::parse(profile_text(profile), source));
}

core::Network checked(core::Network network, const ImportOptions& options, const std::string& source) {
  if (options.line_rate_gbps > 0) network.line_rate_gbps = options.line_rate_gbps;
  return read_network(core::Field::parse(network_text(network), source));
}

const ImportFormat& format_of(const std::vector<LogFile>& logs, const ImportOptions& options) {
  if (logs.empty()) throw InputError("import: expected at least one log, got none");
  check(options);
  return options.format.empty() ? recognise(logs) : format_named(options.format);
}

/// Tables of 1 worker come from nccl-tests without MPI, of which each process runs by itself.
[[noreturn]] void refuse_second(const Series& first, const Series& second) {
  importers::refuse(
      {.path = second.path, .text = {}},
      fmt::format("one table of {} for each number of workers: {}", core::name(second.collective),
                  second.workers == 1 ? "keep one of the tables, or, if this was one job, build "
                                        "nccl-tests with MPI=1, without which each process runs by itself"
                                      : "keep one of the tables"),
      fmt::format("a second one for {}, after {}", second.workers,
                  importers::shown_path({.path = first.path, .text = {}})));
}

/// Sorted by collective, algorithm and number of workers; without duplicates.
Measurements measurements(const ImportFormat& format, const std::vector<LogFile>& logs,
                          const ImportOptions& options) {
  Measurements out = {.source = std::string(format.measured), .series = {}};
  if (format.series_of_ranks != nullptr)
    out.series = format.series_of_ranks(logs, options);
  else
    for (const LogFile& log : logs)
      for (Series& series : format.series(log, options)) out.series.push_back(std::move(series));
  const auto key = [](const Series& series) {
    return std::tuple(series.collective, series.algorithm, series.workers);
  };
  std::stable_sort(out.series.begin(), out.series.end(),
                   [&](const Series& a, const Series& b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < out.series.size(); ++i)
    if (key(out.series[i]) == key(out.series[i - 1])) refuse_second(out.series[i - 1], out.series[i]);
  return out;
}

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

void merge_tensors(core::ProfileLayer& layer) {
  if (layer.tensors.empty()) return;
  core::ProfileTensor whole = {.name = layer.name};
  for (const core::ProfileTensor& tensor : layer.tensors)
    whole.elements = std::min(whole.elements, core::kMaxElementsInAll) + tensor.elements;  // cannot overflow
  layer.tensors = {std::move(whole)};
}

Measurements read_measurements(const std::vector<LogFile>& logs, const ImportOptions& options) {
  const ImportFormat& format = format_of(logs, options);
  if (!format.is_measured())
    importers::refuse(logs.front(), "measured collectives", fmt::format("a profile's log ({})", format.name));
  return measurements(format, logs, options);
}

Imported import_logs(const std::vector<LogFile>& logs, const ImportOptions& options) {
  const ImportFormat& format = format_of(logs, options);
  const std::string source = importers::shown_path(logs.front());
  if (format.profile != nullptr) return {.value = checked(format.profile(logs, options), options, source)};
  const std::string name =
      options.network_name.empty() ? importers::stem(logs.front()) : options.network_name;
  const Measurements measured = measurements(format, logs, options);
  return {.value = checked(network_of(measured, name), options, source),
          .warnings = curve_warnings(measured.series)};
}

}  // namespace traces
