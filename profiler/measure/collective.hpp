// The collectives that are measured: their names, what goes in on each rank, and what must come out.

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
  std::optional<core::CollectiveKind> in_network;  ///< a network file has curves of these
  /// Of the bytes that are measured, what a link carries one way at least on P ranks: what "busbw" counts.
  double (*share)(double ranks);
};

std::span<const CollectiveEntry> collectives();
const CollectiveEntry& entry(Collective kind);

/// The part of `count` values that is the rank's own in a reduce_scatter or all_gather.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
};
Part own_part(std::size_t count, std::uint32_t ranks, std::uint32_t rank);

/// Whole numbers, so that sums are exact in any order; they repeat only after 8,191 values.
class TestData {
 public:
  explicit TestData(std::uint32_t ranks);

  void fill(std::uint32_t rank, std::span<float> values) const;

  /// Empty if these are what the collective leaves on this rank; else which value is wrong, and how.
  std::string fault(Collective kind, std::uint32_t rank, std::span<const float> values) const;

 private:
  float value(std::uint32_t rank, std::size_t index) const;

  std::uint32_t ranks_;
  std::vector<float> sums_;
};

}  // namespace measure
