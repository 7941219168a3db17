#include "profiler/traces/kineto/layers.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/shapes.hpp"
#include "profiler/traces/kineto/used_steps.hpp"

namespace kineto {
namespace {

constexpr double kNsPerUs = 1000;

/// "aten::relu_" -> "relu"
std::string kind_of(std::string name) {
  const std::size_t space = name.rfind("::");
  if (space != std::string::npos) name.erase(0, space + 2);
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.empty() ? "operator" : name;
}

/// "nn.Module: Conv2d_0" -> "Conv2d_0"; operators are numbered within a step, because they have no other
/// name.
class Names {
 public:
  std::string next(const Trace& trace, const Call& call) {
    constexpr std::size_t kPrefix = 11;  // length of "nn.Module: "
    if (!call.is_module) {
      const std::string kind = kind_of(trace.texts[call.name]);
      return unique(fmt::format("{}_{}", kind, ++count_[kind]));
    }
    return unique(trace.texts[call.name].substr(kPrefix));
  }

 private:
  std::string unique(const std::string& name) {
    const int use = ++uses_[name];
    return use == 1 ? name : unique(fmt::format("{}#{}", name, use));
  }

  std::map<std::string, int> count_;
  std::map<std::string, int> uses_;
};

/// The times of calls of the same layer: kernels alone, or with the waits for their launch.
std::vector<double> times(const std::vector<const Call*>& calls, std::int64_t Call::*kernels,
                          std::int64_t Call::*wait = nullptr) {
  std::vector<double> out;
  out.reserve(calls.size());
  for (const Call* call : calls)
    out.push_back(static_cast<double>(call->*kernels + (wait == nullptr ? 0 : call->*wait)) / kNsPerUs);
  return out;
}

core::ProfileLayer timed_layer(const std::vector<const Call*>& same) {
  const std::vector<double> forward = times(same, &Call::forward_ns, &Call::forward_wait_ns);
  const std::vector<double> backward = times(same, &Call::backward_ns, &Call::backward_wait_ns);
  core::ProfileLayer layer = {
      .name = {}, .kind = {}, .forward_us = median(forward), .backward_us = median(backward)};
  layer.forward_device_us = std::min(layer.forward_us, median(times(same, &Call::forward_ns)));
  layer.backward_device_us = std::min(layer.backward_us, median(times(same, &Call::backward_ns)));
  layer.forward_host_us = median(times(same, &Call::forward_host_ns));
  layer.backward_host_us = median(times(same, &Call::backward_host_ns));
  if (same.size() > 1) {
    layer.forward_spread_us = spread(forward);
    layer.backward_spread_us = spread(backward);
  }
  return layer;
}

/// Weights have two dimensions or more; the first of a norm's two vectors is its weight.
std::string role(const Trace& trace, const Gradient& gradient, const std::string& kind, std::size_t nth) {
  const auto shapes = shapes_of(trace.texts[gradient.shapes]);
  const bool is_norm = kind.find("norm") != std::string::npos;
  const bool is_matrix = !shapes.empty() && shapes.front().size() > 1;
  return is_matrix || ((is_norm || shapes.empty()) && nth == 0) ? "weight" : "bias";
}

/// The last tensor to be ready comes first: backward processes tensors from the last to the first.
void add_tensors(const Trace& trace, const std::vector<const Call*>& calls, core::ProfileLayer& layer) {
  const Call& like = *calls.front();
  std::map<std::string, int> uses;
  double sum = 0;
  for (std::size_t nth = like.gradients.size(); nth-- > 0;) {
    std::vector<double> parts;
    parts.reserve(calls.size());
    for (const Call* call : calls) parts.push_back(static_cast<double>(call->gradients[nth].ns) / kNsPerUs);
    const std::string part_of = role(trace, like.gradients[nth], layer.kind, like.gradients.size() - 1 - nth);
    const int use = ++uses[part_of];
    layer.tensors.push_back(
        {.name = fmt::format("{}.{}{}", layer.name, part_of, use > 1 ? fmt::format("#{}", use) : ""),
         .elements = like.gradients[nth].elements,
         .backward_us = median(parts)});
    sum += *layer.tensors.back().backward_us;
  }
  if (layer.tensors.empty()) return;
  // The medians of parts need not add up to the median of the whole, so they are scaled to it.
  for (core::ProfileTensor& tensor : layer.tensors)
    tensor.backward_us = sum > 0 ? *tensor.backward_us / sum * layer.backward_us
                                 : layer.backward_us / static_cast<double>(layer.tensors.size());
}

}  // namespace

Layers find_layers(const Trace& trace, const Calls& calls, const std::vector<std::int32_t>& steps) {
  Layers out;
  if (steps.empty()) return out;
  const CallsByStep by_step = calls_by_step(calls);
  Names names;
  const std::vector<const Call*>& like = by_step[static_cast<std::size_t>(steps.front())];
  for (std::size_t nth = 0; nth < like.size(); ++nth) {
    std::vector<const Call*> same;
    for (const std::int32_t step : steps) same.push_back(by_step[static_cast<std::size_t>(step)][nth]);
    core::ProfileLayer layer = timed_layer(same);
    layer.name = names.next(trace, *like[nth]);
    layer.kind = kind_of(trace.texts[like[nth]->operation]);
    add_tensors(trace, same, layer);
    out.has_backward = out.has_backward || like[nth]->has_backward;
    if (!like[nth]->has_backward) ++out.without_backward;
    out.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace kineto
