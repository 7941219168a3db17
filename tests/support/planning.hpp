// Profiles, networks and settings from short literals and from seeds.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/field.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/run/predict.hpp"
#include "planner/schedule/schedule.hpp"
#include "tests/support/random.hpp"

namespace support {

struct LayerSpec {
  double forward_us = 0;
  double backward_us = 0;
  std::vector<std::int64_t> elements = {};  ///< of each tensor
  std::vector<double> parts_us = {};        ///< of backward_us, of each tensor; empty: not known
};

/// Layers l1, l2, ... with tensors l1.a, l1.b, ..., in float32.
inline core::Profile profile_of(const std::vector<LayerSpec>& layers) {
  core::Profile profile = {.model = "m", .batch_size = 8, .device = "d"};
  for (const LayerSpec& spec : layers) {
    core::ProfileLayer layer = {.name = fmt::format("l{}", profile.layers.size() + 1),
                                .kind = "k",
                                .forward_us = spec.forward_us,
                                .backward_us = spec.backward_us};
    for (std::size_t i = 0; i < spec.elements.size(); ++i) {
      layer.tensors.push_back({.name = fmt::format("{}.{}", layer.name, static_cast<char>('a' + i)),
                               .elements = spec.elements[i]});
      if (!spec.parts_us.empty()) layer.tensors.back().backward_us = spec.parts_us[i];
    }
    profile.layers.push_back(std::move(layer));
  }
  return profile;
}

/// A profile with these tensors (names and elements) in forward order, each with 100 us of backward and 10 us
/// of forward.
inline core::Profile named(const std::vector<std::pair<std::string, std::int64_t>>& tensors) {
  std::vector<LayerSpec> layers;
  for (const auto& [name, elements] : tensors)
    layers.push_back({.forward_us = 10, .backward_us = 100, .elements = {elements}});
  core::Profile profile = profile_of(layers);
  for (std::size_t i = 0; i < tensors.size(); ++i) profile.layers[i].tensors[0].name = tensors[i].first;
  return profile;
}

/// One tensor per layer: gradients of these bytes (multiples of 4) in backward order, each ready this long
/// after the previous one, without forward time.
inline core::Profile gradients_of(const std::vector<std::pair<double, std::int64_t>>& backward_and_bytes) {
  std::vector<LayerSpec> layers;
  for (const auto& [backward_us, bytes] : backward_and_bytes)
    layers.insert(layers.begin(), {.backward_us = backward_us, .elements = {bytes / 4}});
  return profile_of(layers);
}

inline core::Network link_of(double alpha_us, double beta_us_per_byte, double gamma_us_per_byte = 0) {
  return {.name = "n",
          .link = core::Link{.alpha_us = alpha_us,
                             .beta_us_per_byte = beta_us_per_byte,
                             .gamma_us_per_byte = gamma_us_per_byte}};
}

/// On 2 workers an all-reduce of M bytes takes startup + M us_per_byte, each half of it half as long.
inline core::Network pair_of(double startup_us, double us_per_byte) {
  return link_of(startup_us / 2, us_per_byte);
}

/// Every collective follows the same curve on 2 workers.
inline core::Network measured_of(const std::vector<std::pair<double, double>>& curve) {
  core::Network network = {.name = "n"};
  for (const auto kind : {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
                          core::CollectiveKind::all_gather})
    network.measured.push_back({.collective = kind, .workers = 2, .curve = core::CostCurve::through(curve)});
  return network;
}

/// A setting with the profile and network that it refers to.
struct Scene {
  core::Profile profile;
  core::Network network;
  planner::Setting setting;

  Scene(core::Profile its_profile, core::Network its_network, std::int64_t workers = 2,
        const planner::Conditions& conditions = {}, const planner::Algorithm& algorithm = {})
      : profile(std::move(its_profile)),
        network(std::move(its_network)),
        setting(profile, network, workers, algorithm, conditions) {}
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  planner::Run run(const planner::Schedule& schedule) const { return planner::run(setting, schedule); }
};

/// Reads a schedule as in a scenario: `"ddp"` with its quotes, or an object.
inline planner::Schedule schedule_of(const std::string& json) {
  return planner::read_schedule(core::Field::parse(json, "s.json"));
}

/// Up to `max_layers` layers of up to 3 tensors, some without any, some with parts of their backward time.
inline core::Profile random_profile(Random& random, std::uint32_t max_layers) {
  std::vector<LayerSpec> layers(1 + random.below(max_layers));
  for (LayerSpec& layer : layers) {
    layer.forward_us = static_cast<double>(random.below(300)) / 4;
    for (std::uint32_t tensors = random.below(4); tensors-- > 0;)
      layer.elements.push_back(random.one_in(3) ? random.between(1, 9) : random.between(1, 4000));
    layer.backward_us = static_cast<double>(random.below(600)) / 4;
    if (layer.elements.empty() || random.one_in(2)) continue;
    layer.backward_us = 0;
    for (std::size_t i = 0; i < layer.elements.size(); ++i) {
      layer.parts_us.push_back(static_cast<double>(random.below(200)) / 4);
      layer.backward_us += layer.parts_us.back();
    }
  }
  layers[random.below(static_cast<std::uint32_t>(layers.size()))] = {
      .forward_us = 1.5, .backward_us = 2.25, .elements = {random.between(1, 4000)}};
  return profile_of(layers);
}

inline core::Network random_link(Random& random) {
  const double alpha = random.one_in(5) ? 0 : static_cast<double>(random.below(4000)) / 64;
  const double beta = random.one_in(5) ? 0 : static_cast<double>(random.below(4000)) / 65536;
  return link_of(alpha, beta, static_cast<double>(random.below(100)) / 65536);
}

inline planner::Conditions random_conditions(Random& random) {
  planner::Conditions out;
  out.accumulation_steps = random.between(1, 3);
  out.read_us = static_cast<double>(random.one_in(2) ? 0 : random.below(500));
  out.read_is_overlapped = random.one_in(2);
  out.optimizer_us = static_cast<double>(random.one_in(2) ? 0 : random.below(90));
  out.lars_us = static_cast<double>(random.one_in(2) ? 0 : random.below(90));
  out.parallel_tensor_operator = random.one_in(2);
  if (random.one_in(3)) out.stragglers = {{.worker = random.between(0, 3), .slowdown = 1.5}};
  return out;
}

/// A compressor as in a scenario, with costs of the order of random_link()'s.
inline std::string random_compressor(Random& random, const char* collective) {
  const auto cost = [&] {
    if (random.one_in(4)) return std::string("{}");
    return fmt::format(R"({{"startup_us": {}, "us_per_byte": {}, "floor_us": {}}})", random.below(30),
                       static_cast<double>(random.below(40)) / 1024, random.one_in(2) ? 0 : random.below(60));
  };
  const double ratio = static_cast<double>(random.between(1, 100)) / 128;
  const std::string encode = cost();
  return fmt::format(R"({{"name": "x", "ratio": {}, "encode": {}, "decode": {}, "collective": "{}"}})", ratio,
                     encode, cost(), collective);
}

/// Slow-down in one direction, in the other, in both or in neither.
inline planner::Overlap random_overlap(Random& random) {
  const auto slowdown = [&] { return random.one_in(3) ? 0 : static_cast<double>(random.below(64)) / 32; };
  const double compute = slowdown();
  return {.compute_slowdown = compute, .communication_slowdown = slowdown()};
}

}  // namespace support
