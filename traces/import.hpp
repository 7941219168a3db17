// Logs of other projects become profiles and networks of ours.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "traces/network.hpp"
#include "traces/profile.hpp"

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
  Dtype dtype = Dtype::float32;
  Grouping tensors = Grouping::parameter;
  double forward_ratio = 0.5;  ///< forward time as a share of backward, assumed where the log holds none
  std::int64_t workers = 0;    ///< needed where neither the log nor its name says it
  double line_rate_gbps = 0;   ///< of the network; no log holds it
};

using Imported = std::variant<Profile, Network>;

struct ImportFormat {
  std::string_view name;
  std::string_view summary;
  bool (*recognises)(std::string_view text, std::string_view path);
  Imported (*import)(const std::vector<LogFile>& logs, const ImportOptions& options);
};

std::span<const ImportFormat> import_formats();

/// Reads logs that belong together. What it returns satisfies read_profile or read_network; whatever is wrong
/// is an InputError, `FILE:LINE: expected X, got Y` where a line is at fault.
Imported import_logs(const std::vector<LogFile>& logs, const ImportOptions& options);

}  // namespace traces
