#include "planner/scenarios/stragglers.hpp"

#include <set>

#include "core/limits.hpp"
#include "planner/scenarios/limits.hpp"

namespace scenarios {

std::vector<planner::Straggler> read_stragglers(const core::Field& field) {
  std::vector<planner::Straggler> out;
  std::set<std::int64_t> seen;
  for (const core::Field& item : field.items()) {
    item.allow_only({"worker", "slowdown"});
    const core::Field worker = item.at("worker");
    const core::Field slowdown = item.at("slowdown");
    out.push_back(
        {.worker = worker.integer(0, core::kMaxWorkers - 1), .slowdown = slowdown.number(0, kMaxSlowdown)});
    if (out.back().slowdown == 0) slowdown.expected("a factor above 0");
    if (!seen.insert(out.back().worker).second) worker.expected("a worker that is listed once");
  }
  return out;
}

}  // namespace scenarios
