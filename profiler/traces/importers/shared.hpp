// Shared parts of importers: the head of a profile, information in a file's name, and points of a curve.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces::importers {

/// Without folders: an origin must not depend on where a log is stored.
std::string file_name(const LogFile& log);
/// Without folders and extension.
std::string stem(const LogFile& log);

/// Returns the only log; rejects several.
const LogFile& single(const std::vector<LogFile>& logs);

/// Returns a profile without layers and origin.
core::Profile profile_head(const LogFile& log, const ImportOptions& options, std::int64_t batch_size);
/// Returns the batch size given by the user; rejects a missing one.
std::int64_t given_batch_size(const LogFile& log, const ImportOptions& options);
/// For the origin: the source of forward times and batch size, if not the log.
std::string assumptions(const ImportOptions& options);

/// Returns the number of workers in the file's name: its only digits directly after `prefix`. A number given
/// by the user has priority; rejects if there is neither, and says `neither`.
std::int64_t stated_workers(const LogFile& log, const ImportOptions& options, std::string_view prefix,
                            std::string_view neither = "neither");

using CurvePoints = std::vector<std::pair<double, double>>;

struct Line;

/// Appends a point to a curve. Sizes must strictly increase; a time is at least the simulator's picosecond,
/// because errors are relative to it.
void add_point(CurvePoints& points, const Line& line, std::string_view bytes, std::string_view us,
               double units_per_us);

std::optional<core::CollectiveKind> collective_kind(std::string_view name);
/// Returns the collective given by the user, or nothing.
std::optional<core::CollectiveKind> given_collective(const ImportOptions& options);

/// Returns the bus bandwidth as nccl-tests defines it, in GB/s (10^9): it reveals a wrong number of workers.
double bus_bandwidth(core::CollectiveKind collective, std::int64_t workers,
                     const std::pair<double, double>& point);
/// Returns whether the bandwidth that a log prints can be this one, rounded.
bool agrees(double found, double expected);

}  // namespace traces::importers
