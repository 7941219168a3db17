// Which rank a process is, among how many, and where it finds the others: from the environment
// that mpirun, srun and torchrun give, or that a person has set.

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
  Address master;     ///< where rank 0 listens
  std::string job;    ///< ranks of different jobs refuse each other
  int listener = -1;  ///< rank 0's socket that listens there already; -1: it makes one
  bool operator==(const Membership&) const = default;
};

/// An environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's own.
std::optional<std::string> process_environment(const std::string& name);

struct Starter {
  std::string_view name;
  /// Nothing where a process was not started so. TransportError `VARIABLE: expected X, got Y`.
  std::optional<Membership> (*membership)(const Environment& environment);
};

/// In the order in which they are asked.
std::span<const Starter> starters();

/// Of the first starter that knows.
std::optional<Membership> membership_of(const Environment& environment);

}  // namespace transport
