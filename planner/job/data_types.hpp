// The element types of a job: those in which gradients are reduced and parameters gathered may differ from
// the type of the profile's gradients.

#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "core/profile.hpp"

namespace planner {

/// An absent type is the profile's; without `master` there are no master parameters.
struct DataTypes {
  std::optional<core::Dtype> reduce = {};      ///< of gradients while they are summed over the workers
  std::optional<core::Dtype> gather = {};      ///< of parameters while they are gathered
  std::optional<core::Dtype> gradients = {};   ///< of gradients where backward leaves them
  std::optional<core::Dtype> parameters = {};  ///< of parameters, or their shards, between iterations
  std::optional<core::Dtype> master = {};      ///< of the copy of the parameters that the optimizer updates

  bool any() const { return *this != DataTypes{}; }
  bool operator==(const DataTypes&) const = default;
};

/// The bytes that a collective carries for each byte of gradients in the profile's type.
struct Wire {
  double reduce = 1;
  double gather = 1;

  bool is_usual() const { return reduce == 1 && gather == 1; }
  bool operator==(const Wire&) const = default;
};

/// `gathers_parameters`: whether all-gathers carry parameters, rather than reduced gradients.
Wire wire_of(const DataTypes& types, core::Dtype profile, bool gathers_parameters);

/// Reads `{"reduce": "float32", "gather": "bfloat16"}`; throws InputError.
DataTypes read_data_types(const core::Field& field);
/// Writes the form that read_data_types() reads.
nlohmann::ordered_json data_types_json(const DataTypes& types);

}  // namespace planner
