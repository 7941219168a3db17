// No fusion: each tensor is sent alone.

#include "planner/choose/fusion.hpp"

namespace planner {
namespace {

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind"});
  return [](const FusionRequest& request) {
    Groups groups;
    groups.reserve(request.workload.gradient_count());
    for (std::uint32_t i = 0; i < request.workload.gradient_count(); ++i)
      groups.push_back({.begin = i, .end = i + 1});
    return groups;
  };
}

}  // namespace

FusionKind no_fusion() { return {"none", "each tensor alone", read}; }

}  // namespace planner
