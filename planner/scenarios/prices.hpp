// Prices groups as a framework would run them: the function that emitters ask.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "planner/choose/fusion_request.hpp"
#include "planner/emit/behaviour.hpp"
#include "planner/schedule/schedule.hpp"

namespace scenarios {

class Prices {
 public:
  /// Both must outlive this object; the schedule is that of the plan.
  Prices(const planner::Setting& setting, const planner::Schedule& schedule)
      : setting_(setting), schedule_(schedule) {}

  /// The mean iteration time of the plan's groups, or others, under this behaviour.
  double iteration_us(const planner::Behaviour& behaviour, const planner::Groups& groups);

 private:
  /// A setting in which a framework runs; the request refers to the setting.
  struct Framework {
    planner::Behaviour behaviour;
    planner::Setting setting;
    std::unique_ptr<planner::FusionRequest> request;
  };

  const planner::FusionRequest& request_for(const planner::Behaviour& behaviour);

  const planner::Setting& setting_;
  const planner::Schedule& schedule_;
  std::vector<std::unique_ptr<Framework>> known_;
};

}  // namespace scenarios
