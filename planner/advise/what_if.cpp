#include "planner/advise/what_if.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/scaled.hpp"
#include "planner/cost/derived.hpp"

namespace planner {
namespace {

constexpr std::array<std::string_view, 9> kChanges = {
    "network=",      "startup=",  "bandwidth=",  "compute=", "no-launch-gaps",
    "no-stragglers", "no-jitter", "no-failures", "layer="};

[[noreturn]] void refuse(std::string_view expected, std::string_view got, const std::string& hint = "") {
  throw core::InputError(
      fmt::format("--what-if: expected {}, got '{}'{}", expected, core::printable(got), hint));
}

/// The value of "key=value"; `word` must begin with `key`.
std::string_view after(std::string_view word, std::string_view key) { return word.substr(key.size()); }

double factor(std::string_view word, std::string_view key) {
  constexpr double kMin = 1e-6;
  constexpr double kMax = 1e6;
  const std::string_view text = after(word, key);
  double out = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = problem == std::errc{} && end == text.data() + text.size();
  if (!is_number || !(out >= kMin && out <= kMax))
    refuse(fmt::format("a factor from {} to {} after '{}'", kMin, kMax, key), text);
  return out;
}

std::string free_layer(std::string_view word, const core::Profile& profile) {
  std::string name(after(word, "layer="));
  std::vector<std::string_view> known;
  for (const core::ProfileLayer& layer : profile.layers) known.push_back(layer.name);
  if (std::ranges::find(known, name) == known.end())
    refuse("a layer of the profile", name, core::suggestion(name, known));
  return name;
}

bool has_launch_waits(const core::Profile& profile) {
  return std::ranges::any_of(profile.layers, [](const core::ProfileLayer& layer) {
    return layer.forward_device_us || layer.backward_device_us || layer.forward_host_us;
  });
}

void add(std::string_view word, const core::Profile& profile, Change& change) {
  if (word.starts_with("network=")) {
    const double both = factor(word, "network=");
    change.startup *= both;
    change.bandwidth *= both;
  } else if (word.starts_with("startup=")) {
    change.startup *= factor(word, "startup=");
  } else if (word.starts_with("bandwidth=")) {
    change.bandwidth *= factor(word, "bandwidth=");
  } else if (word.starts_with("compute=")) {
    change.compute *= factor(word, "compute=");
  } else if (word.starts_with("layer=")) {
    change.free_layers.push_back(free_layer(word, profile));
  } else if (word == "no-launch-gaps") {
    if (!has_launch_waits(profile))
      refuse("a profile that says how long the device waits for launches (forward_device_us)", word);
    change.has_launch_waits = false;
  } else if (word == "no-stragglers") {
    change.has_stragglers = false;
  } else if (word == "no-jitter") {
    change.has_jitter = false;
  } else if (word == "no-failures") {
    change.has_failures = false;
  } else {
    refuse(fmt::format("one of {}", fmt::join(kChanges, ", ")), word, core::suggestion(word, kChanges));
  }
}

CodeCost changed(const CodeCost& cost, const Change& change) { return sped_up(cost, change.compute); }

std::vector<TransferCost> changed(const std::vector<TransferCost>& transfers, const Setting& setting,
                                  const Change& change) {
  std::vector<TransferCost> out;
  out.reserve(transfers.size());
  for (const TransferCost& cost : transfers) {
    Transfer transfer = cost.transfer();
    transfer.compressor.encode = changed(transfer.compressor.encode, change);
    transfer.compressor.decode = changed(transfer.compressor.decode, change);
    transfer.compressor.in_transit = changed(transfer.compressor.in_transit, change);
    if (transfer.compressor.sparse)
      transfer.compressor.sparse->recompute_selection =
          changed(transfer.compressor.sparse->recompute_selection, change);
    out.push_back(cost_of(setting, std::move(transfer)));
  }
  return out;
}

}  // namespace

Change read_change(std::string_view text, const core::Profile& profile) {
  Change out = {.text = std::string(text), .free_layers = {}};
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    add(rest.substr(0, comma), profile, out);
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

core::Profile with_change(const core::Profile& profile, const Change& change) {
  core::Profile out = core::scaled(change.has_launch_waits ? profile : core::without_launch_waits(profile),
                                   1 / change.compute);
  for (core::ProfileLayer& layer : out.layers) {
    const auto& names = change.free_layers;
    if (std::ranges::find(names, layer.name) == names.end()) continue;
    layer.forward_us = layer.backward_us = 0;
    layer.forward_device_us = layer.backward_device_us = std::nullopt;
    if (layer.forward_host_us) layer.forward_host_us = layer.backward_host_us = 0;
    layer.forward_spread_us = layer.backward_spread_us = std::nullopt;
    for (core::ProfileTensor& tensor : layer.tensors)
      if (tensor.backward_us) tensor.backward_us = 0;
  }
  return out;
}

Conditions with_change(Conditions conditions, const Change& change) {
  conditions.optimizer_us /= change.compute;
  conditions.lars_us /= change.compute;
  conditions.lamb_us /= change.compute;
  if (!change.has_stragglers) {
    conditions.stragglers.clear();
    conditions.worker_spread = 0;
    conditions.links.slow.clear();
    conditions.waiting_us = 0;
  }
  if (!change.has_jitter) {
    conditions.jitter = {};
    conditions.links.sigma = 0;
  }
  if (!change.has_failures) conditions.failures.clear();
  if (conditions.topology)
    conditions.topology = cluster::scaled(*conditions.topology, 1 / change.startup, 1 / change.bandwidth);
  return conditions;
}

Metrics what_if(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan,
                const Change& change) {
  const core::Profile profile = with_change(*setting.workload.profile, change);
  const core::Network network =
      core::scaled(with_derived(*setting.network, setting.costs.workers(), setting.costs.algorithm()),
                   1 / change.startup, 1 / change.bandwidth);
  const Setting then(profile, network, setting.costs.workers(), setting.costs.algorithm(),
                     with_change(setting.conditions, change));
  return summarize(
      then, simulate_groups(then, schedule, plan.groups, changed(plan.transfers, then, change), false));
}

}  // namespace planner
