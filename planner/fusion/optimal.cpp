// The exact optimum of the pipeline.

#include "planner/fusion.hpp"
#include "planner/pareto.hpp"
#include "planner/pipeline.hpp"

namespace planner {
namespace {

Fuse read(const models::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return [](const FusionRequest& request) { return request.pipeline.optimal(request).groups; };
}

}  // namespace

FusionKind optimal_fusion() { return {"optimal", "the grouping that no other beats", read}; }

}  // namespace planner
