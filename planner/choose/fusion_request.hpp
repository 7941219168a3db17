// What a fusion is asked: into which groups an iteration is to be cut.

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

  /// Tells how long an iteration takes; is made when first asked for.
  const IterationModel& model() const;

 private:
  mutable std::unique_ptr<const IterationModel> model_;
};

/// The iteration that these groups give, as IterationModel::value().
sim::Time evaluate(const FusionRequest& request, const Groups& groups);

/// The mean iteration that these groups give, the input's max included; jitter aside. As quick as the
/// request's model.
double iteration_us(const FusionRequest& request, const Groups& groups);

/// A time that no grouping can beat, the input's max included; jitter aside. Of collectives that go rank by
/// rank it knows nothing: it is what the slowest worker computes.
double lower_bound_us(const FusionRequest& request);

}  // namespace planner
