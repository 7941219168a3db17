#include "planner/advise/consider/break_even.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "core/scaled.hpp"
#include "planner/cost/derived.hpp"
#include "planner/schedule/choice.hpp"

namespace planner::considered {
namespace {

/// Evaluates whether one candidate pays at given bandwidths.
class Asking {
 public:
  Asking(Bandwidths& bandwidths, const Candidate& candidate, double extra)
      : bandwidths_(bandwidths), candidate_(candidate), extra_(extra) {}

  /// None if times exceed what can be simulated.
  std::optional<bool> pays(double bandwidth) {
    try {
      return pays(bandwidths_.at(bandwidth));
    } catch (const Unsupported&) {
      return std::nullopt;
    }
  }

 private:
  bool pays(const Elsewhere& at) {
    const FusionRequest request = request_of(at.setting, candidate_.schedule);
    const auto are_sooner = [&](const Groups& groups) {
      const double us = described(request, candidate_.schedule, groups, {}, extra_).weighed_us;
      return is_sooner(us, at.dense.candidate.weighed_us);
    };
    // the best groups of the previous network, or of the uncompressed plan, often suffice; or no groups are
    // possible
    if (!known_.empty() && are_sooner(known_)) return true;
    const double min_us = lower_bound_us(request) * std::min(extra_, 1.0);
    if (!is_sooner(min_us, at.dense.candidate.weighed_us)) return false;
    if (!candidate_.is_per_group && are_sooner(at.dense.plan.groups)) return true;
    known_ = candidate_.is_per_group ? quickly_chosen(at, request)
                                     : candidate_.schedule.fusion.fuse(request).groups;
    return are_sooner(known_);
  }

  Groups quickly_chosen(const Elsewhere& at, const FusionRequest& request) const {
    const Compressor& compressor = candidate_.schedule.compressor;
    const Schedule whole = compressed_of(bandwidths_.dense(), compressor, false);
    return quick_choice(request, at.dense.plan, planned(at.setting, whole, {}, 1).plan);
  }

  Bandwidths& bandwidths_;
  const Candidate& candidate_;
  double extra_;
  Groups known_;
};

/// Finds by bisection where between two bandwidths paying begins or ends.
double edge(double low, double high, const std::function<bool(double)>& is_as_low) {
  constexpr double kNear = 1 + 4e-4;
  while (high > low * kNear) {
    const double middle = std::sqrt(low * high);
    (is_as_low(middle) ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

}  // namespace

Elsewhere::Elsewhere(const Setting& like, double bandwidth, const Schedule& dense_schedule)
    : network(core::scaled(with_derived(*like.network, like.costs.workers(), like.costs.algorithm()), 1,
                           1 / bandwidth)),
      setting(*like.workload.profile, network, like.costs.workers(), like.costs.algorithm(), like.conditions),
      dense(planned(setting, dense_schedule, {}, 1)) {}

BreakEven break_even(Bandwidths& bandwidths, const Candidate& candidate, double extra) {
  Asking asking(bandwidths, candidate, extra);
  const auto pays = [&](double bandwidth) { return asking.pays(bandwidth); };
  BreakEven out = {.compressor = candidate.compressor,
                   .density = candidate.density,
                   .is_per_group = candidate.is_per_group};
  std::optional<double> last;
  bool was = false;
  constexpr int kDoublings = 12;
  static_assert(kBandwidths.from * (1 << kDoublings) == kBandwidths.to);
  for (int doubling = 0; doubling <= kDoublings; ++doubling) {
    const double bandwidth = kBandwidths.from * (1 << doubling);
    const std::optional<bool> now = pays(bandwidth);
    if (!now) continue;
    double from = bandwidth;
    if (!last)
      out.looked_from = bandwidth;
    else if (*now != was)
      from = edge(*last, bandwidth, [&](double middle) { return pays(middle).value_or(was) == was; });
    if (*now && !was) out.pays.push_back({.from = from, .to = bandwidth});
    if (*now || was) out.pays.back().to = *now ? bandwidth : from;
    last = bandwidth;
    was = *now;
  }
  return out;
}

}  // namespace planner::considered
