// The instruction sets that this processor may lack.

#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "profiler/layers/cpu/instruction_sets.hpp"

namespace support {

inline bool has_instruction_set(std::string_view name) {
  const auto all = profiler::instruction_sets();
  return std::ranges::find(all, name, &profiler::InstructionSet::name) != all.end();
}

inline std::string no_avx2() { return has_instruction_set("avx2") ? "" : "a processor without AVX2"; }
inline std::string no_avx512() { return has_instruction_set("avx512") ? "" : "a processor without AVX-512"; }

/// Asks for a set that the processor has.
inline profiler::InstructionSet instruction_set(std::string_view name) {
  const auto all = profiler::instruction_sets();
  return *std::ranges::find(all, name, &profiler::InstructionSet::name);
}

}  // namespace support
