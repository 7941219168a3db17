#include "planner/emit/emitters/one_number.hpp"

#include <fmt/format.h>

namespace planner {
namespace {

using nlohmann::ordered_json;

ordered_json sizes_json(const Workload& workload, const Groups& groups) {
  ordered_json out = ordered_json::array();
  for (const Group& group : groups)
    out.push_back({{"tensors", group.end - group.begin}, {"bytes", bytes_of(workload, group)}});
  return out;
}

}  // namespace

Emission emit_one_number(Report& report, const OneNumber& framework) {
  const BestCap best = best_cap(framework.rule, report.request().iteration_us);
  const std::int64_t number = roundest(best.min, best.max > 0 ? best.max : 2 * best.min, 10);
  const Groups groups = framework.rule(number).groups;
  report.made(groups);
  report.note(fmt::format("{} = {} is {}.", framework.key, number, Report::tried_text(best)));
  return {.text = report.heading(framework.framework) + framework.text(number) + report.remarks(),
          .json = report.json({{"groups", sizes_json(report.request().workload, groups)},
                               {"best_single_cap", report.best_cost(framework.key, number, best)}})};
}

}  // namespace planner
