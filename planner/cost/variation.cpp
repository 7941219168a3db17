#include "planner/cost/variation.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace planner {
namespace {

using core::ProfileLayer;

/// Sigma from the interquartile range of normally distributed samples with a small spread.
double spread_sigma(double time_us, const std::optional<double>& spread_us) {
  constexpr double kRangeOfNormal = 1.349;  // quartiles are 0.6745 standard deviations from the mean
  constexpr double kMaxSigma = 2;
  if (!spread_us || time_us == 0) return 0;
  return std::min(kMaxSigma, *spread_us / (kRangeOfNormal * time_us));
}

/// Sigma of the sum of a pass whose layers vary independently.
class SumSigma {
 public:
  void add(double time_us, double sigma) {
    total_us_ += time_us;
    variance_ += sigma * time_us * sigma * time_us;
  }
  double sigma() const { return total_us_ > 0 ? std::sqrt(variance_) / total_us_ : 0; }

 private:
  double total_us_ = 0;
  double variance_ = 0;
};

}  // namespace

Variation::Variation(const Setting& setting) {
  const double jitter = setting.conditions.jitter.sigma;
  SumSigma all_forward;
  SumSigma all_backward;
  bool varies = false;
  const auto add = [&](double us, double spread, std::vector<double>& sigmas, SumSigma& sum) {
    sigmas.push_back(us > 0 ? std::max(jitter, spread) : 0);
    sum.add(us, spread);
    varies = varies || sigmas.back() > 0;
  };
  for (const ProfileLayer& layer : setting.workload.profile->layers) {
    add(layer.forward_us, spread_sigma(layer.forward_us, layer.forward_spread_us), forward, all_forward);
    add(layer.backward_us, spread_sigma(layer.backward_us, layer.backward_spread_us), backward, all_backward);
  }
  micro_batch_forward = std::max(jitter, all_forward.sigma());
  micro_batch_backward = std::max(jitter, all_backward.sigma());
  if (varies)
    tasks = static_cast<std::int64_t>(2 * forward.size()) + 2 * (setting.conditions.accumulation_steps - 1);
}

}  // namespace planner
