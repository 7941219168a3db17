// The types of gradients in frameworks that reduce them as they are: in the type that the job's own gradients
// have, unless a hook or an option converts them on the way.

#pragma once

#include <string>
#include <string_view>

#include "planner/emit/emitters/caps.hpp"
#include "planner/job/data_types.hpp"
#include "planner/job/workload.hpp"

namespace planner {

struct GradientTypes {
  core::Dtype own;   ///< in which the job's gradients are held, and buckets count them
  core::Dtype sent;  ///< in which they are reduced, as it was priced

  /// Whether they are converted to fewer bytes on the way.
  bool converts() const { return core::bytes_per_element(own) > core::bytes_per_element(sent); }
};

/// The types of a job that has to be priced so. Gradients are only converted to fewer bytes: where more bytes
/// are reduced than the plan's gradients have, the job's own gradients are taken to have as many.
GradientTypes gradient_types(const DataTypes& types, core::Dtype profile);

/// The bytes of the gradients in this type.
Sizes gradient_bytes_in(core::Dtype dtype, const Workload& workload);

/// What holds only for a job whose gradients have this type, if the profile has another; otherwise empty.
std::string types_note(std::string_view framework, const GradientTypes& types, core::Dtype profile);

}  // namespace planner
