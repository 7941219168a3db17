// Ranks as processes connected by TCP: a full-duplex connection between every two ranks, and in each process
// a thread that sends, receives and monitors the others while the process computes.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "collectives/transport/transport.hpp"

namespace transport {

struct TcpOptions {
  std::chrono::milliseconds meeting{30'000};   ///< until all ranks are connected
  std::chrono::milliseconds deadline{60'000};  ///< for a receive, and for the last bytes when leaving
  /// A rank that is silent for this long is lost: stopped, or disconnected. A killed one is detected at once.
  /// Time during which this process itself was stopped does not count.
  std::chrono::milliseconds silence{4'000};
  /// Limits outgoing and incoming traffic, each to this rate.
  std::optional<double> bytes_per_second;
  std::uint32_t version = kTcpVersion;  ///< version sent to others; changed only by tests
};

/// The first failure that a rank sees is reported to all others; their send and recv then throw an error that
/// names the rank (with host and process id) where it began. Messages that arrived before can still be
/// received.
class Tcp final : public Transport {
 public:
  /// All ranks call it; see connect_mesh(). Throws TransportError on failure.
  explicit Tcp(const Membership& membership, const TcpOptions& options = {});
  /// Without leave(), this rank counts as failed, and the others are told.
  ~Tcp() override;

  std::uint32_t rank() const override;
  std::uint32_t size() const override;
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override;
  /// Waits at most as long as the deadline.
  Bytes recv(std::uint32_t from, std::uint32_t tag) override;

  const Process& process(std::uint32_t rank) const;

  /// Throws if a rank has failed; for callers that compute for long.
  void check() const;
  /// This rank cannot continue: the others throw `rank R (host, pid) has failed: {why}`.
  void fail(std::string_view why);
  /// Waits until everything sent has arrived. Nothing may be sent or received afterwards; unread messages are
  /// an error.
  void leave();

 private:
  class Links;
  std::unique_ptr<Links> links_;
};

/// Runs `rank` with its own transport, and leaves; exceptions are reported to the other ranks.
template <typename Rank>
void run_rank(const Membership& membership, const TcpOptions& options, const Rank& rank) {
  Tcp end(membership, options);
  try {
    rank(end);
    end.leave();
  } catch (const std::exception& error) {
    end.fail(error.what());
    throw;
  }
}

}  // namespace transport
