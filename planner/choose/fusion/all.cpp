// Puts all gradients into one group.

#include "planner/choose/fusion.hpp"

namespace planner {
namespace {

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return [](const FusionRequest& request) {
    return Groups{{.begin = 0, .end = request.workload.gradient_count()}};
  };
}

}  // namespace

FusionKind all_in_one() { return {"all", "all tensors in one group", read}; }

}  // namespace planner
