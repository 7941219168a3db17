#include "scenarios/stragglers.hpp"

#include <set>

#include "scenarios/limits.hpp"
#include "traces/limits.hpp"

namespace scenarios {

std::vector<planner::Straggler> read_stragglers(const models::Field& field) {
  std::vector<planner::Straggler> out;
  std::set<std::int64_t> seen;
  for (const models::Field& item : field.items()) {
    item.allow_only({"worker", "slowdown"});
    const models::Field worker = item.at("worker");
    const models::Field slowdown = item.at("slowdown");
    out.push_back({.worker = worker.integer(0, traces::kMostWorkers - 1),
                   .slowdown = slowdown.number(0, kMostSlowdown)});
    if (out.back().slowdown == 0) slowdown.expected("a factor above 0");
    if (!seen.insert(out.back().worker).second) worker.expected("a worker that is listed once");
  }
  return out;
}

}  // namespace scenarios
