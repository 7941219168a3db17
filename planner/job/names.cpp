#include "planner/job/names.hpp"

#include <cstddef>

namespace planner {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient) {
  const Gradient& at = workload.gradients[gradient];
  return workload.profile->layers[at.layer].tensors[at.tensor].name;
}

const std::string& step_name(const Workload& workload, const BackwardStep& step) {
  const core::ProfileLayer& layer = workload.profile->layers[step.layer];
  return step.tensor == BackwardStep::kWholeLayer ? layer.name : layer.tensors[step.tensor].name;
}

std::string enclosing(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string module_of(const Workload& workload, std::uint32_t gradient) {
  const std::string& name = tensor_name(workload, gradient);
  const core::ProfileLayer& layer = workload.profile->layers[workload.gradients[gradient].layer];
  if (layer.module) return *layer.module;
  if (name == layer.name) return name;
  if (layer.kind == "multiheadattention" && name.starts_with(layer.name + '.')) return layer.name;
  return enclosing(name);
}

}  // namespace planner
