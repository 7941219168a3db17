#include "validate/measurements/predictor.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/run/predict.hpp"
#include "planner/schedule/choice.hpp"

namespace validate {
namespace {

std::size_t index_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::lower_bound(names.begin(), names.end(), name) - names.begin());
}

std::vector<std::string> sorted_names(const std::vector<Measurement>& rows, std::string Measurement::*name) {
  std::set<std::string> out;
  for (const Measurement& row : rows) out.insert(row.*name);
  return {out.begin(), out.end()};
}

/// The groups that the schedule makes where computing and communicating do not slow each other: who planned
/// the measured job did not know by how much they do, and the best groups with slow-downs take a thousand
/// times as long to find.
planner::Groups groups_of(const planner::Setting& setting, const planner::Schedule& schedule) {
  planner::Setting alone = setting;
  alone.conditions.overlap = {};
  return schedule.fusion.fuse(planner::request_of(alone, schedule)).groups;
}

/// The iteration time that a simulation gives, many times as fast where a model of the schedule exists.
double simulated_us(const planner::Setting& setting, const planner::Schedule& schedule) {
  const planner::FusionRequest request = planner::request_of(setting, schedule);
  if (std::ranges::any_of(request.transfers, &planner::TransferCost::has_spikes))
    return planner::run(setting, schedule).metrics.iteration_us;
  return planner::within_clock([&] { return planner::iteration_us(request, groups_of(setting, schedule)); });
}

}  // namespace

Predictor::Predictor(const std::vector<Measurement>& rows, const Setup& setup, const std::string& source)
    : setup_(setup),
      source_(source),
      models_(sorted_names(rows, &Measurement::model)),
      networks_(sorted_names(rows, &Measurement::network)) {
  const auto check = [&](const auto& all, const std::string& name, const Measurement& row,
                         std::string_view what) {
    if (all.find(name) != all.end()) return;
    std::vector<std::string_view> names;
    names.reserve(all.size());
    for (const auto& [each, value] : all) names.push_back(each);
    const std::string known = core::printable(fmt::format("{}", fmt::join(names, ", ")));
    expected(row, fmt::format("a {} of the set-up, one of {}", what, known),
             fmt::format("'{}'{}", core::printable(name), core::suggestion(name, names)));
  };
  std::map<std::tuple<std::size_t, std::size_t, std::string, std::int64_t>, std::size_t> found;
  for (const Measurement& row : rows) {
    check(setup.models, row.model, row, "model");
    check(setup.networks, row.network, row, "network");
    Configuration next = {.row = row,
                          .model = index_of(models_, row.model),
                          .network = index_of(networks_, row.network),
                          .schedule = {},
                          .all_reduce = {}};
    const auto [at, is_new] = found.emplace(std::tuple(next.model, next.network, row.schedule, row.workers),
                                            configurations_.size());
    if (is_new) {
      next.schedule = schedule(row);
      next.all_reduce = next.schedule.all_reduce.value_or(setup.all_reduce);
      configurations_.push_back(std::move(next));
    }
    of_row_.push_back(at->second);
    const double samples =
        static_cast<double>(setup.models.at(row.model).profile.batch_size) * static_cast<double>(row.workers);
    constexpr double kUsPerSecond = 1e6;
    measured_us_.push_back(row.iteration_us ? *row.iteration_us : samples / row.samples_per_s * kUsPerSecond);
  }
}

Numbers Predictor::known() const {
  Numbers out;
  out.models.resize(models_.size());
  for (std::size_t i = 0; i < networks_.size(); ++i)
    out.networks.push_back(
        {.levels = std::vector<LevelNumbers>(std::max<std::size_t>(1, network(i).levels.size())),
         .overlap = {}});
  return out;
}

double Predictor::iteration_us(std::size_t configuration, const core::Profile& profile,
                               const core::Network& network, const NetworkNumbers& numbers) const {
  const Configuration& of = configurations_[configuration];
  planner::Conditions conditions;
  conditions.overlap = numbers.overlap;
  if (const auto& its = overlap(of.model))
    conditions.overlap = {.compute_slowdown = its->compute_slowdown,
                          .communication_slowdown = its->communication_slowdown};
  if (profile.iteration) {
    conditions.optimizer_us = profile.iteration->optimizer_us;
    conditions.read_us = profile.iteration->other_us;
    conditions.read_is_overlapped = false;
  }
  try {
    const double fixed_us =
        of.row.workers < 2 ? 0 : numbers.levels.at(outermost_level(network, of.row.workers)).fixed_startup_us;
    std::optional<core::Network> longer;
    if (fixed_us > 0) longer = with_fixed_startup(network, of.row.workers, of.all_reduce, fixed_us);
    const planner::Setting setting(profile, longer ? *longer : network, of.row.workers, of.all_reduce,
                                   conditions);
    return simulated_us(setting, of.schedule);
  } catch (const core::Unsupported& problem) {
    expected(of.row, problem.expected(), problem.got());
  }
}

planner::Schedule Predictor::schedule(const Measurement& row) const {
  if (const auto* found = schedule_of(setup_, row)) return *found;
  for (const planner::Preset& preset : planner::presets())
    if (preset.name == row.schedule && !preset.needs_compressor) return planner::preset_schedule(preset.name);
  expected(row, "a schedule of the set-up, or a named one that needs no more",
           fmt::format("'{}'", core::printable(row.schedule)));
}

void Predictor::expected(const Measurement& row, std::string_view what, std::string_view got) const {
  throw core::InputError(fmt::format("{}:{}: expected {}, got {}", source_, row.line, what, got));
}

}  // namespace validate
