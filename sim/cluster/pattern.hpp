// A collective as rounds of messages between ranks: what each rank sends to whom. Says nothing of time.

#pragma once

#include <cstdint>

namespace cluster {

/// What a rank does in a round: at most one message out and one in, at once. The rank leaves the round when
/// both have ended and what came in is summed up.
struct Exchange {
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  std::uint32_t to = kNobody;
  std::uint32_t from = kNobody;
  std::int64_t bytes_out = 0;  ///< may be 0: the message is sent all the same
  std::int64_t bytes_in = 0;   ///< as the rank `from` has it in bytes_out
  bool sums = false;           ///< what comes in is added to what the rank has
  bool operator==(const Exchange&) const = default;
};

/// One collective of a given size on a given number of ranks. Every message is sent and received in the same
/// round: exchange(a, r).to == b is exchange(b, r).from == a.
class Pattern {
 public:
  Pattern() = default;
  virtual ~Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  virtual std::uint32_t ranks() const = 0;
  virtual std::uint32_t rounds() const = 0;
  virtual Exchange exchange(std::uint32_t rank, std::uint32_t round) const = 0;
};

}  // namespace cluster
