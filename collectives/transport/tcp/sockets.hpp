// Sockets with a deadline on everything that may wait. What fails is a TransportError that names the address.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/transport/tcp/descriptor.hpp"

namespace transport {

using Clock = std::chrono::steady_clock;

struct Address {
  std::string host;
  std::uint16_t port = 0;  ///< 0: where one listens, any that is free
  bool operator==(const Address&) const = default;
};

/// "host:port", an IPv6 address in brackets.
std::string text(const Address& address);
/// Nothing if it is not one.
std::optional<Address> parse_address(std::string_view text);

Descriptor listen_on(const Address& address);

/// Tries again as long as nobody listens there.
Descriptor connect_to(const Address& address, Clock::time_point deadline);

/// Nothing: nobody came by the deadline.
std::optional<Descriptor> accept_on(const Descriptor& listener, Clock::time_point deadline);

/// Of a socket: its own end.
Address local_address(const Descriptor& socket);

/// False: the other side has closed, or the deadline has passed.
bool write_all(const Descriptor& socket, std::span<const std::byte> bytes, Clock::time_point deadline);
bool read_all(const Descriptor& socket, std::span<std::byte> bytes, Clock::time_point deadline);

}  // namespace transport
