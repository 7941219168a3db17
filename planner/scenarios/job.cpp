#include "planner/scenarios/job.hpp"

#include <fmt/format.h>

#include "core/estimate/estimated_profile.hpp"
#include "core/limits.hpp"
#include "core/scaled.hpp"

namespace scenarios {
namespace {

using core::Field;

constexpr std::size_t kMaxPhases = 1000;
constexpr std::size_t kMaxLayers = 2'000'000;  // of all phases, each of which has a profile of its own
constexpr double kMaxPrice = 1e9;
constexpr std::int64_t kMaxSamples = 1'000'000'000'000;
constexpr std::int64_t kMaxEpochs = 1'000'000;
constexpr std::int64_t kMaxBatch = 1'000'000'000;

PhaseInput read_input(const Field& field) {
  field.allow_only({"read_us", "decode_us", "cached_us", "overlapped"});
  const auto time = [&](std::string_view key) {
    const std::optional<Field> found = field.find(key);
    return found ? found->number(0, core::kMaxTimeUs) : 0;
  };
  const double all = time("read_us") + time("decode_us");
  if (all > core::kMaxTimeUs)
    field.expected(fmt::format("read_us and decode_us of at most {} us", core::kMaxTimeUs));
  PhaseInput out = {.first_epoch_us = all, .later_us = all};
  if (field.has("cached_us")) out.later_us = time("cached_us");
  if (const auto overlapped = field.find("overlapped")) out.overlapped = overlapped->boolean();
  return out;
}

/// The profile of a phase: its own, or the usual one, scaled as the phase says.
core::Profile read_phase_profile(const Field& field, const core::Profile& usual) {
  const auto own = field.find("profile");
  core::Profile profile = own ? core::read_or_estimate_profile(*own) : usual;
  if (const auto compute = field.find("compute_us")) {
    const double us = compute->number(0, core::kMaxTimeUs);
    if (us == 0) compute->expected("a time above 0");
    for (core::ProfileLayer& layer : profile.layers) {
      layer.forward_device_us = layer.backward_device_us = {};
      layer.forward_host_us = layer.backward_host_us = {};
    }
    if (profile.iteration) profile.iteration->host_us = {};
    profile.compute_range = {};
    profile = core::scaled(profile, us / (core::forward_us(profile) + core::backward_us(profile)));
  }
  if (const auto batch = field.find("batch_size")) profile.batch_size = batch->integer(1, kMaxBatch);
  return profile;
}

Phase read_phase(const Field& field, const Phase& usual, std::size_t index) {
  field.allow_only({"name", "epochs", "profile", "compute_us", "batch_size", "schedule", "input"});
  const auto name = field.find("name");
  const auto schedule = field.find("schedule");
  const auto input = field.find("input");
  return {.name = name ? name->text() : fmt::format("phase {}", index + 1),
          .epochs = field.at("epochs").integer(1, kMaxEpochs),
          .profile = read_phase_profile(field, usual.profile),
          .schedule = schedule ? planner::read_schedule(*schedule) : usual.schedule,
          .input = input ? read_input(*input) : usual.input};
}

}  // namespace

Job read_job(const Field& field, const Phase& usual) {
  field.allow_only({"samples", "price_per_worker_hour", "phases"});
  Job out = {.samples = field.at("samples").integer(1, kMaxSamples)};
  if (const auto price = field.find("price_per_worker_hour"))
    out.price_per_worker_hour = price->number(0, kMaxPrice);
  const std::vector<Field> phases = field.at("phases").non_empty_items();
  if (phases.size() > kMaxPhases)
    field.at("phases").expected(fmt::format("at most {} phases", kMaxPhases), fmt::to_string(phases.size()));
  std::size_t layers = 0;
  for (const Field& item : phases) {
    out.phases.push_back(read_phase(item, usual, out.phases.size()));
    const core::Profile& profile = out.phases.back().profile;
    layers += profile.layers.size() + static_cast<std::size_t>(core::tensor_count(profile));
    if (layers > kMaxLayers)
      item.expected(fmt::format("phases of at most {} layers and tensors in all", kMaxLayers), "more");
  }
  return out;
}

}  // namespace scenarios
