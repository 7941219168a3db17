#include "planner/job/data_types.hpp"

#include <string_view>

#include <nlohmann/json.hpp>

namespace planner {
namespace {

using core::Dtype;

std::optional<Dtype> read_type(const core::Field& field, std::string_view key) {
  const auto found = field.find(key);
  if (!found) return {};
  return core::dtype(found->one_of({name(Dtype::float32), name(Dtype::float16), name(Dtype::bfloat16)}));
}

double ratio(std::optional<Dtype> type, Dtype profile) {
  return static_cast<double>(core::bytes_per_element(type.value_or(profile))) /
         static_cast<double>(core::bytes_per_element(profile));
}

}  // namespace

Wire wire_of(const DataTypes& types, Dtype profile, bool gathers_parameters) {
  return {.reduce = ratio(types.reduce, profile),
          .gather = ratio(gathers_parameters ? types.gather : types.reduce, profile)};
}

DataTypes read_data_types(const core::Field& field) {
  field.allow_only({"reduce", "gather", "gradients", "parameters", "master"});
  return {.reduce = read_type(field, "reduce"),
          .gather = read_type(field, "gather"),
          .gradients = read_type(field, "gradients"),
          .parameters = read_type(field, "parameters"),
          .master = read_type(field, "master")};
}

nlohmann::ordered_json data_types_json(const DataTypes& types) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (types.reduce) out["reduce"] = core::name(*types.reduce);
  if (types.gather) out["gather"] = core::name(*types.gather);
  if (types.gradients) out["gradients"] = core::name(*types.gradients);
  if (types.parameters) out["parameters"] = core::name(*types.parameters);
  if (types.master) out["master"] = core::name(*types.master);
  return out;
}

}  // namespace planner
