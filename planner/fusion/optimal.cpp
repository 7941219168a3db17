// The exact optimum of the pipeline.

#include <fmt/format.h>

#include "planner/fusion.hpp"
#include "planner/pipeline.hpp"

namespace planner {
namespace {

Fuse read(const models::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return [field](const FusionRequest& request) {
    if (request.pipeline.optimal == nullptr)
      field.expected("a fusion that is built for this pipeline",
                     fmt::format("'optimal', which has no planner for pipeline {}", request.pipeline.name));
    return request.pipeline.optimal(request);
  };
}

}  // namespace

FusionKind optimal_fusion() { return {"optimal", "the grouping that no other beats", read}; }

}  // namespace planner
