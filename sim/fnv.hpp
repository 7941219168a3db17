// A hash of text that is the same on every machine.

#pragma once

#include <cstdint>
#include <string_view>

namespace sim {

/// FNV-1a. `state`: the hash of a text that precedes this one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t state = 0xcbf29ce484222325U) {
  for (const char c : text) {
    state ^= static_cast<unsigned char>(c);
    state *= 0x100000001b3U;
  }
  return state;
}

}  // namespace sim
