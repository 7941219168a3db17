// Runs ranks as processes that talk over TCP on this host, for tests.

#pragma once

#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "collectives/transport/launch.hpp"
#include "collectives/transport/tcp/tcp.hpp"

namespace processes {

inline transport::TcpOptions patient() {
  return {.meeting = std::chrono::seconds(20),
          .deadline = std::chrono::seconds(20),
          .silence = std::chrono::seconds(15)};
}

/// The address at which rank 0 will listen: it receives the open socket, so that nobody can take the port in
/// between.
struct Meeting {
  transport::Descriptor listener = transport::listen_on({.host = "127.0.0.1", .port = 0});
  transport::Address address = transport::local_address(listener);

  transport::Membership of(std::uint32_t rank, std::uint32_t size) const {
    return {.rank = rank,
            .size = size,
            .master = address,
            .job = "test",
            .listener = rank == 0 ? listener.get() : -1};
  }
};

/// Standard output and error of each rank are what it printed.
inline std::vector<transport::RankEnd> run(std::uint32_t size,
                                           const std::function<void(transport::Tcp&)>& rank,
                                           const transport::TcpOptions& options = patient(),
                                           transport::LaunchOptions launch = {}) {
  const Meeting meeting;
  launch.limit = std::min(launch.limit, std::chrono::milliseconds(40'000));
  return transport::launch(
      size,
      [&](std::uint32_t number) {
        transport::run_rank(meeting.of(number, size), options, rank);
        return 0;
      },
      launch);
}

/// Returns whether no child process is left, not even a zombie.
inline bool no_child_left() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace processes
