#include "planner/scenarios/links.hpp"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "core/limits.hpp"
#include "planner/scenarios/limits.hpp"
#include "planner/scenarios/stragglers.hpp"

namespace scenarios {
namespace {

using cluster::LinkSpec;
using cluster::TopologyKind;
using cluster::TopologySpec;
using core::Field;
using core::kMaxTimeUs;
using core::kMaxWorkers;
using planner::Fidelity;

constexpr double kMaxFactor = 1e6;

template <typename Value, std::size_t kCount>
Value choice(const Field& field, const std::array<std::pair<std::string_view, Value>, kCount>& table) {
  std::vector<std::string_view> names;
  names.reserve(kCount);
  for (const auto& [name, value] : table) names.push_back(name);
  const std::string chosen = field.one_of(names);
  for (const auto& [name, value] : table)
    if (name == chosen) return value;
  return table.front().second;
}

double number(const Field& field, std::string_view key, double otherwise, double max) {
  const auto found = field.find(key);
  return found ? found->number(0, max) : otherwise;
}

std::uint32_t count(const Field& field, std::string_view key, std::uint32_t otherwise) {
  const auto found = field.find(key);
  return found ? static_cast<std::uint32_t>(found->integer(1, kMaxWorkers)) : otherwise;
}

bool flag(const Field& field, std::string_view key) {
  const auto found = field.find(key);
  return found && found->boolean();
}

LinkSpec link(const Field& field, std::string_view key) {
  const auto found = field.find(key);
  if (!found) return {};
  found->allow_only({"latency_us", "bandwidth_gbps"});
  return read_link(*found);
}

TopologySpec read_custom(const Field& field) {
  field.allow_only({"kind", "startup_us", "links", "workers_at", "routes"});
  return {.kind = TopologyKind::custom,
          .startup_us = number(field, "startup_us", 0, kMaxTimeUs),
          .graph = std::make_shared<cluster::Graph>(read_graph(field))};
}

TopologySpec read_topology(const Field& field) {
  static constexpr std::array<std::pair<std::string_view, TopologyKind>, 6> kKinds = {
      {{"custom", TopologyKind::custom},
       {"direct", TopologyKind::direct},
       {"flat", TopologyKind::flat},
       {"leaf_spine", TopologyKind::leaf_spine},
       {"ring", TopologyKind::ring},
       {"torus2d", TopologyKind::torus2d}}};
  const TopologyKind kind = choice(field.at("kind"), kKinds);
  if (kind == TopologyKind::custom) return read_custom(field);
  field.allow_only({"kind", "startup_us", "gpus_per_node", "inside", "inside_is_bus", "nic_behind_inside",
                    "nic", "nic_per_gpu", "nodes_per_leaf", "spines", "oversubscription", "uplink_latency_us",
                    "cable", "torus_columns", "seed"});
  TopologySpec spec;
  spec.kind = kind;
  spec.startup_us = number(field, "startup_us", 0, kMaxTimeUs);
  spec.gpus_per_node = count(field, "gpus_per_node", 1);
  if (spec.gpus_per_node > 1) field.at("inside");
  field.at("nic");
  spec.inside = link(field, "inside");
  spec.inside_is_bus = flag(field, "inside_is_bus");
  spec.nic_behind_inside = flag(field, "nic_behind_inside");
  spec.nic = link(field, "nic");
  spec.nic_per_gpu = flag(field, "nic_per_gpu");
  spec.nodes_per_leaf = count(field, "nodes_per_leaf", 1);
  spec.spines = count(field, "spines", 1);
  const auto oversubscription = field.find("oversubscription");
  if (oversubscription) spec.oversubscription = oversubscription->number(0, kMaxFactor);
  if (spec.oversubscription == 0) oversubscription->expected("a ratio above 0");
  spec.uplink_latency_us = number(field, "uplink_latency_us", 0, kMaxTimeUs);
  if (spec.kind == TopologyKind::ring || spec.kind == TopologyKind::torus2d) field.at("cable");
  spec.cable = link(field, "cable");
  if (spec.kind == TopologyKind::torus2d) spec.torus_columns = count(field, "torus_columns", 0);
  if (spec.kind == TopologyKind::torus2d) field.at("torus_columns");
  if (const auto seed = field.find("seed"))
    spec.seed = static_cast<std::uint64_t>(seed->integer(0, INT64_MAX));
  return spec;
}

planner::LinkConditions read_links(const Field& field) {
  field.allow_only({"sigma", "seed", "slow"});
  planner::LinkConditions out;
  out.sigma = number(field, "sigma", 0, kMaxSigma);
  if (const auto seed = field.find("seed"))
    out.seed = static_cast<std::uint64_t>(seed->integer(0, INT64_MAX));
  if (const auto slow = field.find("slow")) out.slow = read_stragglers(*slow);
  return out;
}

}  // namespace

void read_fidelity(const Field& scenario, planner::Conditions& conditions) {
  static constexpr std::array<std::pair<std::string_view, Fidelity>, 3> kFidelities = {
      {{"closed", Fidelity::closed}, {"steps", Fidelity::steps}, {"messages", Fidelity::messages}}};
  const auto fidelity = scenario.find("fidelity");
  if (fidelity) conditions.fidelity = choice(*fidelity, kFidelities);
  if (conditions.fidelity != Fidelity::closed && conditions.overlap.slows())
    fidelity->expected("closed where compute and channel slow each other");
  if (const auto links = scenario.find("links")) {
    if (conditions.fidelity == Fidelity::closed) links->expected("none with fidelity closed");
    conditions.links = read_links(*links);
  }
  if (const auto channels = scenario.find("channels")) {
    constexpr std::int64_t kMaxChannels = 64;
    conditions.channels = static_cast<std::uint32_t>(channels->integer(1, kMaxChannels));
    if (conditions.channels > 1 && conditions.fidelity != Fidelity::messages)
      channels->expected("1 but with fidelity messages, as collectives at once share links");
  }
  if (const auto topology = scenario.find("topology")) {
    if (conditions.fidelity != Fidelity::messages) topology->expected("none but with fidelity messages");
    conditions.topology = read_topology(*topology);
  }
}

}  // namespace scenarios
