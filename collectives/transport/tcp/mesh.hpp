// Connects the processes of a job: afterwards each has a connection to every other.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/door.hpp"
#include "collectives/transport/tcp/handshake.hpp"

namespace transport {

struct Mesh {
  std::vector<Process> processes;   ///< indexed by rank
  std::vector<Descriptor> sockets;  ///< indexed by rank; none to itself
  Strangers strangers;              ///< who connected to this process, and was dropped
};

/// All ranks call it. Rank 0 collects everybody's Handshake. Both sides of every connection prove that they
/// know the secret; who does not is a stranger. A wrong size or rank of a process of the job, or a rank that
/// is missing at the deadline, is a TransportError on every connected rank, which names the cause.
Mesh connect_mesh(const Membership& membership, Clock::time_point deadline,
                  std::uint32_t version = kTcpVersion);

}  // namespace transport
