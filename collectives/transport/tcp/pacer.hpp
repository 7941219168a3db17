// A link of a given rate that a process keeps to by itself, where the network does not: bytes leave when the
// last of them would have.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "collectives/transport/tcp/sockets.hpp"

namespace transport {

/// One direction. What is late because the process was is caught up with; idle time is no credit.
class Pacer {
 public:
  explicit Pacer(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// How many bytes go at once: 100 us of the link.
  std::size_t piece() const {
    return static_cast<std::size_t>(std::clamp(bytes_per_second_ * 1e-4, 1024.0, 65536.0));
  }
  Clock::duration takes(std::size_t bytes) const {
    return std::chrono::ceil<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  }

  /// When bytes that are there since `ready` have passed the link, as far as it is known to be busy.
  Clock::time_point passes(Clock::time_point ready, std::size_t bytes) const {
    return std::max(free_, ready) + takes(bytes);
  }
  /// They pass, and have by `passed`.
  void pass(Clock::time_point passed) { free_ = passed; }
  Clock::time_point free() const { return free_; }

 private:
  double bytes_per_second_;
  Clock::time_point free_{};
};

}  // namespace transport
