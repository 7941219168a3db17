// Looks up entries in the tables of algorithms, fusions, pipelines and schedules.

#pragma once

#include <algorithm>
#include <cassert>
#include <span>
#include <string_view>
#include <vector>

namespace planner {

template <typename Entry>
std::vector<std::string_view> names(std::span<const Entry> table) {
  std::vector<std::string_view> out;
  for (const Entry& each : table) out.push_back(each.name);
  return out;
}

/// The entry with that name, which must be in the table.
template <typename Entry>
const Entry& entry(std::span<const Entry> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Entry& e) { return e.name == name; });
  assert(found != table.end());
  return *found;
}

}  // namespace planner
