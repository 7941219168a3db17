// A channel that goes by layer (priority): no compact state describes a prefix, so groupings are simulated.

#include <algorithm>

#include "planner/choose/fusion/partitions.hpp"
#include "planner/choose/iteration_models.hpp"
#include "planner/choose/simulate_iteration.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// The only grouping has one group per partition, unless a plan file gives another.
class ByLayerModel final : public IterationModel {
 public:
  explicit ByLayerModel(const IterationSpec& spec) : spec_(spec) {}

  Time value(const Groups& groups) const override { return simulate_iteration(spec_, groups); }

  /// All compute, and the channel from the first gradient on, followed by at least one layer's forward pass.
  Time lower_bound() const override {
    const Workload& workload = spec_.workload;
    const Extras& extras = spec_.extras;
    const Time compute =
        extras.read + workload.forward_total + workload.backward_total + extras.lars + extras.lars_gather;
    if (!spec_.in_partitions || spec_.transfers.front().workers() == 1) return compute + extras.update;
    Time channel = workload.gradients.front().ready;
    for (const Group& part : partitions_of(workload, spec_.options.partition_bytes))
      channel = sim::after(channel, sim::after(sim::from_us(spec_.options.negotiation_us),
                                               spec_.transfers[part.transfer].time(
                                                   CollectiveKind::all_reduce, payload_of(workload, part))));
    return std::max(compute + extras.update, channel);
  }

  OptimalGroups optimal(const GroupRules& /*rules*/) const override {
    OptimalGroups out;
    out.groups = partitions_of(spec_.workload, spec_.options.partition_bytes);
    out.value = value(out.groups);
    return out;
  }

 private:
  const IterationSpec& spec_;
};

}  // namespace

std::unique_ptr<IterationModel> by_layer_model(const IterationSpec& spec) {
  return std::make_unique<ByLayerModel>(spec);
}

}  // namespace planner
