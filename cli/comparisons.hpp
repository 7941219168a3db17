// Traces of a job beside what was predicted, or beside other traces: what `compare` and `report` show.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "validate/compared/comparison.hpp"

namespace cli {

struct CompareOptions {
  std::vector<std::string> traces;  ///< of the ranks of one job, or folders with them
  std::string plan;                 ///< a plan or a scenario: what was predicted
  std::string profile;              ///< of a plan; empty: imported from the trace
  std::string network;              ///< of a plan; empty: measured by the traces
  std::string schedule;             ///< of a scenario; empty: its first
  std::int64_t workers = 0;         ///< 0: those of the plan, or the first of the scenario
  std::string group;       ///< process group that sums gradients; empty: the one that the trace shows
  std::int64_t rank = -1;  ///< whose iteration is compared; -1: the lowest
  std::string step = "ProfilerStep#";
};

/// Compares the traces with the plan; without a plan, two of them with each other, before and after a change,
/// or a single one with what is predicted from its own profile and collectives. Throws InputError.
compared::Comparison comparison_of(const CompareOptions& options);

/// Whether this is a trace, or a folder, that comparison_of() takes.
bool is_trace(const std::string& path);

}  // namespace cli
