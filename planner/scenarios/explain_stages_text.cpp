#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/printable.hpp"
#include "core/text_table.hpp"
#include "planner/scenarios/explain_stages.hpp"

namespace scenarios {
namespace {

using core::ms;
using nlohmann::ordered_json;
using planner::change_text;

std::string stages_text(const StageExplanation& all, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"stage", "bubble ms", "channel ms", "exposed ms", "if its collectives took no time"}};
  for (const StageReason& stage : all.stages)
    rows.push_back({fmt::to_string(stage.stage), ms(stage.bubble_us), ms(stage.communication_us),
                    ms(stage.exposed_us), change_text(-stage.saves_us)});
  return core::aligned(rows, {}, width);
}

std::string place(const StageGroupReason& group) {
  return fmt::format("stage {}{}{}", group.stage, group.part ? fmt::format(", part {}", *group.part) : "",
                     group.of_experts ? ", experts" : "");
}

std::string groups_text(const StageExplanation& all, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"", "group", "ready", "sent", "ended", "waited for",
                                                 "exposed", "no time", "merged", "split", "after"}};
  for (const StageGroupReason& group : all.groups) {
    const planner::GroupReason& reason = group.reason;
    const auto change_or_none = [](const std::optional<double>& us) {
      return us ? change_text(*us) : std::string("-");
    };
    rows.push_back({place(group), fmt::to_string(group.number + 1), ms(reason.sendable_us),
                    ms(reason.start_us), ms(reason.end_us), reason.waited_for, ms(reason.exposed_us),
                    change_text(-group.saves_us), change_or_none(reason.merging_costs_us),
                    change_or_none(reason.splitting_costs_us), core::one_line(reason.split_after)});
  }
  return core::aligned(rows, {0, 5, 10}, width);
}

}  // namespace

std::string stage_explanation_text(const StageExplanation& all, std::size_t width) {
  std::string out = "What the collectives of each stage add\n" + stages_text(all, width);
  out +=
      "exposed = waiting for its own collectives and for nothing else; the last column is the change of the "
      "iteration in ms\n";
  if (all.tied_saves_us)
    out += fmt::format(
        "in the first and the last stage also for the all-reduce of tied tensors; if that took no time: {}\n",
        change_text(-*all.tied_saves_us));
  out += "\nWhy each group ends where it ends (ms since the iteration began)\n" + groups_text(all, width);
  out +=
      "no time, merged, split = change of the iteration in ms if the group's collectives took no time, if it "
      "were merged with the next group, or split where that costs least\n";
  if (!all.tries_other_groups)
    out += "merging and splitting were not tried, as so many passes and groups take too long\n";
  out += fmt::format("\nWhat bounds the iteration: {}\n", all.bound_by);
  out += planner::what_ifs_text(all.free, " free");
  out += fmt::format("  iteration {} ms, {} ms if no collective took time\n", ms(all.iteration_us),
                     ms(all.without_collectives_us));
  return out + "\nIf inputs were other than given\n" + planner::what_ifs_text(all.other, "");
}

std::string stage_explanation_json(const StageExplanation& all) {
  ordered_json stages = ordered_json::array();
  for (const StageReason& stage : all.stages)
    stages.push_back({{"stage", stage.stage},
                      {"bubble_us", stage.bubble_us},
                      {"communication_us", stage.communication_us},
                      {"exposed_us", stage.exposed_us},
                      {"saves_if_free_us", stage.saves_us}});
  ordered_json groups = ordered_json::array();
  for (const StageGroupReason& group : all.groups) {
    ordered_json item = {{"stage", group.stage}};
    if (group.part) item["part"] = *group.part;
    item["process_group"] = group.of_experts ? "expert" : "dense";
    item["group"] = group.number + 1;
    item.update(planner::group_reason_json(group.reason));
    item["saves_if_free_us"] = group.saves_us;
    groups.push_back(std::move(item));
  }
  ordered_json out = {{"format", "fusewise.stage-explanation"},
                      {"version", 1},
                      {"iteration_us", all.iteration_us},
                      {"without_collectives_us", all.without_collectives_us},
                      {"bound_by", all.bound_by},
                      {"if_free", planner::what_ifs_json(all.free)},
                      {"if_other", planner::what_ifs_json(all.other)},
                      {"stages", std::move(stages)},
                      {"groups", std::move(groups)}};
  if (all.tied_saves_us) out["tied_saves_if_free_us"] = *all.tied_saves_us;
  if (all.combined) out["combined"] = planner::combined_json(*all.combined);
  return core::json_text(out);
}

}  // namespace scenarios
