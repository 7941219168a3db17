// Where NCCL changes protocol between two measured sizes that are far apart.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/network.hpp"

namespace traces {

/// The two ends of a jump of a curve: the last time of the protocol for small messages and the first one of
/// the protocol for larger messages.
struct ProtocolSwitch {
  std::size_t after = 0;  ///< the last measured size before it
  std::pair<double, double> before_jump;
  std::pair<double, double> after_jump;
};

/// Returns the jump of a curve that NCCL measured on GPUs with fast links, or none: where the size at which
/// NCCL's own estimates of its protocols cross lies between two sizes more than a factor of 2 apart, and the
/// lines beside them do not meet there. docs/networks.md has the rule and how well it does.
std::optional<ProtocolSwitch> protocol_switch(const std::vector<std::pair<double, double>>& points,
                                              core::CollectiveKind collective, std::int64_t workers);

}  // namespace traces
