// What every importer is given and gives: logs, what a log does not say, profiles or measured collectives.

#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace traces
