// The measured collectives: their names, the input on each rank, and the expected output.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"

namespace measure {

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, send_receive };

struct CollectiveEntry {
  Collective kind;
  std::string_view name;
  std::optional<core::CollectiveKind> in_network;  ///< network files have curves of these
  /// The share of the measured bytes that a link carries at least, in one direction, on P ranks: the factor
  /// of "busbw".
  double (*share)(double ranks);
};

std::span<const CollectiveEntry> collectives();
const CollectiveEntry& entry(Collective kind);

/// The part of `count` values that belongs to the rank in a reduce_scatter or all_gather.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};
Part own_part(std::size_t count, std::uint32_t ranks, std::uint32_t rank);

/// Integers, so that sums are exact in any order; they repeat only after 8,191 values.
class TestData {
 public:
  explicit TestData(std::uint32_t ranks);

  void fill(std::uint32_t rank, std::span<float> values) const;

  /// Returns an empty string if these are the results of the collective on this rank; otherwise the first
  /// wrong value.
  std::string fault(Collective kind, std::uint32_t rank, std::span<const float> values) const;

 private:
  float value(std::uint32_t rank, std::size_t index) const;

  std::uint32_t ranks_;
  std::vector<float> sums_;
};

}  // namespace measure
