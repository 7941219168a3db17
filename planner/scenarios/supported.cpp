#include "planner/scenarios/supported.hpp"

#include <string>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace scenarios {

void refuse(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
            const core::Unsupported& problem) {
  const std::string got = fmt::format("{} (schedule '{}')", problem.got(), schedule.name);
  const core::Field place = scenario.file.at(problem.pointer().substr(1));
  if (problem.pointer() != core::Unsupported::kWorkers || !place.is_array())
    place.expected(problem.expected(), got);
  for (const core::Field& item : place.items())
    if (item.integer(1, core::kMaxWorkers) == workers) item.expected(problem.expected(), got);
  place.expected(problem.expected(), got);
}

}  // namespace scenarios
