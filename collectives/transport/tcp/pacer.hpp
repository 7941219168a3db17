// Emulates a link of a given rate on a faster network: bytes leave when the last of them would have left that
// link.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "collectives/transport/tcp/sockets.hpp"

namespace transport {

/// One direction of a link. Time lost to host scheduling is deducted from the next wait; idle time gives no
/// credit.
class Pacer {
 public:
  explicit Pacer(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Returns how many bytes are sent at once: 100 us of the link.
  std::size_t piece() const {
    return static_cast<std::size_t>(std::clamp(bytes_per_second_ * 1e-4, 1024.0, 65536.0));
  }
  Clock::duration takes(std::size_t bytes) const {
    return std::chrono::ceil<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  }

  /// Returns when bytes that are available since `ready` have passed the link, given its known load.
  Clock::time_point passes(Clock::time_point ready, std::size_t bytes) const {
    return std::max(free_, ready) + takes(bytes);
  }
  /// Records that the link is busy until `passed`.
  void pass(Clock::time_point passed) { free_ = passed; }
  Clock::time_point free() const { return free_; }

 private:
  double bytes_per_second_;
  Clock::time_point free_{};
};

}  // namespace transport
