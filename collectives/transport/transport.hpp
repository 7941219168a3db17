// The interface of a rank of a collective: send bytes to another rank and receive them. Ranks may be threads
// or processes on a network; nothing here assumes that they share memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace transport {

using Bytes = std::vector<std::byte>;

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

  /// Waits for the next message with this sender and tag. Throws TransportError, which names both ranks, if
  /// it can never arrive.
  virtual Bytes recv(std::uint32_t from, std::uint32_t tag) = 0;

  /// Assigns everything sent and received until the end of the phase to it, for transports that count. See
  /// Phase.
  virtual void enter_phase(std::string_view /*name*/) {}
  virtual void leave_phase() {}
};

/// Sends to one rank while receiving from another, or from the same.
inline Bytes send_recv(Transport& transport, std::uint32_t to, Bytes message, std::uint32_t from,
                       std::uint32_t tag) {
  transport.send(to, tag, std::move(message));
  return transport.recv(from, tag);
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
