// Logs of other projects become profiles and networks of ours.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/network.hpp"
#include "core/profile.hpp"

namespace traces {

/// A log that somebody has read; the path is for messages and for what its name says.
struct LogFile {
  std::string path;
  std::string text;
};

/// Whether a profile keeps each parameter as a tensor, or a layer's parameters travel as one.
enum class Grouping { parameter, layer };

/// What a log does not say, and a person must. Empty and 0 mean: not given.
struct ImportOptions {
  std::string format;           ///< empty: recognised from the text
  std::string model;            ///< empty: the name of the (first) file
  std::string network_name;     ///< likewise
  std::int64_t batch_size = 0;  ///< needed where the log does not hold it
  std::string device;
  core::Dtype dtype = core::Dtype::float32;
  Grouping tensors = Grouping::parameter;
  double forward_ratio = 0.5;  ///< forward time as a share of backward, assumed where the log holds none
  std::int64_t workers = 0;    ///< needed where neither the log nor its name says it
  std::string collective;      ///< likewise: all_reduce, reduce_scatter or all_gather
  double line_rate_gbps = 0;   ///< of the network; no log holds it
};

using Imported = std::variant<core::Profile, core::Network>;

/// One collective on one number of workers, as it was measured: times in us, sizes strictly growing.
struct Series {
  std::string path;  ///< of the log
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::optional<std::string> algorithm = std::nullopt;  ///< where the log says it
  std::int64_t workers = 0;
  std::vector<std::pair<double, double>> points = {};
  /// Point by point, or empty: interquartile range and 99th percentile of the samples.
  std::vector<double> spread_us = {};
  std::vector<double> p99_us = {};
};

/// A format is of profiles, and then has `profile`, or of measured collectives, and then has `series`.
struct ImportFormat {
  std::string_view name;
  std::string_view summary;
  bool (*recognises)(std::string_view text, std::string_view path);
  core::Profile (*profile)(const std::vector<LogFile>& logs, const ImportOptions& options) = nullptr;
  std::vector<Series> (*series)(const LogFile& log, const ImportOptions& options) = nullptr;
  std::string_view measured = {};  ///< what a network's origin says of such series
};

std::span<const ImportFormat> import_formats();

/// The measured collectives of logs that belong together, by collective, algorithm and number of workers; all
/// of one format. Throws InputError as import_logs() does.
struct Measurements {
  std::string source;  ///< for an origin
  std::vector<Series> series;
};
Measurements read_measurements(const std::vector<LogFile>& logs, const ImportOptions& options);

/// A layer's parameters as one tensor, ready when the layer's backward ends.
void merge_tensors(core::ProfileLayer& layer);

/// A network of measured curves.
core::Network network_of(const Measurements& measurements, const std::string& name);

/// Which points a network's curve keeps. Its last line is continued for ever, and the line between two
/// neighbouring points can have any slope, a falling one too: the noise of a microsecond between sizes 4 KiB
/// apart. So that the last line spans a quarter of the sizes, the points inside that quarter are left out.
std::vector<std::size_t> points_with_steady_end(const std::vector<std::pair<double, double>>& points);

/// The curve through those.
core::CostCurve curve_through(const std::vector<std::pair<double, double>>& points);

/// Reads logs that belong together. What it returns satisfies read_profile or read_network; whatever is wrong
/// is an InputError, `FILE:LINE: expected X, got Y` where a line is at fault.
Imported import_logs(const std::vector<LogFile>& logs, const ImportOptions& options);

}  // namespace traces
