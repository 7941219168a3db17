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
  /// Both must outlive this object; the schedule is that of the plan. A framework uses `all_reduce` where the
  /// plan's pipeline has an algorithm of its own.
  Prices(const planner::Setting& setting, const planner::Schedule& schedule, planner::Algorithm all_reduce)
      : setting_(setting), schedule_(schedule), all_reduce_(std::move(all_reduce)) {}

  /// The mean iteration time of the plan's groups, or others, under this behaviour.
  double iteration_us(const planner::Behaviour& behaviour, const planner::Groups& groups);
  /// The iteration of a framework that behaves so, with the schedule's transfers in the same order.
  const planner::FusionRequest& request_for(const planner::Behaviour& behaviour);

 private:
  /// A setting in which a framework runs; the request refers to the setting.
  struct Framework {
    planner::Behaviour behaviour;
    planner::Setting setting;
    std::unique_ptr<planner::FusionRequest> request;
  };

  planner::Setting setting_for(const planner::Pipeline& pipeline) const;

  const planner::Setting& setting_;
  const planner::Schedule& schedule_;
  planner::Algorithm all_reduce_;
  std::vector<std::unique_ptr<Framework>> known_;
};

}  // namespace scenarios
