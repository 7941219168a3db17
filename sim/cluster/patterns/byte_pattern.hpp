// A pattern that also says which bytes of the whole message travel: how long a message is follows from it,
// and whether everybody ends with the right sums can be tried out.

#pragma once

#include <cstdint>

#include "sim/cluster/pattern.hpp"

namespace cluster {

/// Bytes of the message that a collective is of, from the first to one past the last.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const Stretch&) const = default;
};

/// The part of this index when `whole` is cut in so many: the first size mod parts are a byte larger.
Stretch part_of(const Stretch& whole, std::uint32_t parts, std::uint32_t index);

/// How many times 2 must be taken to reach so many ranks: ceil(log2 ranks).
std::uint32_t doublings(std::uint32_t ranks);

/// What a rank does in a round, and with which bytes.
struct Move {
  std::uint32_t to = Exchange::kNobody;
  std::uint32_t from = Exchange::kNobody;
  Stretch out;        ///< what it sends
  bool sums = false;  ///< what comes in is added to what the rank has there; if not, it takes its place
};

class BytePattern : public Pattern {
 public:
  BytePattern(std::uint32_t ranks, std::int64_t bytes) : ranks_(ranks), bytes_(bytes) {}

  virtual Move move(std::uint32_t rank, std::uint32_t round) const = 0;

  std::uint32_t ranks() const final { return ranks_; }
  /// Of the whole message; in an all-gather, of what is gathered.
  std::int64_t bytes() const { return bytes_; }
  Stretch whole() const { return {.begin = 0, .end = bytes_}; }
  Exchange exchange(std::uint32_t rank, std::uint32_t round) const final;

 private:
  std::uint32_t ranks_;
  std::int64_t bytes_;
};

}  // namespace cluster
