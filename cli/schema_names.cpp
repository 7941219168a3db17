#include "cli/schema_text.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/estimate/device.hpp"
#include "core/profile.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/cost/sparse.hpp"
#include "planner/job/registry.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/schedule/schedule.hpp"
#include "validate/live/names.hpp"
#include "validate/paper/judge.hpp"
#include "validate/paper/quantities.hpp"

namespace cli {
namespace {

using Names = std::vector<std::string_view>;

/// The named schedules that need no compressor with them.
Names schedules_of_their_own() {
  Names out;
  for (const planner::Preset& preset : planner::presets())
    if (!preset.needs_compressor) out.push_back(preset.name);
  return out;
}

Names compressors_or_none() {
  Names out = planner::names(planner::built_in_compressors());
  out.insert(out.begin(), "none");
  return out;
}

Names dtypes() {
  using core::Dtype;
  return {name(Dtype::float32), name(Dtype::float16), name(Dtype::bfloat16)};
}

/// The keys of all quantities, each once.
Names quantity_keys() {
  Names out;
  for (const validate::Quantity& quantity : validate::quantities())
    for (const std::string_view key : quantity.keys)
      if (std::ranges::find(out, key) == out.end()) out.push_back(key);
  return out;
}

struct Table {
  std::string_view name;
  Names (*names)();
};

// To let schemas name another table: a line.
constexpr Table kTables[] = {
    {"all_reduces", [] { return planner::names(planner::algorithms()); }},
    {"compressors", [] { return planner::names(planner::built_in_compressors()); }},
    {"compressors_or_none", compressors_or_none},
    {"devices", [] { return planner::names(core::devices()); }},
    {"dtypes", dtypes},
    {"fusion_kinds", [] { return planner::names(planner::fusion_kinds()); }},
    {"judges", [] { return planner::names(validate::judges()); }},
    {"pipelines", [] { return planner::names(planner::pipelines()); }},
    {"quantities", [] { return planner::names(validate::quantities()); }},
    {"quantity_keys", quantity_keys},
    {"schedules", [] { return planner::names(planner::presets()); }},
    {"schedules_of_their_own", schedules_of_their_own},
    {"sparse_compressors", [] { return planner::names(planner::sparse_collectives()); }},
    {"task_kinds", live::task_kinds},
};

}  // namespace

Names schema_names(std::string_view table) {
  for (const Table& each : kTables)
    if (each.name == table) return each.names();
  throw std::invalid_argument("no table " + std::string(table) + " for schemas");
}

}  // namespace cli
