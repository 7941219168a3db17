// What processes tell each other before they are ranks of one job: who they are, and where to find the rest.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/transport/tcp/sockets.hpp"
#include "collectives/transport/transport.hpp"

namespace transport {

/// Grows whenever what travels between ranks changes.
constexpr std::uint32_t kTcpVersion = 1;

/// A process as messages name it.
struct Process {
  std::string host;
  std::int64_t pid = 0;
  bool operator==(const Process&) const = default;
};

/// "rank 2 (host h, pid 77)"
std::string name(std::uint32_t rank, const Process& process);

Process this_process();

/// The first thing said on a connection.
struct Handshake {
  std::uint32_t version = kTcpVersion;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string job;
  Process process;
  Address listens;  ///< for ranks above its own
  bool operator==(const Handshake&) const = default;
};

/// Rank 0's answer when all are there: everybody's Hello by rank.
using Roster = std::vector<Handshake>;
/// Or why nothing comes of it.
struct Refusal {
  std::string why;
  bool operator==(const Refusal&) const = default;
};
using Answer = std::variant<Roster, Refusal>;

Bytes packed(const Handshake& handshake);
Bytes packed(const Answer& answer);
/// Nothing if they are not one.
std::optional<Handshake> unpacked_handshake(std::span<const std::byte> bytes);
std::optional<Answer> unpacked_answer(std::span<const std::byte> bytes);

/// With magic and length in front. False, or nothing: closed, too late, or not ours.
bool send_packed(const Descriptor& socket, const Bytes& bytes, Clock::time_point deadline);
std::optional<Bytes> receive_packed(const Descriptor& socket, Clock::time_point deadline);

}  // namespace transport
