// Runs ranks as processes that talk over TCP on this host, for tests.

#pragma once

#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collectives/transport/launch.hpp"
#include "collectives/transport/local_job.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "collectives/transport/tcp/tcp.hpp"

namespace processes {

inline transport::TcpOptions patient() {
  return {.meeting = std::chrono::seconds(20),
          .deadline = std::chrono::seconds(20),
          .silence = std::chrono::seconds(15)};
}

/// Standard output and error of each rank are what it printed.
inline std::vector<transport::RankEnd> run(std::uint32_t size,
                                           const std::function<void(transport::Tcp&)>& rank,
                                           const transport::TcpOptions& options = patient(),
                                           transport::LaunchOptions launch = {}) {
  transport::LocalJob job(size);
  launch.limit = std::min(launch.limit, std::chrono::milliseconds(40'000));
  return transport::launch(
      size,
      [&](std::uint32_t number) {
        transport::run_rank(job.enter(number), options, rank);
        return 0;
      },
      launch);
}

/// Waits until the other side has closed the connection.
inline void wait_for_end(const transport::Descriptor& socket) {
  std::array<std::byte, 1> each{};
  while (read_all(socket, each, transport::Clock::now() + std::chrono::seconds(20))) {
  }
}

/// A process of a job that speaks for itself instead of using a transport.
struct ByHand {
  transport::Descriptor socket;
  transport::Nonces nonces;
  std::optional<transport::Answer> answer;  ///< none: it was not proved
};

/// Connects to rank 0 and says hello, as the rank that `own` says it is.
inline ByHand join_by_hand(const transport::Membership& own) {
  const auto deadline = transport::Clock::now() + std::chrono::seconds(20);
  ByHand out = {.socket = transport::connect_to(own.master, deadline), .nonces = {}, .answer = {}};
  const auto challenge = transport::receive_packed(out.socket, deadline);
  out.nonces = {.acceptor = transport::unpacked_challenge(challenge.value()).value().nonce,
                .connector = transport::random_nonce()};
  const transport::Handshake handshake = {.rank = own.rank,
                                          .size = own.size,
                                          .job = own.job,
                                          .process = transport::this_process(),
                                          .listens = {}};
  (void)send_packed(out.socket, pack_hello(handshake, own.secret, out.nonces), deadline);
  const auto said = transport::receive_packed(out.socket, deadline);
  const auto message = said ? opened(*said, own.secret, transport::Side::acceptor, out.nonces) : std::nullopt;
  if (message) out.answer = transport::unpacked_answer(*message);
  return out;
}

/// Returns whether no child process is left, not even a zombie.
inline bool no_child_left() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace processes
