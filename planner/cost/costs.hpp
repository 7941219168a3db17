// What a collective costs a given number of workers: measured where it was measured, else the closed form.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/errors.hpp"
#include "core/network.hpp"
#include "planner/cost/collectives.hpp"
#include "sim/time.hpp"

namespace planner {

using core::Unsupported;

struct CollectiveCost {
  core::CostCurve curve;
  double sent_per_byte = 0;  ///< bytes a worker sends per byte of the message, mean over workers
  bool is_measured = false;

  sim::Time time(std::int64_t bytes) const { return sim::from_us(curve.us(static_cast<double>(bytes))); }
};

/// Something to tell the user about a cost that was used.
struct Warning {
  std::string subject;  ///< of doubts about the same, the one with the greatest weight is told
  double weight = 0;
  std::string text;
};

/// The part of a network that so many workers, at least two, span. `what` wants to know it, and with
/// `needs_nodes` that workers fill nodes. Throws Unsupported where the network has neither link nor levels.
Fabric fabric_of(const core::Network& network, std::int64_t workers, std::string_view what, bool needs_nodes);

/// The costs of one network, number of workers and algorithm; worked out when first asked for.
class Costs {
 public:
  /// `network` must outlive this.
  Costs(const core::Network& network, std::int64_t workers, Algorithm algorithm);

  std::int64_t workers() const { return workers_; }
  const Algorithm& algorithm() const { return algorithm_; }

  /// Throws Unsupported. For one worker everything costs nothing.
  const CollectiveCost& of(core::CollectiveKind kind) const {
    const std::optional<CollectiveCost>& known = known_[static_cast<std::size_t>(kind)];
    return known ? *known : work_out(kind);
  }

  /// About collectives of these sizes: times under the physical bound, extrapolations.
  std::vector<Warning> warnings(core::CollectiveKind kind, const std::vector<std::int64_t>& sizes) const;

 private:
  const CollectiveCost& work_out(core::CollectiveKind kind) const;

  const core::Network* network_;
  std::int64_t workers_;
  Algorithm algorithm_;
  mutable std::array<std::optional<CollectiveCost>, 3> known_;
};

}  // namespace planner
