// Parameters gathered before passes (sharded): no compact state describes a prefix, so groupings are
// simulated.

#include <algorithm>

#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/choose/iteration_models.hpp"
#include "planner/choose/model_parts.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// How often at least any group has this collective in an iteration.
std::int64_t min_runs(const IterationSpec& spec, CollectiveKind kind, std::int64_t micro_batches) {
  const Program program = spec.program(1);
  std::int64_t out = 0;
  for (const Op& op : program.ops)
    if (op.kind == kind) out += program.runs(op, static_cast<std::uint32_t>(micro_batches));
  return out;
}

/// Lower bounds of a sharded iteration: the sequential channel time plus the update; the same between shard
/// groups, after what comes before the first gradients; and the bound of dear, which gathers once, does not
/// wait for forward and updates during it.
class Bound final : public IterationModel {
 public:
  explicit Bound(const IterationSpec& spec) : spec_(spec), dear_(two_phase_model(spec, true)) {}

  Time value(const Groups& groups) const override { return dear_->value(groups); }
  Time lower_bound() const override {
    return std::max({dear_->lower_bound(), in_a_row(), between_shard_groups()});
  }
  OptimalGroups optimal(const GroupRules& rules) const override { return dear_->optimal(rules); }

 private:
  /// Excludes the compute of the micro-batches before the last, as the value of any model does.
  Time in_a_row() const {
    const std::int64_t batches = spec_.setting.conditions.accumulation_steps;
    const Time scattering = min_channel_time(spec_, CollectiveKind::reduce_scatter).front();
    const Time gathering = min_channel_time(spec_, CollectiveKind::all_gather).front();
    const Extras& extras = spec_.extras;
    return extras.read + extras.lars + extras.lars_gather + extras.update +
           min_runs(spec_, CollectiveKind::reduce_scatter, batches) * scattering +
           min_runs(spec_, CollectiveKind::all_gather, batches) * gathering -
           (batches - 1) * (spec_.workload.forward_total + spec_.workload.backward_total);
  }

  /// No sum over shard groups begins before the first gradients are ready and scattered.
  Time between_shard_groups() const {
    if (!spec_.program(1).has_channel_between()) return Time::zero();
    const Extras& extras = spec_.extras;
    return extras.read + spec_.workload.forward_total + spec_.workload.gradients.front().ready +
           min_channel_time(spec_, CollectiveKind::all_reduce).front() + extras.lars + extras.lars_gather +
           extras.update;
  }

  const IterationSpec& spec_;
  std::unique_ptr<IterationModel> dear_;
};

/// Whole layers in `count` groups of about equal bytes.
Groups even_groups(const Workload& workload, const Groups& layers, std::int64_t count) {
  Groups out;
  std::int64_t filled = 0;  // number of groups filled so far, by bytes
  for (const Group& layer : layers) {
    const std::int64_t due =
        workload.bytes_before[layer.begin] / std::max<std::int64_t>(1, workload.bytes() / count);
    if (out.empty() || due > filled)
      out.push_back(layer);
    else
      out.back().end = layer.end;
    filled = due;
  }
  return out;
}

/// Runs of `length` layers from the input side; the remainder comes last.
Groups runs_of_layers(const Groups& layers, std::size_t length) {
  Groups out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool begins = out.empty() || (layers.size() - i) % length == 0;
    if (begins)
      out.push_back(layers[i]);
    else
      out.back().end = layers[i].end;
  }
  return out;
}

/// Starts of the search. Few groups of whole layers are often best: two groups of any sizes, or more with
/// equal bytes or equal numbers of layers.
std::vector<Groups> starts(const Workload& workload) {
  constexpr std::size_t kMaxEven = 32;
  constexpr std::size_t kMaxLayers = 1000;  // each start takes one simulation
  Groups layers = layers_with_tensors(workload);
  std::reverse(layers.begin(), layers.end());
  std::vector<Groups> out;
  for (std::size_t count = 3; count <= kMaxEven; ++count)
    out.push_back(even_groups(workload, layers, static_cast<std::int64_t>(count)));
  if (layers.size() > kMaxLayers) return out;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    out.push_back(
        {{.begin = 0, .end = layers[i].begin}, {.begin = layers[i].begin, .end = workload.gradient_count()}});
    if (i * kMaxEven >= layers.size()) out.push_back(runs_of_layers(layers, i));
  }
  return out;
}

}  // namespace

std::unique_ptr<IterationModel> sharded_model(const IterationSpec& spec) {
  return simulated_model(spec, std::make_unique<Bound>(spec), starts(spec.workload));
}

}  // namespace planner
