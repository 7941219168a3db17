// Converts arrays of numbers to messages and back. All ranks must have the same byte order and number
// formats.

#pragma once

#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace transport {

static_assert(std::endian::native == std::endian::little, "the wire carries little-endian numbers");

template <typename T>
Bytes to_bytes(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  Bytes bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
Bytes to_bytes(const std::vector<T>& values) {
  return to_bytes(std::span<const T>(values));
}

/// Reads the values of a message that must hold exactly `into.size()` of them; otherwise throws
/// TransportError.
template <typename T>
void from_bytes(std::span<const std::byte> bytes, std::span<T> into) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != into.size_bytes())
    throw TransportError("a message of " + std::to_string(bytes.size()) + " bytes where " +
                         std::to_string(into.size_bytes()) + " were expected");
  if (!bytes.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
}

/// Receives exactly the values of `into`.
template <typename T>
void recv_into(Transport& transport, std::uint32_t from, std::uint32_t tag, std::span<T> into) {
  from_bytes<T>(transport.recv(from, tag, into.size_bytes()), into);
}

}  // namespace transport
