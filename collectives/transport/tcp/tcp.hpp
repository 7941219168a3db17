// Ranks as processes that talk over TCP: a full-duplex connection between every two, and in each process a
// thread that sends, receives and watches the others while the process computes.

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
  std::chrono::milliseconds meeting{30'000};   ///< until all are there
  std::chrono::milliseconds deadline{60'000};  ///< of a receive, and for the last bytes when leaving
  /// A rank that is not heard of for so long is lost: stopped, or cut off. One that was killed is at once.
  /// The time during which the listener was itself stopped does not count.
  std::chrono::milliseconds silence{4'000};
  /// What goes out, and what comes in, is held to this rate.
  std::optional<double> bytes_per_second;
  std::uint32_t version = kTcpVersion;  ///< said to others; another one is for tests
};

/// The first failure that a rank sees is told to all others; each one's send and recv then throw, naming the
/// rank (with host and process id) where it began. Messages that came before are received all the same.
class Tcp final : public Transport {
 public:
  /// All ranks call it; see meet(). TransportError where it fails.
  explicit Tcp(const Membership& membership, const TcpOptions& options = {});
  /// Without leave(), this rank has failed, and the others learn it.
  ~Tcp() override;

  std::uint32_t rank() const override;
  std::uint32_t size() const override;
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override;
  /// At most for as long as the deadline says.
  Bytes recv(std::uint32_t from, std::uint32_t tag) override;

  const Process& process(std::uint32_t rank) const;

  /// Throws if a rank has failed; for those who compute for long.
  void check() const;
  /// This rank cannot go on: the others throw `rank R (host, pid) has failed: {why}`.
  void fail(std::string_view why);
  /// Done: what was sent has arrived. Nothing is sent or received afterwards; unread messages are an error.
  void leave();

 private:
  class Links;
  std::unique_ptr<Links> links_;
};

/// Runs `rank` with an end of its own, and leaves; what it throws the others learn.
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
