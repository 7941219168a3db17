// The best grouping over sampled iterations, in which the times of layers and collectives vary: least mean or
// least 95th percentile.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "planner/choose/constraints.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/keys.hpp"
#include "planner/choose/local_search.hpp"
#include "planner/choose/sampled.hpp"

namespace planner {
namespace {

using core::Field;
using sim::Time;

constexpr std::int64_t kMaxSamples = 1000;  // each sample stores its own model
constexpr double kMaxDraws = 1e9;           // takes minutes

struct Options {
  Statistic objective = Statistic::mean;
  Sampling sampling;
  Constraints constraints;
};

struct Candidate {
  Groups groups;
  Time value{};
};

/// Compares by value, then by simplicity.
bool is_better(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& c) {
    return std::tuple(c.value, c.groups.size(), c.groups.front().end);
  };
  return rank(a) < rank(b);
}

/// Evaluates, over all samples, the groups that are optimal without variation or for one sample, and improves
/// the best ones by local search.
class Search {
 public:
  Search(const FusionRequest& request, const Options& options, const GroupRules& rules)
      : options_(options),
        rules_(rules),
        request_(request),
        exact_(request.model().optimal(rules)),
        samples_(request, options.sampling) {
    offer(exact_.groups);
  }

  Grouping run() {
    const Time of_exact_plan = candidates_.front().value;
    solve_samples();
    if (samples_.count() > 1) improve_best();
    const Candidate& best = *std::ranges::min_element(candidates_, is_better);
    const Time bound = std::min(best_of_each_, best.value);  // models with slow-down round
    return Grouping(best.groups, {.largest_front = largest_front_,
                                  .optimality_gap = best.value - bound,
                                  .sampled = SampledProof{.objective = std::string(name(options_.objective)),
                                                          .samples = options_.sampling.samples,
                                                          .value = best.value,
                                                          .of_exact_plan = of_exact_plan,
                                                          .bound = bound}});
  }

 private:
  Time value(const Groups& groups) const { return of(options_.objective, samples_.values(groups)); }

  void offer(Groups groups) {
    const auto is_known = [&](const Candidate& known) { return known.groups == groups; };
    if (std::ranges::any_of(candidates_, is_known)) return;
    const Time its_value = value(groups);
    candidates_.push_back({.groups = std::move(groups), .value = its_value});
  }

  /// Whether the optimum of one sample comes from a state model instead of simulation.
  bool is_quick() const { return exact_.largest_front > 0; }

  /// The number of samples that can be solved exactly in the time budget, estimated from the solution without
  /// variation.
  std::size_t max_solved() const {
    if (!is_quick()) return 0;
    constexpr double kWork = 4e8;  // takes a few seconds
    const double gradients = request_.workload.gradient_count();
    const double work = gradients * gradients * static_cast<double>(exact_.largest_front);
    return static_cast<std::size_t>(std::max(1.0, kWork / work));
  }

  /// The bound: no grouping is better than every sample at its own optimum.
  void solve_samples() {
    const std::size_t solved = std::min(samples_.count(), max_solved());
    std::vector<Time> bounds;
    for (std::size_t sample = 0; sample < samples_.count(); ++sample) {
      const IterationModel& model = samples_.request(sample).model();
      if (sample >= solved) {
        bounds.push_back(model.lower_bound());
        continue;
      }
      OptimalGroups own = model.optimal(rules_);
      bounds.push_back(own.value - own.optimality_gap);
      largest_front_ = std::max(largest_front_, own.largest_front);
      offer(std::move(own.groups));
    }
    best_of_each_ = of(options_.objective, std::move(bounds));
  }

  void improve_best() {
    constexpr std::size_t kStarts = 8;
    std::vector<Candidate> starts = candidates_;
    std::ranges::sort(starts, is_better);
    starts.resize(std::min(starts.size(), kStarts));
    for (Candidate& start : starts) {
      Improved found = improve({.rules = rules_,
                                .transfers = static_cast<std::uint32_t>(request_.transfers.size()),
                                .value = [this](const Groups& groups) { return value(groups); },
                                .max_evaluations = max_evaluations()},
                               std::move(start.groups));
      candidates_.push_back({.groups = std::move(found.groups), .value = found.value});
    }
  }

  std::uint32_t max_evaluations() const {
    constexpr double kWork = 1e7;  // group evaluations, about a second
    constexpr double kSimulations = 2e4;
    const auto samples = static_cast<double>(samples_.count());
    const double evaluations =
        is_quick() ? kWork / samples / static_cast<double>(exact_.groups.size()) : kSimulations / samples;
    return static_cast<std::uint32_t>(std::clamp(evaluations, 50.0, 2000.0));
  }

  const Options& options_;
  const GroupRules& rules_;
  const FusionRequest& request_;
  OptimalGroups exact_;
  Samples samples_;
  std::vector<Candidate> candidates_;  // the first is optimal without variation
  Time best_of_each_{};                // a lower bound
  std::size_t largest_front_ = 0;
};

/// Throws InputError if there are more random numbers than the time limit allows.
void check_draws(const FusionRequest& request, const Options& options, const Field& field) {
  const std::int64_t tasks = Variation(request.setting).tasks;
  if (tasks == 0) return;
  const double max_workers = std::floor(kMaxDraws / static_cast<double>(tasks));
  const std::int64_t workers = request.costs.workers();
  if (static_cast<double>(workers) > max_workers)
    field.expected(fmt::format("at most {:.0f} workers that compute {} tasks each", max_workers, tasks),
                   fmt::to_string(workers));
  const double max = std::floor(kMaxDraws / static_cast<double>(tasks) / static_cast<double>(workers));
  if (static_cast<double>(options.sampling.samples) <= max) return;
  const std::optional<Field> given = fusion_key(field, "samples");
  given.value_or(field).expected(
      fmt::format("at most {:.0f} samples of {} workers that compute {} tasks each", max, workers, tasks),
      fmt::to_string(options.sampling.samples));
}

Statistic read_objective(const Field& field) {
  const std::string objective = field.one_of({name(Statistic::mean), name(Statistic::p95)});
  return objective == name(Statistic::mean) ? Statistic::mean : Statistic::p95;
}

Options read_options(const Field& field) {
  Options out;
  out.sampling.samples = fusion_integer(field, "samples", 1, kMaxSamples, out.sampling.samples);
  out.sampling.seed = static_cast<std::uint64_t>(fusion_integer(field, "seed", 0, INT64_MAX, 1));
  if (!field.is_object()) return out;
  constexpr double kMaxSigma = 2;  // the limit for jitter
  if (const auto given = field.find("objective")) out.objective = read_objective(*given);
  if (const auto given = field.find("communication_sigma"))
    out.sampling.communication_sigma = given->number(0, kMaxSigma);
  if (const auto given = field.find("constraints")) out.constraints = read_constraints(*given);
  return out;
}

Fuse read(const Field& field) {
  allow_fusion_keys(field, {"kind", "objective", "samples", "seed", "communication_sigma", "constraints"});
  return [field, options = read_options(field)](const FusionRequest& request) {
    if (request.waited_batches > 0)
      throw core::Unsupported("a fusion other than robust where each micro-batch reduces its gradients",
                              "robust", "/schedules");
    check_draws(request, options, field);
    const GroupRules rules = options.constraints ? options.constraints(request.workload) : GroupRules();
    return Search(request, options, rules).run();
  };
}

}  // namespace

FusionKind robust_fusion() {
  return {.name = "robust",
          .summary = "least mean or 95th percentile over sampled iterations",
          .read = read,
          .searches = true};
}

}  // namespace planner
