// Ranks as processes connected by TCP: a full-duplex connection between every two ranks, and in each process
// a thread that sends, receives and monitors the others while the process computes. The ranks prove to each
// other that they know the secret of the job; what they send afterwards is neither encrypted nor signed.

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
  std::chrono::milliseconds meeting{30'000};  ///< until all ranks are connected
  /// For a receive, and for the last bytes when leaving. It grows by the time for which ranks wait for a
  /// processor, to at most four times itself.
  std::chrono::milliseconds deadline{60'000};
  /// A rank whose host does not answer for this long is lost. The kernel of that host answers: a rank that is
  /// stopped or gets no processor is not lost before the deadline, and a killed one is lost at once.
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
  std::chrono::nanoseconds scheduling_delay() override;

  /// Describes the connections of strangers that were dropped; empty if there were none.
  const std::string& strangers() const;

  /// Throws if a rank has failed; for callers that compute for long.
  void check() const;
  /// This rank cannot continue: the others throw `rank R (host, pid) has failed: {why}`.
  void fail(std::string_view why);
  /// Waits until everything sent has arrived. Nothing may be sent or received afterwards; unread messages are
  /// an error.
  void leave();

 private:
  /// Waits at most as long as the deadline. Beyond a limit, messages wait on the sender's host until they are
  /// asked for.
  Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override;

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
