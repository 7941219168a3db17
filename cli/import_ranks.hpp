// Import of several ranks of one job, and of recordings that hold no profile.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/ranks/report.hpp"
#include "profiler/traces/ranks/source_kind.hpp"

namespace cli {

/// Recordings of one kind.
struct Recordings {
  std::vector<std::string> files;
  ranks::SourceKind kind = ranks::SourceKind::log;
};

/// Recognizes each file once; the files in a folder, in the order of their names, come in place of it. Throws
/// InputError for a folder without recordings, if kinds differ, or if there are several files of a kind that
/// is imported alone.
Recordings recordings_of(const std::vector<std::string>& names);

/// Reads the traces of all ranks of a job, one after another; `step` is the prefix of the annotations that
/// mark iterations.
std::vector<ranks::RankTrace> read_ranks(const Recordings& recordings, std::string_view step,
                                         const std::vector<std::int64_t>& parameters = {});

/// Returns measured curves as a network; its name is by default that of the first rank's trace.
core::Network network_of_group(const ranks::Report& report, const traces::Measurements& measurements,
                               const std::string& name, double line_rate_gbps);

/// Returns the trace of this rank, or of the lowest rank for -1. Throws InputError if it has none.
const ranks::RankTrace& trace_of(const ranks::Report& report, std::int64_t rank);

}  // namespace cli
