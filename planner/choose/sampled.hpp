// Iterations that vary: what workers compute and what collectives take is drawn from a seed, and every
// grouping meets the same draws.

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

/// One task of a worker that varies: what a draw is for, with a seed, a sample and a worker.
enum class SampledPass : std::uint64_t {
  forward,               ///< of a layer
  backward,              ///< of a layer, all its parts together
  micro_batch_forward,   ///< of a whole micro-batch, and so for the next one
  micro_batch_backward,  ///< those before the last, which alone communicates
};

/// The factor, of mean 1, that `item` (a layer or a micro-batch) takes longer on a worker in one sample.
double sample_factor(std::uint64_t seed, std::uint64_t sample, std::int64_t worker, SampledPass pass,
                     std::uint32_t item, double sigma);

/// One iteration of all workers as the workload of one: since collectives start when the slowest worker has
/// issued them, a gradient is ready when the last worker has it, and the forward pass from a layer on takes
/// as long as on the slowest worker. All start the iteration at once; a worker goes on to backward when its
/// own forward pass has ended. Micro-batches before the last come first in backward. Exact where forward
/// waits for nothing on its way (not in dear); coding and update do not vary. Throws Unsupported where draws
/// add up to more than can be simulated.
Workload sampled_workload(const Setting& setting, const Variation& variation, std::uint64_t seed,
                          std::uint64_t sample);

struct Sampling {
  std::int64_t samples = 64;
  std::uint64_t seed = 1;
  /// All collectives of a sample take one lognormal factor of mean 1 longer: its sigma.
  double communication_sigma = 0;
};

/// What is minimised over samples.
enum class Statistic {
  mean,
  p95,  ///< nearest rank
};
std::string_view name(Statistic statistic);
/// Of at least one value; the mean is rounded down.
sim::Time of(Statistic statistic, std::vector<sim::Time> values);

/// A request's iterations as drawn. Refers to the request's setting.
class Samples {
 public:
  Samples(const FusionRequest& request, const Sampling& sampling);
  ~Samples();

  /// One where nothing varies: the others would be the same.
  std::size_t count() const { return samples_.size(); }
  const FusionRequest& request(std::size_t sample) const;
  /// Of the same groups in each sample: all its micro-batches, read and update included.
  std::vector<sim::Time> values(const Groups& groups) const;

 private:
  struct Sample;

  std::vector<std::unique_ptr<const Sample>> samples_;
};

}  // namespace planner
