// Iterations with random times: compute and collective times are sampled from a seed, and every grouping is
// evaluated on the same samples.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/choose/fusion_request.hpp"
#include "planner/cost/setting.hpp"
#include "planner/cost/variation.hpp"
#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "sim/time.hpp"

namespace planner {

/// A random task of a worker. With a seed, a sample and a worker it identifies one random number.
enum class SampledPass : std::uint64_t {
  forward,               ///< of a layer
  backward,              ///< of a layer, all its parts together
  micro_batch_forward,   ///< of a whole micro-batch; the next enumerator too
  micro_batch_backward,  ///< micro-batches before the last, which do not communicate
};

/// The factor, with mean 1, by which `item` (a layer or micro-batch) takes longer on a worker in one sample.
double sample_factor(std::uint64_t seed, std::uint64_t sample, std::int64_t worker, SampledPass pass,
                     std::uint32_t item, double sigma);

/// The iteration of all workers as the workload of one. Collectives start when the slowest worker has issued
/// them, so a gradient is ready when the last worker has it, and forward from a layer on takes as long as on
/// the slowest worker. All workers start the iteration together; each begins backward when its own forward
/// pass ends. Micro-batches before the last come first in backward. The result is exact if forward waits for
/// no collective (so not in dear); coding and update do not vary. Throws Unsupported if the sampled times
/// exceed what can be simulated.
Workload sampled_workload(const Setting& setting, const Variation& variation, std::uint64_t seed,
                          std::uint64_t sample);

struct Sampling {
  std::int64_t samples = 64;
  std::uint64_t seed = 1;
  /// Sigma of the lognormal factor, with mean 1, that all collectives of a sample share.
  double communication_sigma = 0;
};

/// The statistic over samples that is minimised.
enum class Statistic {
  mean,
  p95,  ///< nearest rank
};
std::string_view name(Statistic statistic);
/// The statistic of at least one value; the mean is rounded down.
sim::Time of(Statistic statistic, std::vector<sim::Time> values);

/// The sampled iterations of a request. Refers to the request's setting.
class Samples {
 public:
  Samples(const FusionRequest& request, const Sampling& sampling);
  ~Samples();

  /// The number of samples; 1 if nothing varies, as all samples would be equal.
  std::size_t count() const { return samples_.size(); }
  const FusionRequest& request(std::size_t sample) const;
  /// The iteration time of the groups in each sample, including all micro-batches, reading and update.
  std::vector<sim::Time> values(const Groups& groups) const;

 private:
  struct Sample;

  std::vector<std::unique_ptr<const Sample>> samples_;
};

}  // namespace planner
