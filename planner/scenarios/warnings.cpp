#include "planner/scenarios/warnings.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace scenarios {

void Warnings::add(const std::vector<planner::Warning>& warnings) {
  for (const planner::Warning& warning : warnings) {
    const auto known = std::ranges::find(all_, warning.subject, &planner::Warning::subject);
    if (known == all_.end())
      all_.push_back(warning);
    else if (warning.weight > known->weight)
      *known = warning;
    if (warning.workers > 0) workers_[warning.subject].insert(warning.workers);
  }
}

std::vector<std::string> Warnings::texts(const Scenario& scenario) const {
  std::vector<std::string> out = scenario.warnings;
  for (const planner::Warning& warning : all_) out.push_back(warning.text + also(warning));
  return out;
}

std::string Warnings::also(const planner::Warning& warning) const {
  if (warning.workers == 0) return "";
  std::set<std::int64_t> others = workers_.at(warning.subject);
  others.erase(warning.workers);
  return others.empty() ? "" : fmt::format("; {} on {} workers", warning.also, fmt::join(others, ", "));
}

}  // namespace scenarios
