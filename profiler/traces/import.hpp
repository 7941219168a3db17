// Converts logs of other projects to profiles and networks.

#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces {

std::span<const ImportFormat> import_formats();

/// The measured collectives of logs that belong together, sorted by collective, algorithm and number of
/// workers; all of one format. Throws InputError like import_logs().
struct Measurements {
  std::string source;  ///< for an origin
  std::vector<Series> series;
};
Measurements read_measurements(const std::vector<LogFile>& logs, const ImportOptions& options);

/// Replaces a layer's parameters by one tensor, which is ready when the layer's backward ends.
void merge_tensors(core::ProfileLayer& layer);

/// Continues the few sizes of a training job, at least one, to smaller and larger ones: a line through the
/// points gives the cost of one byte, which is at least 10 us or half the shortest time, and the slope beyond
/// the largest size. Returns the points with one more before them, at 1 byte, and one after them, a quarter
/// beyond the last. No size costs more than a larger one.
std::vector<std::pair<double, double>> continued(std::vector<std::pair<double, double>> points);

/// Words for the assumption of continued curves about sizes that were not measured.
std::vector<std::string> curve_warnings(const std::vector<Series>& series);

/// Returns a network of measured curves.
core::Network network_of(const Measurements& measurements, const std::string& name);

/// Returns the points that a network's curve keeps. Its last line is extrapolated without limit, and noise of
/// a microsecond between sizes 4 KiB apart can give the line between two neighbouring points any slope, even
/// a negative one. Therefore points in the last quarter of the sizes are left out, so that the last line
/// spans it.
std::vector<std::size_t> points_with_steady_end(const std::vector<std::pair<double, double>>& points);

/// Returns the curve through those points, and through the jump of protocol_switch().
core::CostCurve curve_through(const Series& series);

/// Reads logs that belong together. The result satisfies read_profile or read_network; anything wrong is an
/// InputError, `FILE:LINE: expected X, got Y` if a line is at fault.
Imported import_logs(const std::vector<LogFile>& logs, const ImportOptions& options);

}  // namespace traces
