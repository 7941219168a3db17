#include "planner/run/sampled_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/scaled.hpp"
#include "planner/cost/derived.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kRangeSeed = 3;
constexpr std::uint64_t kWorkersSeed = 4;
constexpr double kMaxSigma = 2;  // the limit for jitter

/// The purpose of a random number; with the sample it identifies the number.
enum class Sampled : std::uint64_t { forward, backward, size };

/// Sigma of the logarithm from an interquartile range: quartiles of a normal distribution are 0.6745 standard
/// deviations from its mean.
double sigma_of_spread(double us, double spread_us) {
  constexpr double kRangeOfNormal = 1.349;
  return us > 0 ? std::min(kMaxSigma, spread_us / (kRangeOfNormal * us)) : 0;
}

/// Sigma of the logarithm from the 99th percentile, which is 2.326 standard deviations above the mean.
double sigma_of_p99(double us, double p99_us) {
  constexpr double kP99OfNormal = 2.326;
  return us > 0 ? std::min(kMaxSigma, sim::portable_log(p99_us / us) / kP99OfNormal) : 0;
}

/// The larger of both if both are known, so that neither is understated.
double sigma_of_point(const core::Measured& measured, std::size_t point) {
  const double us = measured.curve.points()[point].second;
  double out = 0;
  if (!measured.spread_us.empty()) out = std::max(out, sigma_of_spread(us, measured.spread_us[point]));
  if (!measured.p99_us.empty()) out = std::max(out, sigma_of_p99(us, measured.p99_us[point]));
  return out;
}

bool varies(const core::ProfileLayer& layer) {
  return layer.forward_spread_us.value_or(0) * layer.forward_us > 0 ||
         layer.backward_spread_us.value_or(0) * layer.backward_us > 0;
}

bool varies(const core::Measured& measured) {
  for (std::size_t i = 0; i < measured.curve.points().size(); ++i)
    if (sigma_of_point(measured, i) > 0) return true;
  return false;
}

double factor(std::uint64_t sample, Sampled what, std::size_t item, std::size_t point, double sigma) {
  if (sigma == 0) return 1;
  return sim::lognormal_mean_one(sim::hash(kSeed, sample, static_cast<std::uint64_t>(what), item, point),
                                 sigma);
}

/// Beyond the last point the curve keeps its original slope, times the factor of that point: two independent
/// factors would tilt the line without bound.
core::CostCurve sampled(const core::Measured& measured, std::size_t item, std::uint64_t sample) {
  constexpr double kFarTimes = 1024;
  auto points = measured.curve.points();
  double last = 1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    last = factor(sample, Sampled::size, item, i, sigma_of_point(measured, i));
    points[i].second *= last;
  }
  if (points.size() > 1) {
    const double far = points.back().first * kFarTimes;
    points.emplace_back(far, measured.curve.us(far) * last);
  }
  return core::CostCurve::through(points);
}

}  // namespace

double factor_in_range(double low, double high, std::uint64_t seed, std::uint64_t sample) {
  constexpr double kDeviationsInRange = 3.92;  // its ends lie 1.96 from the middle
  const double normal = sim::standard_normal(sim::hash(seed, sample));
  const double sigma = sim::portable_log(high / low) / kDeviationsInRange;
  return std::sqrt(low * high) * sim::portable_exp(sigma * normal);
}

bool varies(const core::Profile& profile) {
  const auto& range = profile.compute_range;
  return (range && range->high > range->low) ||
         std::ranges::any_of(profile.layers, [](const core::ProfileLayer& each) { return varies(each); });
}

bool varies(const core::Network& network, std::int64_t workers) {
  return std::ranges::any_of(
      network.measured, [&](const core::Measured& each) { return each.workers == workers && varies(each); });
}

bool varies(const Conditions& conditions, const core::Network& network, std::int64_t workers) {
  if (workers < 2 || conditions.workers_differ()) return false;
  if (conditions.worker_spread) return *conditions.worker_spread > 0;
  return conditions.stragglers.empty() && conditions.waiting_us == 0 && has_measured_nodes(network) &&
         workers > *network.levels.front().size;
}

Conditions sampled(Conditions conditions, const core::Network& network, std::int64_t workers,
                   std::uint64_t sample) {
  if (varies(conditions, network, workers))
    conditions.worker_spread = 2 * sim::uniform(sim::hash(kWorkersSeed, sample)) *
                               conditions.worker_spread.value_or(kUsualWorkerSpread);
  return conditions;
}

core::Profile sampled(const core::Profile& profile, std::uint64_t sample) {
  core::Profile out = profile;
  for (std::size_t i = 0; i < out.layers.size(); ++i) {
    core::ProfileLayer& layer = out.layers[i];
    const auto draw = [&](Sampled what, double us, const std::optional<double>& spread_us) {
      return factor(sample, what, i, 0, sigma_of_spread(us, spread_us.value_or(0)));
    };
    layer.forward_us *= draw(Sampled::forward, layer.forward_us, layer.forward_spread_us);
    const double backward = draw(Sampled::backward, layer.backward_us, layer.backward_spread_us);
    layer.backward_us *= backward;
    for (core::ProfileTensor& tensor : layer.tensors)
      if (tensor.backward_us) *tensor.backward_us *= backward;
  }
  if (!out.compute_range) return out;
  const auto [low, high] = *std::exchange(out.compute_range, std::nullopt);
  return core::scaled(out, factor_in_range(low, high, kRangeSeed, sample));
}

core::Network sampled(const core::Network& network, std::int64_t workers, std::uint64_t sample) {
  core::Network out = network;
  for (std::size_t i = 0; i < out.measured.size(); ++i)
    if (out.measured[i].workers == workers && varies(out.measured[i]))
      out.measured[i].curve = sampled(network.measured[i], i, sample);
  return out;
}

}  // namespace planner
