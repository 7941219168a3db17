// Properties of a sweep over numbers of workers: where two schedules cross, from where on one is slower, and
// what never happens.

#include <optional>

#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

using core::Field;

const std::vector<std::string_view> of_pair = {"scenario", "workers",     "schedule", "than",
                                               "network",  "collectives", "profile"};

/// Iteration times that differ by less than this, relatively, count as equal.
constexpr double kEqual = 1e-6;

struct Pair {
  std::int64_t workers = 1;
  double schedule_us = 0;
  double than_us = 0;
};

bool is_slower(const Pair& pair) { return pair.schedule_us > pair.than_us * (1 + kEqual); }
bool is_faster(const Pair& pair) { return pair.schedule_us < pair.than_us * (1 - kEqual); }

std::vector<Pair> pairs(const Request& request, const Field& than) {
  const scenarios::Scenario scenario = request.scenario();
  std::vector<Pair> out;
  for (const std::int64_t workers : request.all_workers(scenario))
    out.push_back({.workers = workers,
                   .schedule_us = predict(scenario, workers, request.schedule()).iteration_us,
                   .than_us = predict(scenario, workers, planner::read_schedule(than)).iteration_us});
  return out;
}

/// The two numbers of workers between which `schedule` stops being the faster one for good.
Values crossing(const Request& request) {
  const std::vector<Pair> all = pairs(request, request.at("than"));
  std::optional<std::size_t> at;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (is_slower(all[i - 1]) == is_slower(all[i])) continue;
    if (at || is_slower(all[i - 1])) return {};
    at = i;
  }
  if (!at) return {};
  return {{"from", static_cast<double>(all[*at - 1].workers)}, {"to", static_cast<double>(all[*at].workers)}};
}

/// The smallest number of workers on which `schedule` is slower than `than`.
Values behind_from(const Request& request) {
  for (const Pair& pair : pairs(request, request.at("than")))
    if (is_slower(pair)) return {{"", static_cast<double>(pair.workers)}};
  return {};
}

/// Returns whether `schedule` is never slower than any of those under `than`.
Values never_slower(const Request& request) {
  const Field than = request.at("than");
  for (const Field& each : than.is_array() ? than.non_empty_items() : std::vector{than})
    for (const Pair& pair : pairs(request, each))
      if (is_slower(pair)) return {{"", 0}};
  return {{"", 1}};
}

Values always_faster(const Request& request) {
  const Field than = request.at("than");
  for (const Field& each : than.is_array() ? than.non_empty_items() : std::vector{than})
    for (const Pair& pair : pairs(request, each))
      if (!is_faster(pair)) return {{"", 0}};
  return {{"", 1}};
}

}  // namespace

std::vector<Quantity> sweep_quantities() {
  return {
      {"crossing", "the workers between which `schedule` becomes slower than `than`", of_pair, crossing},
      {"behind_from", "the smallest number of workers on which `schedule` is slower than `than`", of_pair,
       behind_from},
      {"never_slower", "1 if `schedule` never is than any of `than`, else 0", of_pair, never_slower},
      {"always_faster", "1 if `schedule` always is than each of `than`, else 0", of_pair, always_faster},
  };
}

}  // namespace validate
