// Prediction interval of an iteration: simulates the same groups repeatedly with layer and collective times
// sampled from the measured spread.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "planner/run/predict.hpp"

namespace planner {

/// The share of sampled iterations inside the interval.
constexpr double kIntervalShare = 0.95;

/// The numbers of samples without a request. With fewer, the ends of an interval would be single samples.
constexpr std::int64_t kMinSamples = 40;
constexpr std::int64_t kMaxSamples = 200;

/// The range that holds 95 % of the sampled iterations, without the slowest and the fastest 2.5 %, widened to
/// hold the prediction itself.
struct Interval {
  double low_us = 0;
  double high_us = 0;
  std::int64_t samples = 0;
  /// The iterations by sample. Runs on the same profile, network and number of workers have the same factors
  /// in the same sample.
  std::vector<double> sampled_us = {};
  /// The share of the samples in which this run takes longer than the fastest one that it is compared with.
  std::optional<double> slower_share = {};
};

/// The least `slower_share` of a run that is certainly slower than the fastest one.
constexpr double kToldApartShare = 0.975;

/// The share of the samples that both have in which the first takes longer.
double slower_share(const Interval& one, const Interval& other);

/// Whether the profile, a curve for this number of workers, or the speed of workers has a spread.
bool has_spread(const Setting& setting);

/// The work of simulating a run once more, without its critical path, in steps of about a nanosecond. It is
/// counted from tasks, workers and messages, so that it is the same on every machine.
double work_of(const Setting& setting, const Simulated& simulated);

/// The interval of a run that takes `iteration_us`, from what it takes in each sample. Calls `progress` after
/// each. None if all samples take as long.
std::optional<Interval> interval_of(double iteration_us, std::int64_t samples,
                                    const std::function<double(std::uint64_t sample)>& sampled_us,
                                    const std::function<void(std::int64_t done)>& progress = {});

/// In each sample the forward and backward of each layer and each measured size of a collective take a
/// lognormal factor of mean 1, from a seed; the factors are the same on all workers, as they express the
/// uncertainty of the inputs. So does the spread of the workers' speeds (sampled_inputs.hpp). Calls
/// `progress` after each sample. None if no input in use has a spread. Throws Unsupported if a sample exceeds
/// what can be simulated.
std::optional<Interval> interval(const Setting& setting, const Schedule& schedule, const Run& run,
                                 std::int64_t samples = kMaxSamples,
                                 const std::function<void(std::int64_t done)>& progress = {});

}  // namespace planner
