// Import of several ranks of one job, and of recordings that hold no profile.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/ranks/report.hpp"
#include "profiler/traces/ranks/source_kind.hpp"

namespace cli {

/// Returns the files, with those in each folder in place of the folder, in the order of their names. Throws
/// InputError for a folder without recordings.
std::vector<std::string> files_of(const std::vector<std::string>& names);

/// Returns the kind of all files. Throws InputError if their kinds differ, or if there are several files of a
/// kind that is imported alone.
ranks::SourceKind kind_of_all(const std::vector<std::string>& files);

/// Reads the traces of all ranks of a job, one after another; `step` is the prefix of the annotations that
/// mark iterations.
std::vector<ranks::RankTrace> read_ranks(const std::vector<std::string>& files, std::string_view step);

/// Returns the measured curves of a group as a network; see ranks::measurements_of().
core::Network network_of_group(const ranks::Report& report, const std::string& group, const std::string& name,
                               double line_rate_gbps);

/// Returns the trace of this rank, or of the lowest rank for -1. Throws InputError if it has none.
const ranks::RankTrace& trace_of(const ranks::Report& report, std::int64_t rank);

}  // namespace cli
