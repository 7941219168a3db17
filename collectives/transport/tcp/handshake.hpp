// The messages with which processes introduce themselves before they are ranks of one job.

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

/// Increases whenever the format of messages between ranks changes.
constexpr std::uint32_t kTcpVersion = 1;

/// A process as error messages name it.
struct Process {
  std::string host;
  std::int64_t pid = 0;
  bool operator==(const Process&) const = default;
};

/// "rank 2 (host h, pid 77)"
std::string name(std::uint32_t rank, const Process& process);

Process this_process();

/// The first message on a connection.
struct Handshake {
  std::uint32_t version = kTcpVersion;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string job;
  Process process;
  Address listens;  ///< for ranks above its own
  bool operator==(const Handshake&) const = default;
};

/// Rank 0's answer when all ranks are present: every rank's Handshake, indexed by rank.
using Roster = std::vector<Handshake>;
/// Rank 0's answer if the job cannot start, with the reason.
struct Rejection {
  std::string why;
  bool operator==(const Rejection&) const = default;
};
using Answer = std::variant<Roster, Rejection>;

Bytes packed(const Handshake& handshake);
Bytes packed(const Answer& answer);
/// Returns nothing if the bytes are not a handshake.
std::optional<Handshake> unpacked_handshake(std::span<const std::byte> bytes);
std::optional<Answer> unpacked_answer(std::span<const std::byte> bytes);

/// Adds magic number and length. Returns false, or nothing, if the connection is closed, times out, or is not
/// from fusewise.
bool send_packed(const Descriptor& socket, const Bytes& bytes, Clock::time_point deadline);
std::optional<Bytes> receive_packed(const Descriptor& socket, Clock::time_point deadline);

}  // namespace transport
