#include "planner/scenarios/supported.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace scenarios {
namespace {

/// The place in the file that a pointer leads to, or the last on the way that is there; none if even the
/// first key is not.
std::optional<core::Field> found_at(const core::Field& file, std::string_view pointer) {
  std::optional<core::Field> place;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // "/"
    const std::string_view key = pointer.substr(0, pointer.find('/'));
    const core::Field& from = place ? *place : file;
    std::optional<core::Field> next = from.is_object() ? from.find(key) : std::nullopt;
    if (!next) break;
    place = std::move(next);
    pointer.remove_prefix(key.size());
  }
  return place;
}

}  // namespace

void refuse(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
            const core::Unsupported& problem) {
  const std::string got = fmt::format("{} (schedule '{}')", problem.got(), schedule.name);
  // A validation suite measures its network and names none.
  const std::optional<core::Field> named = found_at(scenario.file, problem.pointer());
  const core::Field place = named ? *named : scenario.file.at("workers");
  if (named && problem.pointer() != core::Unsupported::kWorkers) place.expected(problem.expected(), got);
  if (!place.is_array()) place.expected(problem.expected(), got);
  for (const core::Field& item : place.items())
    if (item.integer(1, core::kMaxWorkers) == workers) item.expected(problem.expected(), got);
  place.expected(problem.expected(), got);
}

}  // namespace scenarios
