// The inputs and outputs of importers: logs, information that a log lacks, profiles or measured collectives.

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

/// A log in memory; the path is for messages and for what its name says.
struct LogFile {
  std::string path;
  std::string text;
};

/// Whether a profile keeps each parameter as a tensor, or a layer's parameters form one tensor.
enum class Grouping { parameter, layer };

/// Information that a log lacks and a user must provide. Empty and 0 mean: not given.
struct ImportOptions {
  std::string format;                    ///< empty: recognised from the text
  std::string model;                     ///< empty: the name of the (first) file
  std::string network_name;              ///< likewise
  std::vector<std::int64_t> parameters;  ///< elements, in the order of the model; empty: not known
  std::int64_t batch_size = 0;           ///< required if the log does not hold it
  std::string device;
  std::optional<core::Dtype> dtype = {};  ///< float32, unless a trace shows another
  Grouping tensors = Grouping::parameter;
  double forward_ratio = 0.5;  ///< assumed forward time / backward time if the log holds no forward times
  std::int64_t workers = 0;    ///< required if neither the log nor its name states it
  std::string collective;      ///< required in the same case: all_reduce, reduce_scatter or all_gather
  double line_rate_gbps = 0;   ///< of the network; no log holds it
};

struct Imported {
  std::variant<core::Profile, core::Network> value;
  std::vector<std::string> warnings = {};
};

/// Measured times of one collective on one number of workers: us, sizes strictly increasing.
struct Series {
  std::string path;  ///< of the log
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  std::optional<std::string> algorithm = std::nullopt;  ///< if the log states it
  std::int64_t workers = 0;
  std::vector<std::pair<double, double>> points = {};
  /// Interquartile range and 99th percentile of the samples for each point, or empty.
  std::vector<double> spread_us = {};
  std::vector<double> p99_us = {};
  std::int64_t tables_left_out = 0;        ///< of the log, as they are of other collectives
  std::int64_t in_place_rows = 0;          ///< points with the in-place time, as the other is far longer
  std::vector<std::string> warnings = {};  ///< rows that were left out, with their places
  bool is_continued = false;               ///< the curve is to be continued to other sizes, see continued()
};

/// A format is either for profiles, and has `profile`, or for measured collectives.
struct ImportFormat {
  std::string_view name;
  std::string_view summary;
  bool (*recognises)(std::string_view text, std::string_view path);
  core::Profile (*profile)(const std::vector<LogFile>& logs, const ImportOptions& options) = nullptr;
  std::vector<Series> (*series)(const LogFile& log, const ImportOptions& options) = nullptr;
  /// For logs of several ranks, which belong together; in place of `series`.
  std::vector<Series> (*series_of_ranks)(const std::vector<LogFile>& logs,
                                         const ImportOptions& options) = nullptr;
  std::string_view measured = {};  ///< how a network's origin describes such series

  bool is_measured() const { return series != nullptr || series_of_ranks != nullptr; }
};

}  // namespace traces
