// The cost of a collective on a number of workers: the measured cost if there is one, otherwise the closed
// form.

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

/// A warning for the user about a cost that was used.
struct Warning {
  std::string subject;  ///< of several warnings with the same subject, only the one with the greatest weight
                        ///< is reported
  double weight = 0;
  std::string text;
  std::int64_t workers = 0;    ///< that the text is about, if the subject is not
  std::string_view also = {};  ///< how it holds for other numbers of workers with a smaller weight
};

/// The part of a network that `workers` (at least two) span. `what` names the requester in messages; with
/// `needs_nodes` it requires full nodes. Throws Unsupported if the network has neither a link nor levels.
Fabric fabric_of(const core::Network& network, std::int64_t workers, std::string_view what, bool needs_nodes);

/// The costs of one network, number of workers and algorithm; computed on first use.
class Costs {
 public:
  /// `network` must outlive this object.
  Costs(const core::Network& network, std::int64_t workers, Algorithm algorithm);

  std::int64_t workers() const { return workers_; }
  const Algorithm& algorithm() const { return algorithm_; }

  /// Throws Unsupported. With one worker every cost is zero.
  const CollectiveCost& of(core::CollectiveKind kind) const {
    const std::optional<CollectiveCost>& known = known_[static_cast<std::size_t>(kind)];
    return known ? *known : work_out(kind);
  }

  /// Warnings about collectives with these sizes, whole numbers: times below the physical bound,
  /// extrapolation.
  std::vector<Warning> warnings(core::CollectiveKind kind, const std::vector<double>& sizes) const;

 private:
  const CollectiveCost& work_out(core::CollectiveKind kind) const;

  const core::Network* network_;
  std::int64_t workers_;
  Algorithm algorithm_;
  mutable std::array<std::optional<CollectiveCost>, 3> known_;
};

}  // namespace planner
