// What several importers need: the head of a profile, what a file's name says, and points of a curve.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces::importers {

/// Without its folders: an origin must not depend on where somebody keeps a log.
std::string file_name(const LogFile& log);
/// Without folders and extension.
std::string stem(const LogFile& log);

/// The only log there may be.
const LogFile& single(const std::vector<LogFile>& logs);

/// A profile without layers and origin.
core::Profile profile_head(const LogFile& log, const ImportOptions& options, std::int64_t batch_size);
/// The batch size that a person gave; refuses if none was.
std::int64_t given_batch_size(const LogFile& log, const ImportOptions& options);
/// For the origin: where forward times and the batch size come from, when not from the log.
std::string assumptions(const ImportOptions& options);

/// The number of workers as the file's name says it: its only digits that come straight after `prefix`.
/// A number that was given goes first; refuses if there is neither.
std::int64_t workers_told(const LogFile& log, const ImportOptions& options, std::string_view prefix);

using CurvePoints = std::vector<std::pair<double, double>>;

struct Line;

/// Appends a point to a curve. No size comes twice or out of order; a time is at least the simulator's
/// picosecond, because errors are relative to it.
void add_point(CurvePoints& points, const Line& line, std::string_view bytes, std::string_view us,
               double units_per_us);

std::optional<core::CollectiveKind> collective_kind(std::string_view name);
/// The collective that a person named, or nothing.
std::optional<core::CollectiveKind> given_collective(const ImportOptions& options);

/// What nccl-tests calls bus bandwidth, in GB/s (10^9): it gives away a wrong number of workers.
double bus_bandwidth(core::CollectiveKind collective, std::int64_t workers,
                     const std::pair<double, double>& point);
/// Whether the bandwidth that a log prints can be this one, rounded.
bool agrees(double found, double expected);

}  // namespace traces::importers
