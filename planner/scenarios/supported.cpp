#include "planner/scenarios/supported.hpp"

#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace scenarios {

void refuse(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
            const core::Unsupported& problem) {
  const std::string got = fmt::format("{} (schedule '{}')", problem.got(), schedule.name);
  // A validation suite measures its network and names none.
  const std::optional<core::Field> named = scenario.file.find(problem.pointer().substr(1));
  const core::Field place = named ? *named : scenario.file.at("workers");
  if (named && problem.pointer() != core::Unsupported::kWorkers) place.expected(problem.expected(), got);
  if (!place.is_array()) place.expected(problem.expected(), got);
  for (const core::Field& item : place.items())
    if (item.integer(1, core::kMaxWorkers) == workers) item.expected(problem.expected(), got);
  place.expected(problem.expected(), got);
}

}  // namespace scenarios
