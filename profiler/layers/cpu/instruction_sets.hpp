// Lists the instruction sets for which matrix products are compiled, and those of this processor.

#pragma once

#include <string_view>
#include <vector>

#include "profiler/layers/cpu/product.hpp"

namespace profiler {

struct InstructionSet {
  std::string_view name;  ///< avx512, avx2 or baseline
  ProductFunction product;
};

/// Returns the sets that this processor supports, fastest first; the last is the baseline, which every
/// processor supports.
std::vector<InstructionSet> instruction_sets();

}  // namespace profiler
