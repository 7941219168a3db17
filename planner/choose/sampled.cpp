#include "planner/choose/sampled.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/scaled.hpp"
#include "core/statistics.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::ProfileLayer;
using sim::Time;

/// The compute times of one worker in one sample.
class SampledWorker {
 public:
  SampledWorker(const Setting& setting, const Variation& variation, std::uint64_t seed, std::uint64_t sample,
                std::int64_t id, double slowdown)
      : profile_(*setting.workload.profile),
        variation_(variation),
        seed_(seed),
        sample_(sample),
        id_(id),
        slowdown_(slowdown) {}

  Time forward(std::uint32_t layer) {
    return task(profile_.layers[layer].forward_us, SampledPass::forward, layer, variation_.forward[layer]);
  }

  /// The steps of a layer share its random factor.
  Time backward(const BackwardStep& step) {
    const ProfileLayer& layer = profile_.layers[step.layer];
    const double us = step.tensor == BackwardStep::kWholeLayer ? layer.backward_us
                                                               : *layer.tensors[step.tensor].backward_us;
    return task(us, SampledPass::backward, step.layer, variation_.backward[step.layer]);
  }

  /// The time of all micro-batches but the last.
  Time micro_batches(std::int64_t count) {
    Time out{};
    const double forward_us = core::forward_us(profile_);
    const double backward_us = core::backward_us(profile_);
    for (std::uint32_t batch = 0; batch + 1 < count; ++batch) {
      out += task(forward_us, SampledPass::micro_batch_forward, batch, variation_.micro_batch_forward);
      out += task(backward_us, SampledPass::micro_batch_backward, batch, variation_.micro_batch_backward);
    }
    return out;
  }

 private:
  Time task(double us, SampledPass pass, std::uint32_t item, double sigma) {
    const double sampled = us * slowdown_ * sample_factor(seed_, sample_, id_, pass, item, sigma);
    all_us_ += sampled;
    if (all_us_ > sim::kMaxUs / 4) too_long(all_us_);
    return sim::from_us(sampled);
  }

  const core::Profile& profile_;
  const Variation& variation_;
  std::uint64_t seed_;
  std::uint64_t sample_;
  std::int64_t id_;
  double slowdown_;
  double all_us_ = 0;
};

/// The latest times over all workers.
struct Latest {
  std::vector<Time> forward_from;  ///< by layer: rest of the forward pass
  std::vector<Time> step_end;      ///< by backward step: time since the iteration began

  explicit Latest(const Workload& workload)
      : forward_from(workload.forward.size()), step_end(workload.backward.size()) {}

  void add(SampledWorker worker, const Workload& workload, std::int64_t micro_batches) {
    Time at{};
    for (auto layer = static_cast<std::uint32_t>(forward_from.size()); layer-- > 0;) {
      at += worker.forward(layer);
      forward_from[layer] = std::max(forward_from[layer], at);
    }
    at += worker.micro_batches(micro_batches);
    for (std::size_t step = 0; step < step_end.size(); ++step) {
      at += worker.backward(workload.backward[step]);
      step_end[step] = std::max(step_end[step], at);
    }
  }
};

/// The workload with the layers of `like` and these times.
Workload workload_of(const Latest& latest, const Workload& like) {
  Workload out = like;
  out.forward_total = latest.forward_from.front();
  for (std::size_t layer = 0; layer < out.forward.size(); ++layer) {
    const bool last = layer + 1 == out.forward.size();
    out.forward[layer] = latest.forward_from[layer] - (last ? Time{} : latest.forward_from[layer + 1]);
  }
  Time begin = out.forward_total;
  for (std::size_t step = 0; step < out.backward.size(); ++step) {
    out.backward[step].duration = latest.step_end[step] - begin;
    begin = latest.step_end[step];
  }
  for (Gradient& gradient : out.gradients)
    gradient.ready = latest.step_end[gradient.backward_step] - out.forward_total;
  out.backward_total = latest.step_end.back() - out.forward_total;
  return out;
}

double communication_factor(const Sampling& sampling, std::uint64_t sample) {
  constexpr std::uint64_t kNoWorker = UINT64_MAX;
  if (sampling.communication_sigma == 0) return 1;
  return sim::lognormal_mean_one(sim::hash(sampling.seed, sample, kNoWorker), sampling.communication_sigma);
}

/// A network whose collectives, including summation, take `factor` times as long.
core::Network slower(const core::Network& network, double factor) {
  core::Network out = core::scaled(network, factor, factor);
  if (out.link) out.link->gamma_us_per_byte *= factor;
  for (core::Level& level : out.levels) level.link.gamma_us_per_byte *= factor;
  return out;
}

/// The setting with another workload, on the given network.
Setting replaced(const Setting& setting, Workload workload, const core::Network& network) {
  Setting out = setting;
  out.workload = std::move(workload);
  out.network = &network;
  out.costs = Costs(network, setting.costs.workers(), setting.costs.algorithm());
  if (setting.extras.lars_gather > Time::zero())
    out.extras.lars_gather = out.costs.of(CollectiveKind::all_gather)
                                 .time(4 * static_cast<std::int64_t>(out.workload.forward.size()));
  return out;
}

}  // namespace

double sample_factor(std::uint64_t seed, std::uint64_t sample, std::int64_t worker, SampledPass pass,
                     std::uint32_t item, double sigma) {
  if (sigma == 0) return 1;
  return sim::lognormal_mean_one(
      sim::hash(seed, sample, static_cast<std::uint64_t>(worker), item, static_cast<std::uint64_t>(pass)),
      sigma);
}

Workload sampled_workload(const Setting& setting, const Variation& variation, std::uint64_t seed,
                          std::uint64_t sample) {
  const std::int64_t micro_batches = setting.conditions.accumulation_steps;
  Latest latest(setting.workload);
  std::vector<double> workers = slowdowns(setting);
  if (variation.tasks == 0) workers = {setting.slowdown};  // the slowest worker determines everything
  for (std::size_t id = 0; id < workers.size(); ++id)
    latest.add(SampledWorker(setting, variation, seed, sample, static_cast<std::int64_t>(id), workers[id]),
               setting.workload, micro_batches);
  return workload_of(latest, setting.workload);
}

std::string_view name(Statistic statistic) { return statistic == Statistic::mean ? "mean" : "p95"; }

Time of(Statistic statistic, std::vector<Time> values) {
  assert(!values.empty());
  const auto count = static_cast<std::int64_t>(values.size());
  if (statistic == Statistic::p95) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(core::nearest_rank(values.size(), 95));
    std::nth_element(values.begin(), at, values.end());
    return *at;
  }
  // The sum itself might exceed the range of sim::Time.
  Time whole{};
  Time rest{};
  for (const Time value : values) {
    whole += value / count;
    rest += value % count;
  }
  return whole + rest / count;
}

struct Samples::Sample {
  Sample(const FusionRequest& like, Workload workload, double factor)
      : network(factor == 1 ? std::nullopt : std::optional(slower(*like.setting.network, factor))),
        setting(replaced(like.setting, std::move(workload), network ? *network : *like.setting.network)),
        request(setting, like) {}

  std::optional<core::Network> network;
  Setting setting;
  FusionRequest request;
};

Samples::Samples(const FusionRequest& request, const Sampling& sampling) {
  const Variation variation(request.setting);
  const bool varies =
      variation.tasks > 0 || (sampling.communication_sigma > 0 && request.costs.workers() > 1);
  const std::int64_t count = varies ? sampling.samples : 1;
  for (std::uint64_t sample = 0; sample < static_cast<std::uint64_t>(count); ++sample)
    samples_.push_back(std::make_unique<const Sample>(
        request, sampled_workload(request.setting, variation, sampling.seed, sample),
        communication_factor(sampling, sample)));
}

Samples::~Samples() = default;

const FusionRequest& Samples::request(std::size_t sample) const { return samples_[sample]->request; }

std::vector<Time> Samples::values(const Groups& groups) const {
  std::vector<Time> out;
  out.reserve(samples_.size());
  for (const auto& sample : samples_) out.push_back(evaluate(sample->request, groups));
  return out;
}

}  // namespace planner
