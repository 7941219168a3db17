// ZeRO-3 and FSDP: a worker keeps a shard of the parameters. A group's are gathered before the forward pass
// of its layers and again before their backward pass, `prefetch` groups ahead; its gradients are scattered
// after it, and each worker updates its shard.

#include <algorithm>
#include <array>

#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/schedule/fusion.hpp"
#include "planner/schedule/pipeline.hpp"
#include "planner/schedule/setting.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

constexpr std::array<std::string_view, 2> kKeys = {"prefetch", "reshard_after_forward"};

void read(const core::Field& field, PipelineOptions& options) {
  if (const auto ahead = field.find("prefetch"))
    options.prefetch = static_cast<std::uint32_t>(ahead->integer(0, kMaxPrefetch));
  if (const auto reshards = field.find("reshard_after_forward"))
    options.reshard_after_forward = reshards->boolean();
}

/// PyTorch's default keeps what backward needs at once: the last group of the forward pass.
bool is_gathered_again(std::uint32_t group, const PipelineOptions& options) {
  return options.reshard_after_forward.value_or(group > 0);
}

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program;
  program.prefetch = options.prefetch.value_or(1);
  for (std::uint32_t group = groups; group-- > 0;)
    program.ops.push_back({CollectiveKind::all_gather, group, Issue::forward, Delivers::own_pass});
  for (std::uint32_t group = 0; group < groups; ++group) {
    if (is_gathered_again(group, options))
      program.ops.push_back({CollectiveKind::all_gather, group, Issue::backward, Delivers::own_pass});
    program.ops.push_back(
        {CollectiveKind::reduce_scatter, group, Issue::gradients, Delivers::next_iteration});
  }
  return program;
}

/// What bounds a sharded iteration: all that its channel carries in a row with the update, and dear's, which
/// gathers once, without waiting for forward, and updates under it.
class Bound final : public IterationModel {
 public:
  explicit Bound(const FusionRequest& request) : request_(request), dear_(two_phase_model(request, true)) {}

  Time value(const Groups& groups) const override { return dear_->value(groups); }
  Time lower_bound() const override { return std::max(dear_->lower_bound(), in_a_row()); }
  OptimalGroups optimal(const GroupRules& rules) const override { return dear_->optimal(rules); }

 private:
  /// Less the compute of the micro-batches before the last, as any model's value.
  Time in_a_row() const {
    const std::int64_t batches = request_.setting.conditions.accumulation_steps;
    const std::int64_t passes = request_.options.reshard_after_forward.value_or(false) ? 2 : 1;
    const Time scattering = min_channel_time(request_, CollectiveKind::reduce_scatter).front();
    const Time gathering = min_channel_time(request_, CollectiveKind::all_gather).front();
    const Extras& extras = request_.extras;
    return extras.read + extras.lars + extras.lars_gather + extras.update + scattering +
           passes * batches * gathering -
           (batches - 1) * (request_.workload.forward_total + request_.workload.backward_total);
  }

  const FusionRequest& request_;
  std::unique_ptr<IterationModel> dear_;
};

/// Whole layers in so many groups of about as many bytes.
Groups even_groups(const Workload& workload, const Groups& layers, std::int64_t count) {
  Groups out;
  std::int64_t filled = 0;  // groups' worth of bytes
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

/// Runs of so many layers from the input side on, what is left over last.
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

/// Few groups, or layers cut nowhere, are often best: whole layers in two groups of any sizes, or in more
/// with as many bytes or layers each.
std::vector<Groups> starts(const Workload& workload) {
  constexpr std::size_t kMaxEven = 32;
  constexpr std::size_t kMaxLayers = 1000;  // each start takes a simulation
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

std::unique_ptr<IterationModel> model(const FusionRequest& request) {
  return simulated_model(request, std::make_unique<Bound>(request), starts(request.workload));
}

/// robust draws one micro-batch alone.
bool takes_fusion(std::string_view kind) { return kind != "robust"; }

}  // namespace

Pipeline sharded() {
  return {.name = "sharded",
          .summary = "gather parameters before forward and backward, reduce-scatter gradients (FSDP)",
          .option_keys = kKeys,
          .program = program,
          .model = model,
          .read = read,
          .takes_fusion = takes_fusion,
          .takes_compression = false};
}

}  // namespace planner
