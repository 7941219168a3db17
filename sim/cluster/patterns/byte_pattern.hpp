// A pattern that also says which bytes of the message travel. The length of each message follows from it, and
// tests can check that every rank ends with the right sums.

#pragma once

#include <cstdint>

#include "sim/cluster/pattern.hpp"

namespace cluster {

/// A range of bytes of the collective's message: [begin, end).
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Stretch&) const = default;
};

/// Returns part `index` of `whole` cut into `parts` parts; the first (size mod parts) parts are one byte
/// larger.
Stretch part_of(const Stretch& whole, std::uint32_t parts, std::uint32_t index);

/// Returns ceil(log2 ranks).
std::uint32_t doublings(std::uint32_t ranks);

/// The action of a rank in a round, and its bytes.
struct Move {
  std::uint32_t to = Exchange::kNobody;
  std::uint32_t from = Exchange::kNobody;
  Stretch out;               ///< the bytes that it sends
  bool sums = false;         ///< the received data is added to the rank's own; otherwise it replaces it
  std::int64_t padding = 0;  ///< bytes that are sent with `out` so that all messages of a round are alike
};

class BytePattern : public Pattern {
 public:
  BytePattern(std::uint32_t ranks, std::int64_t bytes) : ranks_(ranks), bytes_(bytes) {}

  virtual Move move(std::uint32_t rank, std::uint32_t round) const = 0;

  std::uint32_t ranks() const final { return ranks_; }
  /// Size of the whole message; for an all-gather the bytes gathered in total.
  std::int64_t bytes() const { return bytes_; }
  Stretch whole() const { return {.begin = 0, .end = bytes_}; }
  Exchange exchange(std::uint32_t rank, std::uint32_t round) const final;

 private:
  std::uint32_t ranks_;
  std::int64_t bytes_;
};

}  // namespace cluster
