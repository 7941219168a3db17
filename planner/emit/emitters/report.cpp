#include "planner/emit/emitters/report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/quantities.hpp"

namespace planner {
namespace {

using core::counted;
using nlohmann::ordered_json;

/// Explains how the framework's groups treat the gradients of a plan group that it does not form.
std::string why_other(const Workload& workload, const Group& group, const Groups& made) {
  std::vector<std::string> sizes;
  for (const Group& other : made) {
    if (other.end <= group.begin || group.end <= other.begin) continue;
    if (other.begin == group.begin && other.end == group.end && other.tick == group.tick)
      return "sent without the algorithm or compressor that the plan has for it alone";
    if (other.begin == group.begin && other.end == group.end)
      return fmt::format("issued no sooner than {} us after backward began, not {} us",
                         sim::to_us(other.tick), sim::to_us(group.tick));
    sizes.push_back(fmt::format("{}", bytes_of(workload, other)));
  }
  std::string out = fmt::format("its {} bytes travel in {} of ", bytes_of(workload, group),
                                sizes.size() == 1 ? "one group" : counted(sizes.size(), "group"));
  constexpr std::size_t kMaxShown = 4;
  for (std::size_t i = 0; i < std::min(sizes.size(), kMaxShown); ++i) out += (i == 0 ? "" : ", ") + sizes[i];
  return out + (sizes.size() > kMaxShown ? ", ... bytes" : " bytes");
}

/// Wraps the text as comment lines of at most 100 characters where possible.
std::string comment(std::string_view text) {
  constexpr std::size_t kWidth = 98;
  std::string out;
  while (text.size() > kWidth) {
    std::size_t space = text.rfind(' ', kWidth);
    if (space == std::string_view::npos) space = text.find(' ');
    if (space == std::string_view::npos) break;
    out += fmt::format("# {}\n", text.substr(0, space));
    text.remove_prefix(space + 1);
  }
  return out + fmt::format("# {}\n", text);
}

bool in_backward_order(const Groups& groups) {
  return std::ranges::is_sorted(groups, [](const Group& a, const Group& b) { return a.begin < b.begin; });
}

std::string why_differs(const Workload& workload, const Groups& planned, std::size_t index,
                        const Groups& made) {
  const auto found = std::ranges::find(made, planned[index]);
  if (found == made.end()) return why_other(workload, planned[index], made);
  return fmt::format("launched as number {}, in the order of backward", found - made.begin() + 1);
}

}  // namespace

std::vector<std::string> tensor_names(const Workload& workload, const Group& group) {
  std::vector<std::string> out;
  for (std::uint32_t i = group.begin; i < group.end; ++i) out.push_back(tensor_name(workload, i));
  return out;
}

Sizes gradient_bytes(const Workload& workload) {
  Sizes out;
  for (const Gradient& gradient : workload.gradients) out.push_back(gradient.bytes);
  return out;
}

Sizes gradient_elements(const Workload& workload) {
  Sizes out = gradient_bytes(workload);
  for (std::int64_t& size : out) size /= core::bytes_per_element(workload.profile->dtype);
  return out;
}

Groups in_order(const Groups& groups) {
  Groups out = groups;
  std::ranges::sort(out, [](const Group& a, const Group& b) { return a.begin < b.begin; });
  return out;
}

ordered_json sizes_json(const Workload& workload, const Groups& groups) {
  ordered_json out = ordered_json::array();
  for (const Group& group : groups)
    out.push_back({{"tensors", group.end - group.begin}, {"bytes", bytes_of(workload, group)}});
  return out;
}

std::string in_quotes(std::string_view text) {
  return ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string list_in_quotes(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() == 1 ? "" : ", ") + in_quotes(text);
  return out + ']';
}

Behaviour as_planned(const PlanFile& plan) {
  return {.pipeline = &pipeline(plan.pipeline),
          .options = plan.options,
          .compresses = true,
          .words = "as planned"};
}

Behaviour all_reduces(std::string_view words) {
  return {.pipeline = &pipeline("wfbp"), .words = std::string(words)};
}

namespace {

bool shards(const Pipeline& pipeline, const PipelineOptions& options) {
  return pipeline.program(1, options).sharding != Sharding::nothing;
}

bool compresses(const PlanFile& plan) {
  return !plan.compressor.is_none() || std::ranges::any_of(plan.groups, [](const PlanGroup& group) {
    return group.transfer.compressor && !group.transfer.compressor->is_none();
  });
}

}  // namespace

Report::Report(const Target& target, const EmitRequest& request)
    : target_(target),
      request_(request),
      behaviour_(target.behaves(request.plan, request.workload)),
      planned_us_(request.iteration_us(
          request.plan.target == target.name ? behaviour_ : as_planned(request.plan), request.groups)) {
  if (shards(pipeline(request.plan.pipeline), request.plan.options) &&
      !shards(*behaviour_.pipeline, behaviour_.options) && !behaviour_.gathers_at_once)
    note(fmt::format(
        "The plan shards what workers hold. {} does not: each worker holds all parameters, gradients and "
        "states of the optimizer, and the memory that sharding saves is given up.",
        target.framework));
  if (!behaviour_.compresses && compresses(request.plan)) note("The plan's compressors are not applied.");
  if (request.recomputes) note("Layers are checkpointed in the plan's scenario; these lines do not do that.");
}

ordered_json Report::cost(const Groups& groups, double iteration_us) const {
  constexpr double kPicoseconds = 1e6;
  const double loses_us = std::round((iteration_us - planned_us_) * kPicoseconds) / kPicoseconds;
  return {{"groups", groups.size()},
          {"iteration_us", iteration_us},
          {"loss_us", loses_us},
          {"loss_percent", planned_us_ > 0 ? 100 * loses_us / planned_us_ : 0.0}};
}

ordered_json Report::cost(const Groups& groups) const { return cost(groups, iteration_us(groups)); }

std::string Report::cost_text(const ordered_json& cost) {
  const double loses_us = cost["loss_us"];
  const double percent = cost["loss_percent"];
  const std::string loss = loses_us > 0   ? fmt::format("loses {:.1f} us ({:.2f} %)", loses_us, percent)
                           : loses_us < 0 ? fmt::format("gains {:.1f} us ({:.2f} %)", -loses_us, -percent)
                                          : "loses nothing";
  return fmt::format("{}, {:.1f} us per iteration: {}", counted(cost["groups"].get<std::size_t>(), "group"),
                     cost["iteration_us"].get<double>(), loss);
}

ordered_json Report::best_cost(std::string_view name, const ordered_json& value, const BestCap& best) const {
  ordered_json out = {{std::string(name), value}};
  out.update(cost(best.groups, best.iteration_us));
  out["tried"] = best.tried;
  out["exhaustive"] = best.is_every;
  return out;
}

std::string Report::tried_text(const BestCap& best) {
  if (best.is_every) return fmt::format("the best of the {} groupings that one number can make", best.tried);
  return fmt::format("the best of {} numbers tried", best.tried);
}

void Report::made(const Groups& groups, const std::vector<std::string>& whys) {
  made(groups, iteration_us(groups), whys);
}

void Report::made(const Groups& groups, double iteration_us, const std::vector<std::string>& whys) {
  const Groups& planned = request_.groups;
  reproduced_ = groups == planned;
  makes_ = cost(groups, iteration_us);
  const bool order_matters = !in_backward_order(planned);
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const bool is_made = std::ranges::find(groups, planned[i]) != groups.end();
    const bool same_number = i < groups.size() && groups[i] == planned[i];
    if (same_number || (is_made && !order_matters)) continue;
    const bool is_known = i < whys.size() && !whys[i].empty();
    differs_.push_back(
        {{"group", i + 1}, {"why", is_known ? whys[i] : why_differs(request_.workload, planned, i, groups)}});
  }
}

std::string Report::heading() const {
  const PlanFile& plan = request_.plan;
  std::string out =
      fmt::format("# {} for model {}: {} for {} (pipeline {}, {:.1f} us per iteration)\n", target_.framework,
                  in_quotes(plan.model), counted(request_.groups.size(), "group"),
                  counted(static_cast<std::size_t>(plan.workers), "worker"), plan.pipeline, planned_us_);
  if (!reproduced_) return out + fmt::format("# makes {}\n", cost_text(makes_));
  out += "# makes exactly the groups of the plan\n";
  if (makes_["loss_us"] != 0.0) out += fmt::format("# as it behaves: {}\n", cost_text(makes_));
  return out;
}

std::string Report::own_remarks() const {
  constexpr std::size_t kMaxShown = 8;
  std::string out;
  if (!differs_.empty())
    out += fmt::format("# {} of the plan's {} made otherwise:\n", differs_.size(),
                       request_.groups.size() == 1 ? "group is" : "groups are");
  for (std::size_t i = 0; i < std::min(differs_.size(), kMaxShown); ++i)
    out += fmt::format("#   group {}: {}\n", differs_[i]["group"].get<std::size_t>(),
                       differs_[i]["why"].get<std::string>());
  if (differs_.size() > kMaxShown) out += fmt::format("#   and {} more\n", differs_.size() - kMaxShown);
  for (const std::string& note : notes_) out += comment(note);
  return out;
}

std::vector<std::string> Report::closing() const {
  std::vector<std::string> out;
  for (const std::string& note : notes_of_job_) out.push_back(comment(note));
  out.push_back(comment(fmt::format("Priced: {}.", behaviour_.words)));
  for (const std::string_view text : target_.verified)
    out.push_back(comment(fmt::format("Verified: {}", text)));
  for (const std::string_view text : target_.read_only)
    out.push_back(comment(fmt::format("Read, not run: {}", text)));
  for (const std::string_view text : target_.does_not)
    out.push_back(comment(fmt::format("Does not {}", text)));
  return out;
}

std::string Report::remarks() const { return fmt::format("{}{}", own_remarks(), fmt::join(closing(), "")); }

ordered_json Report::json(const ordered_json& specific) const {
  ordered_json out = {{"target", target_.name},
                      {"groups_reproduced", reproduced_},
                      {"iteration_us", planned_us_},
                      {"makes", makes_}};
  out.update(specific);
  out["differs"] = differs_;
  out["notes"] = notes_;
  for (const std::string& note : notes_of_job_) out["notes"].push_back(note);
  out["priced_as"] = behaviour_.words;
  out["verified"] = target_.verified;
  if (!target_.read_only.empty()) out["read_only"] = target_.read_only;
  out["does_not"] = target_.does_not;
  return out;
}

}  // namespace planner
