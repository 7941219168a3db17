// Brings the processes of a job together: afterwards each has a connection to every other.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/handshake.hpp"

namespace transport {

struct Mesh {
  std::vector<Process> processes;   ///< by rank
  std::vector<Descriptor> sockets;  ///< by rank; none to itself
};

/// All ranks call it. Rank 0 takes everybody's Hello; a wrong version, size, rank or job, or one that does
/// not come by the deadline, is a TransportError on every rank that is there, which says who it is.
Mesh meet(const Membership& membership, Clock::time_point deadline, std::uint32_t version = kTcpVersion);

}  // namespace transport
