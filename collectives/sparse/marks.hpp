// A bit set over a range of elements: which of them are present. It takes 1/32 of the memory of their values.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sparse {

/// The elements [begin, end).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// All indexes must be within its range.
class Marks {
 public:
  explicit Marks(Range range) : range_(range), words_((range.size() + kBits - 1) / kBits) {}

  Range range() const { return range_; }
  bool has(std::size_t index) const { return (word_of(index) & bit_of(index)) != 0; }
  void set(std::size_t index) { words_[(index - range_.begin) / kBits] |= bit_of(index); }
  void clear(std::size_t index) { words_[(index - range_.begin) / kBits] &= ~bit_of(index); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  /// Calls visit(index) for each present element, in order; `visit` may remove that element.
  template <typename Visit>
  void for_each(Range within, Visit visit) const {
    if (within.size() == 0) return;
    const std::size_t first = within.begin - range_.begin;
    const std::size_t last = within.end - 1 - range_.begin;
    for (std::size_t word = first / kBits; word <= last / kBits; ++word) {
      std::uint64_t left = words_[word];
      if (word == first / kBits) left &= kAll << first % kBits;
      if (word == last / kBits) left &= kAll >> (kBits - 1 - last % kBits);
      for (; left != 0; left &= left - 1)
        visit(range_.begin + word * kBits + static_cast<std::size_t>(std::countr_zero(left)));
    }
  }

  std::size_t count(Range within) const {
    std::size_t count = 0;
    for_each(within, [&](std::size_t) { ++count; });
    return count;
  }

 private:
  static constexpr std::size_t kBits = 64;
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};

  std::uint64_t word_of(std::size_t index) const { return words_[(index - range_.begin) / kBits]; }
  std::uint64_t bit_of(std::size_t index) const { return std::uint64_t{1} << (index - range_.begin) % kBits; }

  Range range_;
  std::vector<std::uint64_t> words_;
};

}  // namespace sparse
