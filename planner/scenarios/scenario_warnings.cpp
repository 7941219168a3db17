// What a scenario leaves out, and which of its settings have no effect.

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bundled.hpp"
#include "core/estimate/estimated_profile.hpp"
#include "core/limits.hpp"
#include "core/printable.hpp"
#include "planner/scenarios/lacking_costs.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {
namespace {

using core::Field;

constexpr std::int64_t kBytesPerMib = 1 << 20;

/// Names of the schedules excluded by the conditions.
std::vector<std::string> left_out(const Scenario& scenario) {
  std::vector<std::string> out;
  if (scenario.file.has("schedules")) return out;
  for (const planner::Schedule& schedule : planner::lossless_schedules())
    if (!can_run(scenario.conditions, schedule))
      out.push_back(
          fmt::format("schedule '{}' is left out: with failures, other jitter than lognormal or "
                      "other fidelity than closed a channel cannot go by layer",
                      schedule.name));
  return out;
}

/// The largest number of workers on which a bundled network was measured, if the scenario joins no nodes.
std::int64_t workers_of_node(const Scenario& scenario) {
  const Field network = scenario.file.at("network");
  if (!network.is_text() || !core::find_bundled_network(network.text()) || scenario.file.has("between"))
    return 0;
  std::int64_t out = 0;
  for (const core::Measured& each : scenario.network.measured) out = std::max(out, each.workers);
  return out;
}

bool is_half(core::Dtype type) { return type != core::Dtype::float32; }

/// The keys without which the memory of schedule megatron-do is not that of Megatron-LM, which adds gradients
/// up in the buffers that it reduces, and updates a master copy of parameters of 16 bits.
std::vector<std::string_view> missing_for_megatron(const Scenario& scenario) {
  const planner::DataTypes& types = scenario.conditions.data_types;
  const core::Dtype own = scenario.profile.dtype;
  std::vector<std::string_view> out;
  if (!scenario.conditions.memory->gradients_in_buffers)
    out.emplace_back(R"("gradients_in_buffers": true in memory)");
  if (types.gradients.value_or(own) != types.reduce.value_or(own))
    out.emplace_back("the same type for gradients as for reduce in data_types");
  if (is_half(types.parameters.value_or(own)) && types.master.value_or(own) != core::Dtype::float32)
    out.emplace_back(R"("master": "float32" in data_types)");
  return out;
}

void warn_of_megatron(const Scenario& scenario, std::vector<std::string>& out) {
  if (!scenario.conditions.memory) return;
  for (const planner::Schedule& schedule : scenario.schedules) {
    if (schedule.name != "megatron-do" && !schedule.name.starts_with("megatron-do ")) continue;
    if (const auto missing = missing_for_megatron(scenario); !missing.empty())
      out.push_back(fmt::format("memory: that of megatron-do is Megatron-LM's only with {}",
                                fmt::join(missing, ", and with ")));
    return;
  }
}

/// What an estimate knows of workers that divide layers and experts.
void warn_of_division(const Scenario& scenario, std::vector<std::string>& out) {
  if (!scenario.parallel || scenario.profile.origin.kind != core::OriginKind::estimated) return;
  const auto [tensor, expert] = std::pair(scenario.parallel->tensor, scenario.parallel->expert);
  if (tensor == 1 && expert == 1) return;
  if (core::asks_for_estimate(scenario.file.at("profile")))
    out.push_back(fmt::format(
        "the estimated times of '{}' are those of one worker of tensor {} and expert {}, without the "
        "collectives of these groups",
        core::printable(scenario.profile.model), tensor, expert));
  else
    out.push_back(
        fmt::format("the estimated profile of '{}' is taken as that of one worker; tensor {} and expert {} "
                    "divide a model that the scenario itself estimates: \"profile\": {{\"estimate\": ...}}",
                    core::printable(scenario.profile.model), tensor, expert));
}

/// Rows of results that have the same name.
void warn_of_repeated_schedules(const std::vector<planner::Schedule>& schedules,
                                std::vector<std::string>& out) {
  std::map<std::string, int> count;
  for (const planner::Schedule& schedule : schedules)
    if (++count[schedule.name] == 2)
      out.push_back(fmt::format("/schedules: several are called '{}', of which --schedule takes the first",
                                core::printable(schedule.name)));
}

void warn_of_repeated_workers(const std::vector<std::int64_t>& workers, std::vector<std::string>& out) {
  std::map<std::int64_t, int> count;
  for (const std::int64_t number : workers)
    if (++count[number] == 2) out.push_back(fmt::format("/workers: {} is there several times", number));
}

/// A cap of a few bytes was meant in another unit.
void warn_of_small_caps(const std::vector<Field>& schedules, const Scenario& scenario,
                        std::vector<std::string>& out) {
  constexpr std::int64_t kLeast = 1024;
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const Field& schedule = schedules[i];
    const auto fusion = schedule.is_object() ? schedule.find("fusion") : std::nullopt;
    if (!fusion || !fusion->is_object()) continue;
    const std::string kind = fusion->at("kind").text();
    if (kind != "buckets" && kind != "threshold" && kind != "modules") continue;
    const auto cap = fusion->find("cap_bytes");
    const std::int64_t bytes = cap ? cap->integer(1, core::kMaxBytes) : kLeast;
    if (bytes < kLeast)
      out.push_back(fmt::format("schedule '{}': cap_bytes {} is a number of bytes ({} MiB would be {})",
                                core::printable(scenario.schedules[i].name), bytes, bytes,
                                bytes * kBytesPerMib));
  }
}

/// A link that is much slower than its line rate was given in another unit; one that is faster than the rate
/// has a warning of its own.
void warn_of_slow_link(const core::Network& network, std::vector<std::string>& out) {
  constexpr double kMost = 30;
  if (!network.link || !network.line_rate_gbps) return;
  const double gbps = 8e-3 / network.link->beta_us_per_byte;
  if (gbps * kMost < *network.line_rate_gbps)
    out.push_back(
        fmt::format("network '{}': beta_us_per_byte {:g} is a rate of {:.3g} Gb/s, {:.0f} times below its "
                    "line_rate_gbps {:g}; one of them is probably wrong",
                    core::printable(network.name), network.link->beta_us_per_byte, gbps,
                    *network.line_rate_gbps / gbps, *network.line_rate_gbps));
}

/// Without `schedules` those of the usual ones that send all-reduces are left out where these have no cost.
void warn_of_missing_all_reduces(const Scenario& scenario, std::vector<std::string>& out) {
  const auto lacks = [&](const planner::Schedule& schedule) {
    return lacks_all_reduces(scenario.network, schedule);
  };
  if (scenario.file.has("schedules") || std::ranges::none_of(planner::lossless_schedules(), lacks)) return;
  out.push_back(
      fmt::format("network '{}' did not measure all-reduces: the usual schedules that send them are left out",
                  scenario.network.name));
}

}  // namespace

std::vector<std::string> warnings_about(const Scenario& scenario) {
  std::vector<std::string> out = left_out(scenario);
  warn_of_missing_all_reduces(scenario, out);
  warn_of_megatron(scenario, out);
  warn_of_division(scenario, out);
  warn_of_slow_link(scenario.network, out);
  warn_of_repeated_workers(scenario.workers, out);
  if (const auto schedules = scenario.file.find("schedules")) {
    warn_of_repeated_schedules(scenario.schedules, out);
    warn_of_small_caps(schedules->items(), scenario, out);
  }
  if (overlap_of_profile(scenario.file).slows() && !can_slow(scenario.conditions))
    out.emplace_back(
        "the profile's overlap slow-down is left out: it goes with fidelity closed, without failures, with "
        "lognormal jitter alone");
  const std::int64_t max = *std::ranges::max_element(scenario.workers);
  const auto check = [&](std::string_view what, std::int64_t worker, std::string_view consequence) {
    if (worker >= max)
      out.push_back(
          fmt::format("{} {} is none of the workers 0 to {}, {}", what, worker, max - 1, consequence));
  };
  for (const planner::Straggler& straggler : scenario.conditions.stragglers)
    check("straggler", straggler.worker, "it slows nothing down");
  for (const planner::Failure& failure : scenario.conditions.failures)
    check("failing worker", failure.worker, "it stops nothing");
  for (const planner::Straggler& slow : scenario.conditions.links.slow)
    check("slow sender", slow.worker, "it slows nothing down");
  if (scenario.conditions.channels > 1 && !scenario.conditions.topology)
    out.emplace_back("several channels without a topology: collectives at once share no link");
  const std::int64_t node = workers_of_node(scenario);
  if (node > 0 && max > node)
    out.push_back(fmt::format(
        "network '{}' is one machine of {} workers, and {} are simulated as if one machine held them all; "
        "for several machines the scenario needs \"between\": {{\"bandwidth_gbps\": ...}}",
        scenario.network.name, node, max));
  return out;
}

}  // namespace scenarios
