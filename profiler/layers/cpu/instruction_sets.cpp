#include "profiler/layers/cpu/instruction_sets.hpp"

namespace profiler {

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> out;
#ifdef FUSEWISE_X86_PRODUCTS
  __builtin_cpu_init();
  const bool has_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (has_fma && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0)
    out.push_back({.name = "avx512", .product = product_avx512});
  if (has_fma) out.push_back({.name = "avx2", .product = product_avx2});
#endif
  out.push_back({.name = "baseline", .product = product_baseline});
  return out;
}

}  // namespace profiler
