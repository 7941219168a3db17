#include "validate/suite/suite.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/estimate/estimated_profile.hpp"
#include "core/file_guard.hpp"
#include "core/limits.hpp"
#include "core/scaled.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/scenarios/stragglers.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/runnable.hpp"

namespace suite {
namespace {

using core::Field;

constexpr std::uint32_t kMaxWorkers = 64;  // namespaces of one host
constexpr std::int64_t kMaxIterations = 10'000;
constexpr std::int64_t kMaxSamples = 1'000'000;
constexpr std::int64_t kMaxLimitS = 86'400;
constexpr double kLimitS = 600;  // of a calibration or a run
constexpr double kMaxGbps = 1e4;
constexpr double kMinGbps = 1e-3;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxShare = 10;

template <typename Number>
Number count_at(const Field& field, std::string_view key, Number min, Number max, Number otherwise) {
  const std::optional<Field> found = field.find(key);
  return found ? static_cast<Number>(
                     found->integer(static_cast<std::int64_t>(min), static_cast<std::int64_t>(max)))
               : otherwise;
}

double rate_at(const Field& field, std::string_view key) {
  return field.at(key).number(kMinGbps, kMaxGbps) * 1e9;
}

Tolerance read_tolerance(const Field& field) {
  field.allow_only({"mean", "worst", "lossy_mean", "min_null_error_ratio", "ranking"});
  Tolerance out;
  const auto read = [&](std::string_view key, double& into) {
    if (const auto found = field.find(key)) into = found->number(0, kMaxShare);
  };
  read("mean", out.mean);
  read("worst", out.worst);
  read("lossy_mean", out.lossy_mean);
  read("min_null_error_ratio", out.null_times);
  read("ranking", out.ranking);
  return out;
}

/// Scales gradient sizes and compute times, so that a small machine can run the layers of a large model.
core::Profile read_scaled_profile(const Field& group) {
  core::Profile profile = core::read_or_estimate_profile(group.at("profile"));
  const std::optional<Field> scale = group.find("scale");
  if (!scale) return profile;
  scale->allow_only({"compute", "gradients"});
  const auto factor = [&](std::string_view key) {
    const std::optional<Field> found = scale->find(key);
    if (found && found->number(0, kMaxFactor) <= 0) found->expected("a factor above 0");
    return found ? found->number(0, kMaxFactor) : 1;
  };
  profile = core::scaled(profile, factor("compute"));
  const double gradients = factor("gradients");
  for (core::ProfileLayer& layer : profile.layers)
    for (core::ProfileTensor& tensor : layer.tensors) {
      tensor.elements =
          std::max<std::int64_t>(1, std::llround(static_cast<double>(tensor.elements) * gradients));
      if (gradients != 1) tensor.shape.clear();  // none has this number of elements for certain
    }
  if (core::parameter_count(profile) > core::kMaxElementsInAll)
    scale->at("gradients")
        .expected(fmt::format("a factor that gives at most {} elements in all", core::kMaxElementsInAll));
  return profile;
}

/// Sets guessed times for layers that are measured later; they only show whether a plan can be predicted at
/// all.
core::Profile guessed(core::Profile profile) {
  constexpr double kLayerUs = 1000;
  for (core::ProfileLayer& layer : profile.layers) layer.forward_us = layer.backward_us = kLayerUs;
  return profile;
}

core::Network guessed_network(const live::Place& place) {
  constexpr double kStartupUs = 50;
  const auto link = [](double bits_per_second) {
    return core::Link{.alpha_us = kStartupUs, .beta_us_per_byte = 8e6 / bits_per_second};
  };
  core::Network out = {.name = "guessed",
                       .origin = {.kind = core::OriginKind::estimated, .source = "line rate"}};
  const core::Link inside = link(*place.bits_per_second);
  if (place.workers_per_node == 0)
    out.link = inside;
  else
    out.levels = {{.name = "inside", .size = place.workers_per_node, .link = inside},
                  {.name = "between", .size = {}, .link = link(place.between_bits_per_second)}};
  return out;
}

Part part_of(const planner::Schedule& schedule) {
  if (!schedule.compressor.is_none()) return Part::any;
  if (schedule.name == "ddp") return Part::ddp;
  const planner::Program program = schedule.pipeline->program(1, schedule.options);
  if (program.ops.size() > 1 || program.by_layer) return Part::any;  // more than an all-reduce in order
  if (schedule.fusion.kind == "all") return Part::one_group;
  if (program.ops.front().issue != planner::Issue::gradients) return Part::any;
  return schedule.fusion.kind == "none"      ? Part::wfbp
         : schedule.fusion.kind == "optimal" ? Part::exact
                                             : Part::any;
}

/// Reads a schedule, or `{"name": ..., "schedule": ...}` to give it another name, optionally with
/// `error_feedback`.
Plan read_plan(const Field& field, const live::RunSpec& spec) {
  const bool is_named = field.is_object() && field.has("schedule");
  if (is_named) field.allow_only({"name", "schedule", "error_feedback"});
  Plan plan = {.name = "", .spec = spec};
  plan.spec.schedule = planner::read_schedule(is_named ? field.at("schedule") : field);
  plan.name = is_named ? field.at("name").name() : plan.spec.schedule.name;
  plan.spec.name = plan.name;
  if (const auto feedback = is_named ? field.find("error_feedback") : std::nullopt)
    plan.spec.error_feedback = feedback->boolean();
  plan.part = part_of(plan.spec.schedule);
  plan.is_dense = plan.spec.schedule.compressor.is_none();
  try {
    live::check_runnable(plan.spec);
  } catch (const core::InputError& error) {
    field.expected("a plan that can be run live", fmt::format("one that cannot ({})", error.what()));
  }
  return plan;
}

void read_nodes(const Field& field, live::RunSpec& spec, live::Place& place) {
  field.allow_only({"workers_per_node", "between_gbps"});
  const Field size = field.at("workers_per_node");
  spec.workers_per_node = static_cast<std::uint32_t>(size.integer(1, place.workers));
  if (place.workers % spec.workers_per_node != 0) size.expected("a number that divides the workers");
  place.workers_per_node = spec.workers_per_node;
  place.between_bits_per_second = rate_at(field, "between_gbps");
}

void read_layers(const Field& field, live::RunSpec& spec) {
  const std::optional<Field> model = field.find("model");
  if (!model) {
    for (const std::string_view key : {"batch_size", "computing_workers"})
      if (const auto of_model = field.find(key)) of_model->expected("none without a model");
    spec.profile = read_scaled_profile(field);
    return;
  }
  for (const std::string_view key : {"profile", "scale"})
    if (const auto other = field.find(key)) other->expected("none where a model computes");
  live::RealLayers real = {.model = core::read_model(core::follow_model(*model))};
  real.batch_size = count_at<std::int64_t>(field, "batch_size", 1, kMaxSamples, real.model.batch_size);
  real.computing = count_at<std::uint32_t>(field, "computing_workers", 1, spec.workers, spec.workers);
  spec.profile = live::profile_of(real);
  spec.layers = std::move(real);
}

/// Predicts with one network derived from the line rate.
void check_predictable(const Field& field, const Group& group) {
  const live::RunSpec& spec = group.plans.front().spec;
  scenarios::Scenario scenario = {.name = group.name,
                                  .profile = spec.layers ? guessed(spec.profile) : spec.profile,
                                  .network = guessed_network(group.place),
                                  .workers = {group.place.workers},
                                  .schedules = {},
                                  .all_reduce = spec.all_reduce,
                                  .conditions = spec.conditions,
                                  .job = {},
                                  .warnings = {},
                                  .file = field};
  for (const Plan& plan : group.plans) scenario.schedules.push_back(plan.spec.schedule);
  (void)scenarios::run(scenario, {.samples = 0});
}

Group read_group(const Field& field, const live::RunSpec& usual) {
  field.allow_only({"name", "workers", "line_rate_gbps", "nodes", "profile", "scale", "model", "batch_size",
                    "computing_workers", "collectives", "stragglers", "schedules"});
  Group group;
  live::RunSpec spec = usual;
  group.name = field.at("name").name();
  group.place.workers = static_cast<std::uint32_t>(field.at("workers").integer(2, kMaxWorkers));
  spec.workers = group.place.workers;
  group.place.limit_s = kLimitS;
  group.place.bits_per_second = rate_at(field, "line_rate_gbps");
  if (const auto nodes = field.find("nodes")) read_nodes(*nodes, spec, group.place);
  if (const auto collectives = field.find("collectives"))
    spec.all_reduce = planner::read_collectives(*collectives);
  read_layers(field, spec);
  group.compute = spec.layers ? "cpu" : "waiting";
  if (const auto stragglers = field.find("stragglers")) {
    spec.conditions.stragglers = scenarios::read_stragglers(*stragglers);
    for (const Field& each : stragglers->items()) (void)each.at("worker").integer(0, group.place.workers - 1);
  }
  std::set<std::string> names;
  for (const Field& item : field.at("schedules").non_empty_items()) {
    group.plans.push_back(read_plan(item, spec));
    if (!names.insert(group.plans.back().name).second) item.expected("a plan with a name of its own");
  }
  check_predictable(field, group);
  return group;
}

Program read_program(const Field& field) {
  field.allow_only({"name", "script", "workers", "line_rate_gbps", "limit_s"});
  const Program usual;
  Program out = {.name = field.at("name").name(),
                 .script = field.at("script").path(),
                 .workers = count_at<std::uint32_t>(field, "workers", 2, kMaxWorkers, usual.workers),
                 .bits_per_second = rate_at(field, "line_rate_gbps"),
                 .limit = std::chrono::seconds(
                     count_at<std::int64_t>(field, "limit_s", 1, kMaxLimitS, usual.limit.count()))};
  if (!std::filesystem::is_regular_file(out.script)) field.at("script").expected("a file");
  core::add_input(out.script);
  return out;
}

}  // namespace

Suite read_suite(const Field& field) {
  field.check_format("fusewise.suite");
  field.allow_only({"format", "version", "name", "warm_up", "iterations", "tolerance", "groups", "programs"});
  Suite suite;
  suite.name = field.at("name").name();
  live::RunSpec usual;
  usual.warm_up = count_at<std::uint32_t>(field, "warm_up", 1, kMaxIterations, usual.warm_up);
  suite.iterations = usual.iterations =
      count_at<std::uint32_t>(field, "iterations", 2, kMaxIterations, usual.iterations);
  if (const auto tolerance = field.find("tolerance")) suite.tolerance = read_tolerance(*tolerance);
  std::set<std::string> names;
  const auto check_name = [&](const Field& item, const std::string& name) {
    if (!names.insert(name).second) item.at("name").expected("a name of its own");
  };
  const auto programs = field.find("programs");
  if (programs)
    for (const Field& item : programs->non_empty_items()) {
      suite.programs.push_back(read_program(item));
      check_name(item, suite.programs.back().name);
    }
  if (programs && !field.has("groups")) return suite;
  for (const Field& item : field.at("groups").non_empty_items()) {
    suite.groups.push_back(read_group(item, usual));
    check_name(item, suite.groups.back().name);
  }
  return suite;
}

}  // namespace suite
