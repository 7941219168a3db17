#include "planner/choose/iteration_models.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/choose/simulate_iteration.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// The bound that holds for any program: an iteration takes at least the compute of a worker. The search
/// begins with the groups that are optimal for a plain channel.
class ComputeBound final : public IterationModel {
 public:
  explicit ComputeBound(const IterationSpec& spec) : spec_(spec), channel_(channel_model(spec, false)) {}

  Time value(const Groups& groups) const override { return simulate_iteration(spec_, groups); }

  Time lower_bound() const override {
    const Extras& extras = spec_.extras;
    return extras.read + spec_.workload.forward_total + spec_.workload.backward_total + extras.lars +
           extras.lars_gather + extras.update;
  }

  OptimalGroups optimal(const GroupRules& rules) const override {
    OptimalGroups out;
    out.groups = channel_->optimal(rules).groups;
    out.value = lower_bound();
    return out;
  }

 private:
  const IterationSpec& spec_;
  std::unique_ptr<IterationModel> channel_;
};

}  // namespace

std::unique_ptr<IterationModel> make_model(const IterationSpec& spec) {
  Program program = spec.program(1);
  if (program.by_layer) return by_layer_model(spec);
  if (program.has_passes()) return sharded_model(spec);
  program.sharding = Sharding::nothing;  // what a worker holds takes no time
  const bool is_reduced_once = !std::exchange(program.reduces_each_batch, false) || spec.waited_batches == 0;
  const bool is_waiting = std::exchange(program.prefetch, std::nullopt).has_value();
  const auto is = [&](std::vector<Op> ops, Update update) {
    Program other;
    other.ops = std::move(ops);
    other.update = update;
    return program == other;
  };
  const Op reduced = {CollectiveKind::all_reduce, 0, Issue::gradients, Delivers::next_iteration};
  const Op reduced_later = {CollectiveKind::all_reduce, 0, Issue::backward_end, Delivers::next_iteration};
  const Op scattered = {CollectiveKind::reduce_scatter, 0, Issue::gradients, Delivers::nothing};
  const Op gathered = {CollectiveKind::all_gather, 0, Issue::updated, Delivers::next_iteration};
  const Op gathered_later = {CollectiveKind::all_gather, 0, Issue::drained, Delivers::own_layers};
  if (is_reduced_once && is({reduced}, Update::at_once)) return channel_model(spec, false);
  if (is_reduced_once && is({reduced_later}, Update::at_once)) return channel_model(spec, true);
  if (is({scattered, gathered}, Update::at_once)) return two_phase_model(spec, false);
  const Op summed = {CollectiveKind::all_reduce, 0, Issue::gradients, Delivers::nothing};
  if (is({summed, gathered}, Update::at_once)) return two_phase_model(spec, false, summed.kind);
  if (is({summed, gathered_later}, Update::by_group)) return two_phase_model(spec, true, summed.kind);
  if (is({scattered, gathered_later}, Update::by_group))
    return is_waiting ? waiting_gathers_model(spec) : two_phase_model(spec, true);
  return simulated_model(spec, std::make_unique<ComputeBound>(spec));
}

}  // namespace planner
