#include "profiler/traces/kineto/marked_steps.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/statistics.hpp"
#include "profiler/traces/kineto/collective_size.hpp"

namespace kineto {
namespace {

std::optional<std::int64_t> number_in(const std::string& label) {
  std::int64_t number = 0;
  const char* const end = label.data() + label.size();
  const auto [stopped, error] = std::from_chars(label.data(), end, number);
  if (error != std::errc() || stopped != end || number == INT64_MAX) return std::nullopt;
  return number;
}

double middle(std::vector<double> values) {
  return values.empty() ? 0 : core::quantile(std::move(values), 0.5);
}

Step* step_at(std::vector<Step>& steps, std::int64_t ns) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), ns,
                                      [](std::int64_t at, const Step& step) { return at < step.start_ns; });
  return after == steps.begin() || ns >= (after - 1)->end_ns ? nullptr : &*(after - 1);
}

bool sums_gradients(const Trace& trace, const Kernel& kernel) {
  if (kernel.collective < 0) return false;
  const std::optional<core::CollectiveKind> kind = kind_of(trace, kernel);
  return kind == core::CollectiveKind::all_reduce || kind == core::CollectiveKind::reduce_scatter;
}

/// Markers that are within another are the same step on another thread, or part of it.
std::vector<Step> without_repeated(std::vector<Step> steps) {
  std::vector<Step> out;
  for (Step& step : steps)
    if (out.empty() || step.start_ns >= out.back().end_ns ||
        (out.back().label != step.label && step.end_ns > out.back().end_ns))
      out.push_back(std::move(step));
  return out;
}

/// How a step shows that it ends an iteration: what some steps with gradients hold, and others do not.
bool Step::*sign_of_end(const std::vector<Step>& steps) {
  for (bool Step::*sign : {&Step::has_update, &Step::has_collectives}) {
    const auto has = [&](const Step& step) { return step.has_gradients && step.*sign; };
    const auto lacks = [&](const Step& step) { return step.has_gradients && !(step.*sign); };
    if (std::any_of(steps.begin(), steps.end(), has))
      return std::any_of(steps.begin(), steps.end(), lacks) ? sign : nullptr;
  }
  return nullptr;
}

void join(Step& step, const Step& next) {
  step.end_ns = next.end_ns;
  step.last_label = next.last_label;
  step.markers += next.markers;
  step.has_update = step.has_update || next.has_update;
  step.has_collectives = step.has_collectives || next.has_collectives;
}

}  // namespace

void describe_steps(const Trace& trace, std::vector<Step>& steps) {
  std::unordered_map<const Step*, std::int64_t> first_gradient_ns;
  for (const Range& range : trace.ranges) {
    const std::string_view name = trace.texts[range.name];
    const bool is_update = name.substr(0, 14) == "Optimizer.step";
    const bool is_gradient = name.find("torch::autograd::AccumulateGrad") != std::string_view::npos;
    if (!is_update && !is_gradient) continue;
    Step* const step = step_at(steps, range.start_ns);
    if (step == nullptr) continue;
    (is_update ? step->has_update : step->has_gradients) = true;
    if (is_gradient) first_gradient_ns.try_emplace(step, range.start_ns);
  }
  std::unordered_map<std::int64_t, std::int64_t> launched_ns;
  for (const Kernel& kernel : trace.kernels)
    if (sums_gradients(trace, kernel) && kernel.correlation != 0)
      launched_ns.try_emplace(kernel.correlation, 0);
  for (const Launch& launch : trace.launches) {
    if (launched_ns.find(launch.correlation) == launched_ns.end()) continue;
    Step* const step = step_at(steps, launch.at_ns);
    const auto first = first_gradient_ns.find(step);
    if (first != first_gradient_ns.end() && launch.at_ns >= first->second) step->has_collectives = true;
  }
}

std::vector<Step> joined_steps(const Trace& trace, std::vector<Step> marked) {
  std::vector<Step> steps = without_repeated(std::move(marked));
  describe_steps(trace, steps);
  bool Step::*const sign = sign_of_end(steps);
  if (sign == nullptr) return steps;
  const StepGaps gaps(steps, true);
  std::vector<Step> out;
  bool goes_on = false;
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& step = steps[at];
    if (goes_on)
      join(out.back(), step);
    else
      out.push_back(step);
    goes_on = step.has_gradients && !(step.*sign) && gaps.has_next(at) && steps[at + 1].has_gradients;
    // It is not told that the trace holds the first micro-batches, or the last.
    if (!goes_on && (out.size() == 1 || !(out.back().*sign))) out.back().may_be_partial = true;
  }
  return out;
}

std::string numbers_text(const std::vector<Step>& steps, const std::vector<std::int32_t>& which) {
  constexpr std::size_t kMostRuns = 8;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  for (const std::int32_t each : which) {
    const Step& step = steps[static_cast<std::size_t>(each)];
    const std::int64_t first = number_in(step.label).value_or(each + 1);
    const std::int64_t last = number_in(step.last_label).value_or(first);
    if (!runs.empty() && runs.back().second + 1 == first)
      runs.back().second = last;
    else
      runs.emplace_back(first, last);
  }
  std::string out;
  for (std::size_t i = 0; i < runs.size() && i < kMostRuns; ++i)
    out += fmt::format("{}{}{}", i == 0 ? "" : ", ", runs[i].first,
                       runs[i].first == runs[i].second ? "" : fmt::format(" to {}", runs[i].second));
  return runs.size() > kMostRuns ? out + " and others" : out;
}

StepGaps::StepGaps(const std::vector<Step>& steps, bool are_marked) : steps_(steps), are_marked_(are_marked) {
  std::vector<double> lengths;
  std::vector<double> gaps;
  for (const Step& step : steps) lengths.push_back(static_cast<double>(step.end_ns - step.start_ns));
  longest_ns_ = middle(std::move(lengths)) / 2;
  for (std::size_t at = 0; at < steps.size(); ++at)
    if (has_next(at)) gaps.push_back(std::max(0.0, after_ns(at)));
  usual_ns_ = std::llround(middle(std::move(gaps)));
}

bool StepGaps::has_next(std::size_t at) const {
  if (at + 1 >= steps_.size()) return false;
  const std::optional<std::int64_t> number = number_in(steps_[at].last_label);
  const std::optional<std::int64_t> next = number_in(steps_[at + 1].label);
  return !are_marked_ || (number && next && *number + 1 == *next) || after_ns(at) <= longest_ns_;
}

double StepGaps::after_ns(std::size_t at) const {
  return static_cast<double>(steps_[at + 1].start_ns - steps_[at].end_ns);
}

}  // namespace kineto
