// The interface of a rank of a collective: send bytes to another rank and receive them. Ranks may be threads
// or processes on a network; nothing here assumes that they share memory.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace transport {

using Bytes = std::vector<std::byte>;

/// For messages whose receiver cannot know their size.
constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();

/// Thrown if a message cannot be delivered, will never arrive, or is not what its receiver expects.
class TransportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The endpoint of one rank. Messages with the same sender, receiver and tag arrive in the order in which
/// they were sent; otherwise they may be received in any order. Used by one thread at a time.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;

  /// Takes the message and returns; never waits for the receiver, so that ranks that all send before they
  /// receive do not block each other. std::invalid_argument for the rank itself and for a rank that does not
  /// exist.
  virtual void send(std::uint32_t to, std::uint32_t tag, Bytes message) = 0;

  /// Waits for the next message with this sender and tag, which has at most `max_bytes`. Throws
  /// TransportError if it is longer or, naming both ranks, if it can never arrive.
  Bytes recv(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes = kAnySize) {
    Bytes message = receive(from, tag, max_bytes);
    if (message.size() > max_bytes)
      throw TransportError("a message of " + std::to_string(message.size()) + " bytes from rank " +
                           std::to_string(from) + " where at most " + std::to_string(max_bytes) +
                           " were expected");
    return message;
  }

  /// The time for which ranks have had to wait for a processor, as far as it is known; see grown(). Any
  /// thread may call it.
  virtual std::chrono::nanoseconds scheduling_delay() { return {}; }

  /// Assigns everything sent and received until the end of the phase to it, for transports that count. See
  /// Phase.
  virtual void enter_phase(std::string_view /*name*/) {}
  virtual void leave_phase() {}

 private:
  /// recv() without the check of the length; memory for more than `max_bytes` need not be held.
  virtual Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) = 0;
};

/// A deadline for ranks that have waited this long for a processor. It grows by as much, to at most four
/// times itself.
constexpr std::chrono::nanoseconds grown(std::chrono::nanoseconds deadline, std::chrono::nanoseconds delay) {
  return deadline + std::clamp(delay, std::chrono::nanoseconds::zero(), 3 * deadline);
}

/// Sends to one rank while receiving from another, or from the same.
inline Bytes send_recv(Transport& transport, std::uint32_t to, Bytes message, std::uint32_t from,
                       std::uint32_t tag, std::size_t max_bytes = kAnySize) {
  transport.send(to, tag, std::move(message));
  return transport.recv(from, tag, max_bytes);
}

/// A named phase of a collective, for the lifetime of this object.
class Phase {
 public:
  Phase(Transport& transport, std::string_view name) : transport_(transport) { transport_.enter_phase(name); }
  ~Phase() { transport_.leave_phase(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Transport& transport_;
};

}  // namespace transport
