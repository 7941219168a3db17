// Logs of other projects become profiles and networks of ours.

#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces {

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
