#include "traces/import.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/errors.hpp"
#include "models/field.hpp"
#include "traces/importers/formats.hpp"
#include "traces/importers/log_text.hpp"
#include "traces/limits.hpp"

namespace traces {
namespace {

using models::InputError;

constexpr std::array<ImportFormat, 5> kFormats = {{
    {"b-caffe", "layer times of B-Caffe, `[index, elements, backward_us, ...]` -> profile",
     importers::is_b_caffe, importers::import_b_caffe},
    {"espresso", "gradient-ready times of Espresso, `idx,tensor,numel,gap_us` -> profile",
     importers::is_espresso, importers::import_espresso},
    {"osu", "OSU MPI all-reduce latency, one log per number of nodes -> network", importers::is_osu,
     importers::import_osu},
    {"triosim", "TrioSim operator trace and tensor table, both CSV -> profile", importers::is_triosim,
     importers::import_triosim},
    {"vtrain", "vTrain NCCL all-reduce table, `size(B),count,type,time(ns),...` -> network",
     importers::is_vtrain, importers::import_vtrain},
}};

std::vector<std::string_view> format_names() {
  std::vector<std::string_view> names;
  names.reserve(kFormats.size());
  for (const ImportFormat& format : kFormats) names.push_back(format.name);
  return names;
}

const ImportFormat& format_named(std::string_view name) {
  for (const ImportFormat& format : kFormats)
    if (format.name == name) return format;
  const std::vector<std::string_view> names = format_names();
  throw InputError(fmt::format("--format: expected one of {}, got '{}'{}", fmt::join(names, ", "),
                               models::printable(name), models::suggestion(name, names)));
}

const ImportFormat& recognise(const LogFile& log) {
  for (const ImportFormat& format : kFormats)
    if (format.recognises(log.text, log.path)) return format;
  importers::refuse(log, fmt::format("a log in one of the formats {}", fmt::join(format_names(), ", ")),
                    "text of none of them");
}

/// Logs that are imported together are all of one format.
const ImportFormat& recognise(const std::vector<LogFile>& logs) {
  const ImportFormat& format = recognise(logs.front());
  for (const LogFile& log : logs)
    if (const ImportFormat& other = recognise(log); &other != &format)
      importers::refuse(
          log, fmt::format("the format {}, as in {}", format.name, importers::shown_path(logs.front())),
          other.name);
  return format;
}

void check_number(std::string_view flag, double value, double most) {
  if (!(value >= 0 && value <= most))
    throw InputError(fmt::format("{}: expected a number from 0 to {:.15g}, got {}", flag, most, value));
}

void check(const ImportOptions& options) {
  constexpr double kMostRatio = 1e6;
  check_number("--forward-ratio", options.forward_ratio, kMostRatio);
  check_number("--line-rate-gbps", options.line_rate_gbps, kMostTimeUs);
  check_number("--batch", static_cast<double>(options.batch_size), static_cast<double>(kMostElements));
  check_number("--workers", static_cast<double>(options.workers), static_cast<double>(kMostWorkers));
}

/// A layer's parameters as one tensor, ready when the layer's backward ends.
void merge_tensors(ProfileLayer& layer) {
  if (layer.tensors.empty()) return;
  ProfileTensor whole = {.name = layer.name};
  for (const ProfileTensor& tensor : layer.tensors)
    whole.elements = std::min(whole.elements, kMostElementsInAll) + tensor.elements;  // cannot overflow
  layer.tensors = {std::move(whole)};
}

/// Through text and back: what the reader refuses no importer returns.
Imported checked(Profile profile, const ImportOptions& options, const std::string& source) {
  if (options.tensors == Grouping::layer)
    for (ProfileLayer& layer : profile.layers) merge_tensors(layer);
  return read_profile(models::Field::parse(profile_text(profile), source));
}

Imported checked(Network network, const ImportOptions& options, const std::string& source) {
  if (options.line_rate_gbps > 0) network.line_rate_gbps = options.line_rate_gbps;
  return read_network(models::Field::parse(network_text(network), source));
}

}  // namespace

std::span<const ImportFormat> import_formats() { return kFormats; }

Imported import_logs(const std::vector<LogFile>& logs, const ImportOptions& options) {
  if (logs.empty()) throw InputError("import: expected at least one log, got none");
  check(options);
  const ImportFormat& format = options.format.empty() ? recognise(logs) : format_named(options.format);
  const std::string source = importers::shown_path(logs.front());
  return std::visit([&](auto found) { return checked(std::move(found), options, source); },
                    format.import(logs, options));
}

}  // namespace traces
