// Reads the collectives and the compute of one rank from a trace of the PyTorch profiler (Kineto).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/ranks/rank_trace.hpp"

namespace ranks {

/// `step` is the prefix of the annotations that mark iterations. Throws InputError for a file that is no
/// trace, or holds no kernels.
RankTrace read_kineto(const std::string& path, std::string_view step,
                      const std::vector<std::int64_t>& parameters = {});

/// Returns the rank that a file's name states, as in "rank3.json" and "worker3_step_12.pt.trace.json", or -1.
std::int64_t rank_in_name(const std::string& path);

}  // namespace ranks
