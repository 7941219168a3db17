#include "planner/emit/emitters/gradient_types.hpp"

#include <fmt/format.h>

#include "planner/emit/emitters/report.hpp"

namespace planner {

GradientTypes gradient_types(const DataTypes& types, core::Dtype profile) {
  GradientTypes out = {.own = types.gradients.value_or(profile), .sent = types.reduce.value_or(profile)};
  if (!out.converts()) out.own = out.sent;
  return out;
}

Sizes gradient_bytes_in(core::Dtype dtype, const Workload& workload) {
  Sizes out = gradient_elements(workload);
  for (std::int64_t& size : out) size *= core::bytes_per_element(dtype);
  return out;
}

std::string types_note(std::string_view framework, const GradientTypes& types, core::Dtype profile) {
  if (types.own == profile) return "";
  return fmt::format(
      "{} reduces gradients in the type of their parameters: this holds where parameters are {} (as under "
      "torch.autocast), not where they are {}.",
      framework, core::name(types.own), core::name(profile));
}

}  // namespace planner
