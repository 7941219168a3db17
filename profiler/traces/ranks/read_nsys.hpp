// Reads the SQLite export of Nsight Systems: `nsys export --type sqlite report.nsys-rep`.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/ranks/rank_trace.hpp"

namespace ranks {

/// Returns a trace for each GPU that ran kernels in the export, in the order of processes and devices. Sizes
/// of collectives are known where the export holds the payloads of NCCL's NVTX ranges. `step` is the prefix
/// of the NVTX ranges that mark iterations. Throws InputError for another file.
std::vector<RankTrace> read_nsys(const std::string& path, std::string_view step);

}  // namespace ranks
