#include "planner/run/held_memory.hpp"

#include <algorithm>

namespace planner {
namespace {

std::int64_t& of(MemoryBytes& bytes, MemoryPart part) { return bytes[static_cast<std::size_t>(part)]; }

}  // namespace

Memory summed(std::vector<MemoryChange> changes, bool has_activations) {
  std::ranges::stable_sort(changes, {}, &MemoryChange::at);
  Memory out;
  MemoryPoint now;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    now.at = changes[i].at;
    of(now.bytes, changes[i].part) += changes[i].bytes;
    if (i + 1 < changes.size() && changes[i + 1].at == now.at) continue;
    out.points.push_back(now);
    if (out.points.size() == 1 || total(now.bytes) > total(out.peak.bytes)) out.peak = {now, has_activations};
  }
  return out;
}

ElementBytes::ElementBytes(const DataTypes& types, core::Dtype usual)
    : profile(core::bytes_per_element(usual)),
      gradients(core::bytes_per_element(types.gradients.value_or(usual))),
      reduce(core::bytes_per_element(types.reduce.value_or(usual))),
      gather(core::bytes_per_element(types.gather.value_or(usual))),
      parameters(core::bytes_per_element(types.parameters.value_or(usual))) {}

std::int64_t gradient_bytes(const ElementBytes& element, Sharding sharding, bool is_added_up) {
  return sharding == Sharding::parameters && is_added_up ? element.reduce : element.gradients;
}

bool has_activations(const core::Profile& profile) {
  return std::ranges::all_of(
      profile.layers, [](const core::ProfileLayer& layer) { return layer.activation_bytes.has_value(); });
}

bool is_copied(const ElementBytes& element, const TransferCost& transfer, const Workload& workload,
               const Group& group, bool in_buffers) {
  if (transfer.is_encoded(payload_of(workload, group))) return true;
  if (element.reduce != element.gradients || transfer.transfer().pads_tensors) return true;
  return group.end - group.begin > 1 && !in_buffers;
}

MemoryBytes lasting_memory(const Conditions& conditions, core::Dtype usual, Sharding sharding,
                           std::int64_t all, std::int64_t own, std::int64_t frozen) {
  const DataTypes& types = conditions.data_types;
  const ElementBytes element(types, usual);
  const std::int64_t updated = types.master ? core::bytes_per_element(*types.master) : element.parameters;
  const std::int64_t mine = sharding == Sharding::nothing ? all : own;
  MemoryBytes out{};
  const std::int64_t trained = sharding == Sharding::parameters ? own : all;
  of(out, MemoryPart::parameters) = element.parameters * (trained + frozen);
  if (types.master) of(out, MemoryPart::master) = updated * mine;
  of(out, MemoryPart::optimizer) = conditions.memory->optimizer_states * updated * mine;
  return out;
}

}  // namespace planner
