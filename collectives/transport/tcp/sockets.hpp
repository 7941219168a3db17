// Sockets with a deadline on every operation that may wait. Errors are TransportErrors that name the address.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/transport/tcp/descriptor.hpp"
#include "collectives/transport/transport.hpp"

namespace transport {

using Clock = std::chrono::steady_clock;

struct Address {
  std::string host;
  std::uint16_t port = 0;  ///< 0: any free port (only for listening)
  bool operator==(const Address&) const = default;
};

/// "host:port", an IPv6 address in brackets.
std::string text(const Address& address);
/// Returns nothing if the text is not an address.
std::optional<Address> parse_address(std::string_view text);

/// Returns whether the host is written as the address that stands for all interfaces: 0.0.0.0 or ::.
bool is_everywhere(const std::string& host);

/// Listens on the interface of this address. Throws if the address stands for all interfaces.
Descriptor listen_on(const Address& address);

/// Retries until somebody listens there.
Descriptor connect_to(const Address& address, Clock::time_point deadline);

/// This process or the host has no descriptor left for another connection.
struct NoDescriptors : TransportError {
  using TransportError::TransportError;
};

/// Returns nothing if nobody connects before the deadline.
std::optional<Descriptor> accept_on(const Descriptor& listener, Clock::time_point deadline);

/// Returns the local address of a socket.
Address local_address(const Descriptor& socket);
/// Returns the address of the other side as text, "?" if there is none any more.
std::string peer_address(const Descriptor& socket);

/// Makes the kernel ask the other host every second whether the connection still exists. That host's kernel
/// answers; its process need not run for it.
void keep_asking(const Descriptor& socket);
/// Returns whether the other host has left a question or data unanswered, and nothing has come from it for
/// this long.
bool is_unanswered(const Descriptor& socket, std::chrono::milliseconds for_at_least);

/// Returns false if the other side has closed the connection or the deadline has passed.
bool write_all(const Descriptor& socket, std::span<const std::byte> bytes, Clock::time_point deadline);
bool read_all(const Descriptor& socket, std::span<std::byte> bytes, Clock::time_point deadline);

}  // namespace transport
