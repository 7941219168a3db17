#include "planner/parallel/parts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace planner {
namespace {

using sim::Time;

double time_of(const core::ProfileLayer& layer) { return layer.forward_us + layer.backward_us; }

/// Layers that no cut divides by default.
struct Whole {
  std::int64_t layers = 0;
  double us = 0;
};

/// The blocks of the model, told by the names of its layers, and each layer outside of them.
std::vector<Whole> blocks_and_others(const core::Profile& profile) {
  std::vector<Whole> out;
  const std::vector<Segment> blocks = segments_of(profile, Recompute{});
  auto block = blocks.begin();
  for (std::uint32_t i = 0; i < profile.layers.size(); ++i) {
    while (block != blocks.end() && block->last < i) ++block;
    const bool is_inside = block != blocks.end() && block->first < i;
    if (!is_inside) out.emplace_back();
    ++out.back().layers;
    out.back().us += time_of(profile.layers[i]);
  }
  return out;
}

/// The number of layers of each part for the shortest longest part: a table over the numbers of parts and of
/// units before a cut.
std::vector<std::int64_t> even_cut(const std::vector<Whole>& units, std::size_t parts) {
  std::vector<double> before = {0};
  std::vector<std::int64_t> layers_before = {0};
  for (const Whole& unit : units) {
    before.push_back(before.back() + unit.us);
    layers_before.push_back(layers_before.back() + unit.layers);
  }
  const std::size_t count = units.size();
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> longest(parts + 1, std::vector<double>(count + 1, kNone));
  std::vector<std::vector<std::size_t>> from(parts + 1, std::vector<std::size_t>(count + 1));
  longest[0][0] = 0;
  for (std::size_t part = 1; part <= parts; ++part)
    for (std::size_t end = part; end <= count; ++end)
      for (std::size_t begin = end; begin-- > part - 1;) {
        const double value = std::max(longest[part - 1][begin], before[end] - before[begin]);
        if (value >= longest[part][end]) continue;
        longest[part][end] = value;
        from[part][end] = begin;
      }
  std::vector<std::int64_t> out(parts);
  std::size_t end = count;
  for (std::size_t part = parts; part > 0; --part) {
    out[part - 1] = layers_before[end] - layers_before[from[part][end]];
    end = from[part][end];
  }
  return out;
}

std::vector<std::int64_t> default_cut(const core::Profile& profile, std::size_t parts) {
  constexpr double kMaxSteps = 1e9;
  const std::vector<Whole> units = blocks_and_others(profile);
  const auto count = static_cast<double>(units.size());
  if (units.size() < parts)
    throw core::Unsupported(
        fmt::format(
            "the key layers, as the {} blocks and other layers of the model are fewer than its {} parts",
            units.size(), parts),
        "none", "/parallel/stages");
  if (count * count * static_cast<double>(parts) > kMaxSteps)
    throw core::Unsupported("the number of layers of each part, for a model of so many layers",
                            fmt::to_string(profile.layers.size()), "/parallel/stages");
  return even_cut(units, parts);
}

/// Gives the layers `us` in all, in proportion, or equal shares if they take no time.
void set_total(std::vector<core::ProfileLayer>& layers, double us, bool is_forward) {
  double total = 0;
  for (const core::ProfileLayer& layer : layers) total += is_forward ? layer.forward_us : layer.backward_us;
  for (core::ProfileLayer& layer : layers) {
    if (total == 0) {
      (is_forward ? layer.forward_us : layer.backward_us) = us / static_cast<double>(layers.size());
      if (!is_forward)
        for (core::ProfileTensor& tensor : layer.tensors) tensor.backward_us.reset();
      continue;
    }
    // a share is at most 1, while us / total may be infinite
    double& of_layer = is_forward ? layer.forward_us : layer.backward_us;
    of_layer = of_layer / total * us;
    if (!is_forward)
      for (core::ProfileTensor& tensor : layer.tensors)
        if (tensor.backward_us) tensor.backward_us = *tensor.backward_us / total * us;
  }
}

bool is_of_experts(const core::ProfileLayer& layer, const std::string& name, const Parallel& parallel) {
  if (parallel.expert == 1) return false;
  if (layer.kind == "experts") return true;
  return std::ranges::any_of(parallel.expert_tensors,
                             [&](const std::string& part) { return name.find(part) != std::string::npos; });
}

[[noreturn]] void refuse_tied(const std::string& expected, const std::string& got) {
  throw core::Unsupported(expected, got, "/parallel/tied_tensors");
}

void check_dense(const core::ProfileLayer& layer, const std::string& name, const Parallel& parallel) {
  if (is_of_experts(layer, name, parallel))
    refuse_tied("no tensors of experts", fmt::format("'{}'", core::printable(name)));
}

/// The tensor of this name in a layer of the first part.
const core::ProfileTensor& tied_tensor(const core::Profile& first, const std::string& name,
                                       const Parallel& parallel) {
  for (const core::ProfileLayer& layer : first.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) {
      if (tensor.name != name) continue;
      check_dense(layer, name, parallel);
      return tensor;
    }
  refuse_tied("tensors of the first part of the model", fmt::format("'{}'", core::printable(name)));
}

/// Gives the layer of the last part a copy of the tensor, whose gradient is ready with the layer's others.
void add_copy(const core::ProfileTensor& tensor, const std::string& name, const Parallel& parallel,
              core::Profile& last) {
  const auto layer = std::ranges::find(last.layers, name, &core::ProfileLayer::name);
  if (layer == last.layers.end())
    refuse_tied("layers of the last part of the model", fmt::format("'{}'", core::printable(name)));
  check_dense(*layer, tensor.name, parallel);
  core::ProfileTensor copy = tensor;
  copy.backward_us.reset();
  if (!layer->tensors.empty() && layer->tensors.front().backward_us) copy.backward_us = 0;
  // the first in the layer is the last in backward order
  layer->tensors.insert(layer->tensors.begin(), std::move(copy));
}

/// The workload with the gradients of these tensors alone.
template <typename Wanted>
Workload filtered(const Workload& workload, const Wanted& is_wanted) {
  Workload out = workload;
  out.gradients.clear();
  out.bytes_before = out.frozen_before = {0};
  for (const Gradient& gradient : workload.gradients) {
    const core::ProfileLayer& layer = workload.profile->layers[gradient.layer];
    if (is_wanted(layer, layer.tensors[gradient.tensor].name)) out.add(gradient);
  }
  return out;
}

}  // namespace

std::vector<core::Profile> parts_of(const core::Profile& profile, const Parallel& parallel,
                                    const std::optional<Recompute>& recompute) {
  const auto parts = static_cast<std::size_t>(parallel.parts());
  if (profile.layers.size() < parts)
    throw core::Unsupported(fmt::format("a model of at least {} layers, one for each part", parts),
                            fmt::to_string(profile.layers.size()), "/profile");
  std::vector<std::int64_t> counts = parallel.stages.layers;
  if (counts.empty()) counts = default_cut(profile, parts);
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum != static_cast<std::int64_t>(profile.layers.size()))
    throw core::Unsupported(fmt::format("the {} layers of the profile in all", profile.layers.size()),
                            fmt::to_string(sum), "/parallel/stages/layers");
  core::Profile without_layers = profile;
  without_layers.layers = {};
  without_layers.iteration.reset();
  std::vector<core::Profile> out;
  auto next = profile.layers.begin();
  for (const std::int64_t count : counts) {
    core::Profile part = without_layers;
    part.layers = {next, next + count};
    next += count;
    if (parallel.stages.forward_us) set_total(part.layers, *parallel.stages.forward_us, true);
    if (parallel.stages.backward_us) set_total(part.layers, *parallel.stages.backward_us, false);
    out.push_back(std::move(part));
  }
  for (const TiedTensor& each : parallel.tied_tensors)
    add_copy(tied_tensor(out.front(), each.tensor, parallel), each.layer, parallel, out.back());
  if (recompute)
    for (core::Profile& part : out) part = recomputed(std::move(part), *recompute);
  return out;
}

Workload gradients_of(const Workload& workload, const Parallel& parallel, bool of_experts) {
  Workload out = filtered(workload, [&](const core::ProfileLayer& layer, const std::string& name) {
    return is_of_experts(layer, name, parallel) == of_experts;
  });
  out.of_experts = of_experts;
  return out;
}

Time step_time(const Workload& workload, const BackwardStep& step, PassKind kind, double weight_share) {
  if (kind == PassKind::backward) return step.duration;
  const bool has_parameters = !workload.profile->layers[step.layer].tensors.empty();
  const Time weights = has_parameters
                           ? std::min(step.duration, sim::from_us(weight_share * sim::to_us(step.duration)))
                           : Time::zero();
  return kind == PassKind::weight_gradients ? weights : step.duration - weights;
}

Time backward_time(const Workload& workload, PassKind kind, double weight_share) {
  if (kind == PassKind::backward) return workload.backward_total;
  Time out{};
  for (const BackwardStep& step : workload.backward) out += step_time(workload, step, kind, weight_share);
  return out;
}

Workload weights_alone(Workload workload, double weight_share) {
  std::vector<Time> ends;
  workload.backward_total = Time::zero();
  for (BackwardStep& step : workload.backward) {
    step.duration = step_time(workload, step, PassKind::weight_gradients, weight_share);
    ends.push_back(workload.backward_total += step.duration);
  }
  for (Gradient& gradient : workload.gradients) gradient.ready = ends[gradient.backward_step];
  return workload;
}

Workload tied_gradients(const Workload& last, const Parallel& parallel) {
  return filtered(last, [&](const core::ProfileLayer& layer, const std::string& name) {
    return std::ranges::any_of(parallel.tied_tensors, [&](const TiedTensor& tied) {
      return tied.tensor == name && tied.layer == layer.name;
    });
  });
}

}  // namespace planner
