// The messages with which processes introduce themselves before they are ranks of one job.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "collectives/transport/tcp/secret.hpp"
#include "collectives/transport/tcp/sockets.hpp"
#include "collectives/transport/transport.hpp"

namespace transport {

/// Increases whenever the format of messages between ranks changes.
constexpr std::uint32_t kTcpVersion = 2;

/// A process as error messages name it.
struct Process {
  std::string host;
  std::int64_t pid = 0;
  bool operator==(const Process&) const = default;
};

/// "rank 2 (host h, pid 77)"
std::string name(std::uint32_t rank, const Process& process);

Process this_process();

/// The first message on a connection, from the process that has accepted it.
struct Challenge {
  std::uint32_t version = kTcpVersion;
  Nonce nonce{};
  bool operator==(const Challenge&) const = default;
};

/// Sent by the connecting process, with its nonce and its proof; see pack_hello().
struct Handshake {
  std::uint32_t version = kTcpVersion;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string job;
  Process process;
  Address listens;  ///< for ranks above its own
  bool operator==(const Handshake&) const = default;
};

/// Rank 0's answer when all ranks are present: every rank's Handshake, indexed by rank. Another rank answers
/// with its own alone.
using Roster = std::vector<Handshake>;
/// Rank 0's answer if the job cannot start, with the reason.
struct Rejection {
  std::string why;
  bool operator==(const Rejection&) const = default;
};
using Answer = std::variant<Roster, Rejection>;

Bytes packed(const Challenge& challenge);
Bytes packed(const Handshake& handshake);
Bytes packed(const Answer& answer);
/// Returns nothing if the bytes are not a challenge, a handshake or an answer. Of another version's challenge
/// only the version is read.
std::optional<Challenge> unpacked_challenge(std::span<const std::byte> bytes);
std::optional<Handshake> unpacked_handshake(std::span<const std::byte> bytes);
std::optional<Answer> unpacked_answer(std::span<const std::byte> bytes);

/// Appends the proof of this side.
Bytes sealed(Bytes message, const std::string& secret, Side side, const Nonces& nonces);
/// Returns the message without its proof; nothing if the proof is wrong.
std::optional<std::span<const std::byte>> opened(std::span<const std::byte> sealed, const std::string& secret,
                                                 Side side, const Nonces& nonces);

/// A handshake followed by the connector's nonce, sealed.
Bytes pack_hello(const Handshake& handshake, const std::string& secret, const Nonces& nonces);

/// A hello as its receiver judges it.
struct Hello {
  std::optional<std::uint32_t> version;  ///< read before anything is proved
  Nonces nonces;
  std::optional<Handshake> handshake;  ///< set if it is proved
};
Hello read_hello(std::span<const std::byte> bytes, const std::string& secret, const Nonce& challenge);

/// Every message is preceded by a magic number and its length, in this many bytes.
constexpr std::size_t kFrontBytes = 16;
/// Returns the length; nothing if the magic number is wrong.
std::optional<std::uint64_t> length_after(std::span<const std::byte, kFrontBytes> front);

/// The maximum length of a hello, and of other messages.
constexpr std::size_t kMaxHelloBytes = 4096;
constexpr std::size_t kMaxAnswerBytes = 1 << 22;

/// Adds and removes the front. Returns false, or nothing, if the connection is closed, times out, or is not
/// from fusewise. Memory grows with what arrives.
bool send_packed(const Descriptor& socket, const Bytes& bytes, Clock::time_point deadline);
std::optional<Bytes> receive_packed(const Descriptor& socket, Clock::time_point deadline);

}  // namespace transport
