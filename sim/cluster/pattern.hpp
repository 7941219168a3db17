// Describes a collective as rounds of messages between ranks, without times.

#pragma once

#include <cstdint>

namespace cluster {

/// The messages of a rank in a round: at most one out and one in, at the same time. The rank leaves the round
/// when both have ended and the received data is summed up.
struct Exchange {
  static constexpr std::uint32_t kNobody = UINT32_MAX;

  std::uint32_t to = kNobody;
  std::uint32_t from = kNobody;
  std::int64_t bytes_out = 0;  ///< may be 0: the message is still sent
  std::int64_t bytes_in = 0;   ///< equals bytes_out of the rank `from`
  bool sums = false;           ///< the received data is added to the rank's own
  bool operator==(const Exchange&) const = default;
};

/// One collective of a given size on a given number of ranks. Every message is sent and received in the same
/// round: exchange(a, r).to == b if and only if exchange(b, r).from == a.
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
