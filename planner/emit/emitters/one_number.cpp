#include "planner/emit/emitters/one_number.hpp"

#include <fmt/format.h>

namespace planner {

void note_gather_type(Report& report, std::string_view framework) {
  const EmitRequest& request = report.request();
  const core::Dtype own = request.workload.profile->dtype;
  if (request.gather_type() == own) return;
  report.note(
      fmt::format("{} gathers parameters in the type that they have in the job, which is taken to be {}, "
                  "as priced, and not the {} of the profile.",
                  framework, core::name(request.gather_type()), core::name(own)));
}

Emission emit_one_number(Report& report, const OneNumber& framework) {
  const BestCap best =
      best_cap(framework.rule, [&](const Groups& other) { return report.iteration_us(other); });
  const std::int64_t number = roundest(best.min, best.max > 0 ? best.max : 2 * best.min, 10);
  const Groups groups = framework.rule(number).groups;
  report.made(groups);
  report.note(fmt::format("{} = {} is {}.", framework.key, number, Report::tried_text(best)));
  const std::string lines = framework.text(number);  // which may add remarks
  return {.text = report.heading() + lines + report.remarks(),
          .json = report.json({{"groups", sizes_json(report.request().workload, groups)},
                               {"best_single_cap", report.best_cost(framework.key, number, best)}})};
}

}  // namespace planner
