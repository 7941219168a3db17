// Which instruction sets matrix products are compiled for, and which this processor has.

#pragma once

#include <string_view>
#include <vector>

#include "profiler/layers/cpu/product.hpp"

namespace profiler {

struct InstructionSet {
  std::string_view name;  ///< avx512, avx2 or baseline
  ProductFunction product;
};

/// Those that this processor runs, the fastest first; the last is the baseline, which every one runs.
std::vector<InstructionSet> instruction_sets();

}  // namespace profiler
