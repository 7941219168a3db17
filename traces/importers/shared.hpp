// What several importers need: the head of a profile, and a network made of measured all-reduce curves.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/import.hpp"

namespace traces::importers {

/// Without its folders: an origin must not depend on where somebody keeps a log.
std::string file_name(const LogFile& log);

/// The only log there may be.
const LogFile& single(const std::vector<LogFile>& logs);

/// A profile without layers and origin.
Profile profile_head(const LogFile& log, const ImportOptions& options, std::int64_t batch_size);
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

struct AllReduceLog {
  const LogFile* log;
  std::int64_t workers;
  CurvePoints points;
};

/// Each log's curve with its fit, by growing number of workers.
Network network_of(std::vector<AllReduceLog> logs, const ImportOptions& options, std::string_view source);

}  // namespace traces::importers
