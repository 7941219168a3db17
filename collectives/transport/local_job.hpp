// A job whose processes one process of this host starts: they inherit its secret and the place of their
// meeting.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/descriptor.hpp"
#include "collectives/transport/tcp/tcp.hpp"

namespace transport {

class LocalJob {
 public:
  /// On loopback: the socket on which rank 0 will listen is open already, at a port that the system has
  /// chosen.
  explicit LocalJob(std::uint32_t size);
  /// In a network of its own, where rank 0 has the address `host`; at a random port, as other jobs may use
  /// it.
  LocalJob(std::uint32_t size, const std::string& host);

  /// Returns the membership of a rank. To be called once, in the process of that rank.
  Membership enter(std::uint32_t rank);
  /// Closes the listening socket. To be called when the ranks have been started.
  void close() { listener_.reset(); }

  const Address& master() const { return common_.master; }

 private:
  Membership common_;
  Descriptor listener_;
};

/// The launcher notices if a process of the job ends; so the others may take as long to come as `deadline`
/// may grow.
inline TcpOptions options_of_local_job(TcpOptions options) {
  options.meeting = std::max<std::chrono::milliseconds>(options.meeting, 4 * options.deadline);
  return options;
}

}  // namespace transport
