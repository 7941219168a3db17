#include "planner/graph/task_factors.hpp"

#include <algorithm>

#include "sim/draws.hpp"
#include "sim/worker_times.hpp"

namespace planner {
namespace {

std::uint64_t bits_of(const Jitter& jitter, std::int64_t worker, const TaskLabel& label) {
  return sim::hash(jitter.seed, static_cast<std::uint64_t>(worker), label.iteration,
                   static_cast<std::uint64_t>(label.kind), label.item);
}

/// A normal factor, clamped at 0; its mean is 1 if sigma is well below 1.
double normal_mean_one(std::uint64_t bits, double sigma) {
  return std::max(0.0, 1 + sigma * sim::standard_normal(bits));
}

}  // namespace

TaskSigmas::TaskSigmas(const Setting& setting) : all_(setting.conditions.jitter.sigma) {
  if (setting.conditions.jitter.distribution != Jitter::Distribution::measured) return;
  measured_.emplace(setting);
  for (const BackwardStep& step : setting.workload.backward)
    backward_.push_back(measured_->backward[step.layer]);
}

double TaskSigmas::of(TaskLabel::Kind kind, std::uint32_t item) const {
  if (!measured_) return all_;
  switch (kind) {
    case TaskLabel::Kind::forward: return measured_->forward[item % measured_->forward.size()];
    case TaskLabel::Kind::backward: return backward_[item % backward_.size()];
    case TaskLabel::Kind::micro_batch_forward: return measured_->micro_batch_forward;
    case TaskLabel::Kind::micro_batch_backward: return measured_->micro_batch_backward;
    default: return all_;  // the spread of encoding and updates is not measured
  }
}

double TaskSigmas::max() const {
  double out = all_;
  if (!measured_) return out;
  for (const std::vector<double>* sigmas : {&measured_->forward, &measured_->backward})
    for (const double sigma : *sigmas) out = std::max(out, sigma);
  return out;
}

double task_factor(const Jitter& jitter, double sigma, std::int64_t worker, const TaskLabel& label) {
  if (sigma == 0) return 1;
  const std::uint64_t bits = bits_of(jitter, worker, label);
  return jitter.distribution == Jitter::Distribution::normal ? normal_mean_one(bits, sigma)
                                                             : sim::lognormal_mean_one(bits, sigma);
}

double longest_draw(const Setting& setting) {
  const double sigma = TaskSigmas(setting).max();
  if (setting.conditions.jitter.distribution == Jitter::Distribution::normal)
    return 1 + sim::kFurthestNormal * sigma;
  return sim::longest_lognormal(sigma);
}

TaskFactors::TaskFactors(const Setting& setting)
    : jitter_(setting.conditions.jitter),
      sigmas_(setting),
      slowdowns_(slowdowns(setting)),
      straggles_(std::ranges::any_of(slowdowns_, [](double s) { return s != 1; })) {
  select(0, slowdowns_.size());
}

void TaskFactors::select(std::size_t first, std::size_t count) {
  first_ = first;
  states_.clear();
  bits_.resize(count);
  factors_.resize(count);
}

std::span<const double> TaskFactors::of(const TaskLabel& label) {
  const double sigma = sigmas_.of(label.kind, label.item);
  const std::span<const double> slowdowns = std::span(slowdowns_).subspan(first_, factors_.size());
  if (sigma == 0) return straggles_ ? slowdowns : std::span<const double>();
  if (label.iteration != iteration_ || label.kind != kind_ || states_.empty()) {
    iteration_ = label.iteration;
    kind_ = label.kind;
    states_.resize(bits_.size());
    for (std::size_t n = 0; n < states_.size(); ++n)
      states_[n] = sim::hash(jitter_.seed, first_ + n, iteration_, static_cast<std::uint64_t>(kind_));
  }
  sim::hash_on(states_, label.item, bits_);
  if (jitter_.distribution == Jitter::Distribution::normal)
    std::ranges::transform(bits_, factors_.begin(),
                           [&](std::uint64_t bits) { return normal_mean_one(bits, sigma); });
  else
    sim::lognormal_mean_one(bits_, sigma, factors_);
  if (straggles_)
    for (std::size_t n = 0; n < factors_.size(); ++n) factors_[n] = slowdowns[n] * factors_[n];
  return factors_;
}

}  // namespace planner
