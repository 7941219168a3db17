#include "planner/job/recompute.hpp"

#include <algorithm>
#include <cmath>

namespace planner {
namespace {

constexpr std::int64_t kMaxLayers = 1'000'000;

std::vector<Segment> blocks_in(const core::Profile& profile) {
  std::vector<Segment> out;
  std::string_view last;
  for (std::uint32_t layer = 0; layer < profile.layers.size(); ++layer) {
    const std::string_view block = block_name(profile.layers[layer].name);
    if (!block.empty() && block == last)
      out.back().last = layer;
    else if (!block.empty())
      out.push_back({.first = layer, .last = layer});
    last = block;
  }
  return out;
}

void add_forward_to_backward(std::vector<core::ProfileLayer>& layers, const Segment& segment) {
  double us = 0;
  double device_us = 0;
  double host_us = 0;
  double spread_us = 0;
  bool has_device = false;
  for (std::uint32_t i = segment.first; i <= segment.last; ++i) {
    const core::ProfileLayer& layer = layers[i];
    us += layer.forward_us;
    device_us += layer.forward_device_us.value_or(layer.forward_us);
    host_us += layer.forward_host_us.value_or(0);
    spread_us = std::hypot(spread_us, layer.forward_spread_us.value_or(0));  // of a sum of independent times
    has_device = has_device || layer.forward_device_us;
  }
  core::ProfileLayer& last = layers[segment.last];
  if (has_device || last.backward_device_us)
    last.backward_device_us = last.backward_device_us.value_or(last.backward_us) + device_us;
  last.backward_us += us;
  if (last.backward_host_us) *last.backward_host_us += host_us;
  if (spread_us > 0) last.backward_spread_us = std::hypot(last.backward_spread_us.value_or(0), spread_us);
  // the last tensor's part of the backward pass comes first
  if (!last.tensors.empty() && last.tensors.back().backward_us) *last.tensors.back().backward_us += us;
}

}  // namespace

Recompute read_recompute(const core::Field& field) {
  if (field.is_object()) {
    field.allow_only({"layers"});
    return {.layers = field.at("layers").integer(1, kMaxLayers)};
  }
  (void)field.one_of({"blocks"});
  return {};
}

std::vector<Segment> segments_of(const core::Profile& profile, const Recompute& recompute) {
  if (recompute.layers == 0) return blocks_in(profile);
  std::vector<Segment> out;
  const auto count = static_cast<std::int64_t>(profile.layers.size());
  for (std::int64_t first = 0; first < count; first += recompute.layers)
    out.push_back({.first = static_cast<std::uint32_t>(first),
                   .last = static_cast<std::uint32_t>(std::min(first + recompute.layers, count) - 1)});
  return out;
}

core::Profile recomputed(core::Profile profile, const Recompute& recompute) {
  for (const Segment& segment : segments_of(profile, recompute))
    add_forward_to_backward(profile.layers, segment);
  return profile;
}

std::string_view block_name(std::string_view layer) {
  for (std::size_t begin = 0; begin < layer.size();) {
    const std::size_t end = std::min(layer.find('.', begin), layer.size());
    const std::string_view part = layer.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return layer.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace planner
