// The input of a fusion: an iteration whose gradients are to be grouped.

#pragma once

#include <memory>

#include "planner/choose/iteration.hpp"
#include "planner/choose/iteration_spec.hpp"
#include "planner/job/grouping.hpp"

namespace planner {

struct FusionRequest : IterationSpec {
  using IterationSpec::IterationSpec;
  /// The same request in another setting.
  FusionRequest(const Setting& other, const FusionRequest& like);

  /// Predicts the length of an iteration; constructed on first use.
  const IterationModel& model() const;

 private:
  mutable std::unique_ptr<const IterationModel> model_;
};

/// The value of these groups, as IterationModel::value() defines it.
sim::Time evaluate(const FusionRequest& request, const Groups& groups);

/// The mean iteration time of these groups, including the input's maximum, without jitter. As fast as the
/// request's model.
double iteration_us(const FusionRequest& request, const Groups& groups);

/// A lower bound of the iteration time over all groupings, including the input's maximum, without jitter. If
/// collectives are simulated rank by rank, it counts only the compute of the slowest worker.
double lower_bound_us(const FusionRequest& request);

}  // namespace planner
