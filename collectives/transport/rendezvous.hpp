// Determines the rank of a process, the number of ranks, the address of rank 0 and the secret of the job,
// from environment variables set by mpirun, srun, torchrun or the user.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "collectives/transport/tcp/sockets.hpp"

namespace transport {

struct Membership {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  Address master;      ///< where rank 0 listens
  std::string job;     ///< ranks of different jobs reject each other
  std::string secret;  ///< proves that a process belongs to the job; needed if there are several
  int listener = -1;   ///< rank 0's socket that listens there already; -1: it creates one
  bool operator==(const Membership&) const = default;
};

/// Returns an environment variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The environment of this process.
std::optional<std::string> process_environment(const std::string& name);

struct Starter {
  std::string_view name;
  /// Returns nothing if the process was not started this way. Throws TransportError `VARIABLE: expected X,
  /// got Y`.
  std::optional<Membership> (*membership)(const Environment& environment);
};

/// In the order in which they are tried.
std::span<const Starter> starters();

/// Returns the membership of the first starter that detects its environment. The secret is that of
/// FUSEWISE_SECRET, or of the file FUSEWISE_SECRET_FILE, which only its owner can read.
std::optional<Membership> membership_of(const Environment& environment);

}  // namespace transport
