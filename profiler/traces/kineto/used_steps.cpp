#include "profiler/traces/kineto/used_steps.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <tuple>
#include <utility>

#include "core/statistics.hpp"

namespace kineto {
namespace {

constexpr double kAboutAsLong = 0.03;

/// What a call ran, and its gradients.
struct CallStructure {
  TextId name{};
  TextId operation{};
  bool is_module = false;
  std::vector<std::pair<TextId, std::int64_t>> gradients;  ///< shapes, elements
  auto operator<=>(const CallStructure&) const = default;
};

/// Only steps with the same structure are averaged.
struct StepStructure {
  std::vector<CallStructure> calls;
  std::size_t left_out = 0;
  bool has_update = false;
  bool has_collectives = false;
  auto operator<=>(const StepStructure&) const = default;
};

StepStructure structure_of(const std::vector<const Call*>& calls, const Step& step) {
  StepStructure all = {.calls = {},
                       .left_out = step.left_out,
                       .has_update = step.has_update,
                       .has_collectives = step.has_collectives};
  std::vector<CallStructure>& out = all.calls;
  out.reserve(calls.size());
  for (const Call* call : calls) {
    out.push_back(
        {.name = call->name, .operation = call->operation, .is_module = call->is_module, .gradients = {}});
    for (const Gradient& gradient : call->gradients)
      out.back().gradients.emplace_back(gradient.shapes, gradient.elements);
  }
  return all;
}

/// The trace holds the step in part, so that find_gradient_sizes() left out some of its gradients.
bool lacks_sizes(const std::vector<const Call*>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call* call) {
    return std::any_of(call->gradients.begin(), call->gradients.end(),
                       [](const Gradient& gradient) { return gradient.elements == 0; });
  });
}

using StepNumbers = std::vector<std::int32_t>;

/// Where some steps have gradients, the others are not steps of training.
bool has_gradients(const std::vector<const Call*>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const Call* call) { return !call->gradients.empty(); });
}

class Choice {
 public:
  Choice(const Calls& calls, const std::vector<double>& lengths_us)
      : calls_(calls), lengths_us_(lengths_us), by_step_(calls_by_step(calls)) {}

  UsedSteps run() && {
    find_groups();
    for (const StepNumbers& group : groups_)
      for (const std::int32_t step : group)
        if (is_whole(group, step)) out_.measured.push_back(step);
    std::sort(out_.measured.begin(), out_.measured.end());
    out_.lengths_us = known(out_.measured);
    median_us_ = out_.median_us();
    const StepNumbers* const group = chosen();
    if (group == nullptr) return std::move(out_);
    out_.alike = group->size();
    if (out_.measured.empty()) out_.lengths_us = known(out_.measured = *group);
    median_us_ = out_.median_us();
    out_.steps = used(*group);
    out_.used_us = median(known(out_.steps));
    return std::move(out_);
  }

 private:
  double length_us(std::int32_t step) const {
    const auto at = static_cast<std::size_t>(step);
    return at < lengths_us_.size() ? lengths_us_[at] : 0;
  }
  std::vector<double> known(const StepNumbers& steps) const {
    std::vector<double> out;
    for (const std::int32_t step : steps)
      if (length_us(step) > 0) out.push_back(length_us(step));
    return out;
  }
  double from_median(double us) const { return std::abs(us - median_us_); }
  bool is_about_median(double us) const { return from_median(us) <= kAboutAsLong * median_us_; }

  void find_groups() {
    const auto is_complete = [](const Step& step) { return step.first_lost_ns == INT64_MAX; };
    const bool any_complete = std::any_of(calls_.steps.begin(), calls_.steps.end(), is_complete);
    std::map<StepStructure, StepNumbers> alike;
    trains_ = std::any_of(by_step_.begin(), by_step_.end(), has_gradients);
    for (std::size_t step = 0; step < by_step_.size(); ++step) {
      if (by_step_[step].empty() || lacks_sizes(by_step_[step])) continue;
      ++out_.with_layers;
      if (any_complete && !is_complete(calls_.steps[step])) continue;
      alike[structure_of(by_step_[step], calls_.steps[step])].push_back(static_cast<std::int32_t>(step));
    }
    for (auto& [structure, steps] : alike) groups_.push_back(std::move(steps));
    std::sort(groups_.begin(), groups_.end());  // by their first steps
  }

  /// A step that the trace may hold in part is whole if another one is like it.
  bool is_whole(const StepNumbers& group, std::int32_t step) const {
    const auto at = static_cast<std::size_t>(step);
    return length_us(step) > 0 && (!trains_ || has_gradients(by_step_[at])) &&
           (!calls_.steps[at].may_be_partial || group.size() > 1);
  }

  const StepNumbers* chosen() const {
    const StepNumbers* out = nullptr;
    using Rank = std::tuple<bool, bool, double, double>;
    Rank best;
    for (const StepNumbers& group : groups_) {
      const std::vector<double> lengths = whole_lengths(group);
      if (lengths.empty() && !out_.lengths_us.empty()) continue;
      const double us = median(lengths);
      const bool is_near = is_about_median(us);
      const auto size = static_cast<double>(group.size());
      const Rank rank = {2 * lengths.size() > out_.lengths_us.size(), is_near,
                         is_near ? size : -from_median(us), is_near ? -from_median(us) : size};
      if (out != nullptr && rank <= best) continue;
      best = rank;
      out = &group;
    }
    return out;
  }

  std::vector<double> whole_lengths(const StepNumbers& group) const {
    std::vector<double> out;
    for (const std::int32_t step : group)
      if (is_whole(group, step)) out.push_back(length_us(step));
    return out;
  }

  /// Those of unknown length are used, too, where they cannot be much longer or shorter than the others.
  StepNumbers used(const StepNumbers& group) const {
    StepNumbers out;
    for (const std::int32_t step : group)
      if (length_us(step) > 0) out.push_back(step);
    const bool is_steady = std::all_of(out.begin(), out.end(),
                                       [&](std::int32_t step) { return is_about_median(length_us(step)); });
    return is_steady ? group : out;
  }

  const Calls& calls_;
  const std::vector<double>& lengths_us_;
  CallsByStep by_step_;
  std::vector<StepNumbers> groups_;
  bool trains_ = false;
  double median_us_ = 0;  ///< of all whole steps
  UsedSteps out_;
};

}  // namespace

CallsByStep calls_by_step(const Calls& calls) {
  CallsByStep out(calls.steps.size());
  for (const Call& call : calls.calls)
    if (call.step >= 0 && (call.has_kernel || call.backward_ns > 0 || !call.gradients.empty()))
      out[static_cast<std::size_t>(call.step)].push_back(&call);
  return out;
}

double UsedSteps::median_us() const { return median(lengths_us); }

bool UsedSteps::differs() const {
  const bool is_minority = 2 * alike < lengths_us.size();
  return is_minority || std::abs(used_us - median_us()) > kAboutAsLong * median_us();
}

std::size_t period_of(const std::vector<double>& lengths_us) {
  constexpr std::size_t kMost = 8;
  constexpr double kDiffers = 0.1;
  const auto all_near = [&](std::size_t period, double tolerance) {
    std::size_t pairs = 0;
    for (std::size_t i = 0; i + period < lengths_us.size(); ++i) {
      const double a = lengths_us[i];
      const double b = lengths_us[i + period];
      if (a <= 0 || b <= 0) continue;
      ++pairs;
      if (std::abs(a - b) > tolerance * std::max(a, b)) return false;
    }
    return pairs >= period;
  };
  if (all_near(1, kDiffers)) return 1;
  for (std::size_t period = 2; period <= kMost; ++period)
    if (all_near(period, kAboutAsLong)) return period;
  return 1;
}

UsedSteps choose_steps(const Calls& calls, const std::vector<double>& lengths_us) {
  return Choice(calls, lengths_us).run();
}

double median(std::vector<double> values) {
  return values.empty() ? 0 : core::quantile(std::move(values), 0.5);
}

double spread(const std::vector<double>& values) {
  return values.empty() ? 0 : core::statistics(values).spread;
}

}  // namespace kineto
