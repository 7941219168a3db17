// Reads and writes the bytes of compressors; numbers are little-endian on any machine.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace compression {

using Bytes = std::vector<std::byte>;

/// Reverses the bytes of a word of 2 or 4 bytes.
template <typename Word>
constexpr Word swapped(Word word) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i)
    out = out << 8U | (static_cast<std::uint32_t>(word) >> (8 * i) & 0xffU);
  return static_cast<Word>(out);
}

template <typename Word>
constexpr Word as_little_endian(Word word) {
  return std::endian::native == std::endian::little ? word : swapped(word);
}

template <typename Word>
void put(std::byte* to, Word word) {
  word = as_little_endian(word);
  std::memcpy(to, &word, sizeof word);
}

template <typename Word>
Word get(const std::byte* from) {
  Word word = 0;
  std::memcpy(&word, from, sizeof word);
  return as_little_endian(word);
}

inline void put_float(std::byte* to, float x) { put(to, std::bit_cast<std::uint32_t>(x)); }
inline float get_float(const std::byte* from) { return std::bit_cast<float>(get<std::uint32_t>(from)); }

/// Throws std::invalid_argument: "NAME: expected WHAT, got GOT".
[[noreturn]] void refuse(const char* name, const char* what, std::size_t got);

}  // namespace compression
