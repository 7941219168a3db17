#include "profiler/traces/kineto/process_groups.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"
#include "core/printable.hpp"

namespace kineto {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number_integer() ? found->dump() : "";
}

std::int64_t size_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return 0;
  const auto out = found->get<std::int64_t>();
  return out >= 0 && out <= core::kMaxWorkers ? out : 0;
}

/// Nothing if it is no list of integers.
std::vector<std::int64_t> ranks_in(const json& list) {
  std::vector<std::int64_t> out;
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (!each.is_number_integer()) return {};
    out.push_back(each.get<std::int64_t>());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// "[0, 1, 2, 3]"; nothing if the list is shortened ("...") or no list.
std::vector<std::int64_t> ranks_in(const std::string& text) {
  if (text.find("...") != std::string::npos) return {};
  return ranks_in(json::parse(text, nullptr, false));
}

/// The process groups that a trace lists, by name.
std::map<std::string, ProcessGroup> listed_groups(const Trace& trace) {
  std::map<std::string, ProcessGroup> out;
  const json list = json::parse(trace.groups_json, nullptr, false);
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (!each.is_object()) continue;
    ProcessGroup group = {.description = text_of(each, "pg_desc"),
                          .size = std::max(size_of(each, "pg_size"), size_of(each, "group_size"))};
    if (const auto ranks = each.find("ranks"); ranks != each.end())
      group.members = ranks->is_string() ? ranks_in(ranks->get<std::string>()) : ranks_in(*ranks);
    out[text_of(each, "pg_name")] = std::move(group);
  }
  return out;
}

std::vector<std::int64_t> members_of(const Trace& trace, const Collective& said) {
  std::vector<std::int64_t> out = ranks_in(trace.texts[said.group_ranks]);
  if (!out.empty() || said.rank_start < 0 || said.rank_stride <= 0 || said.group_size <= 0 ||
      said.group_size > core::kMaxWorkers || said.rank_stride > core::kMaxWorkers ||
      said.rank_start > core::kMaxWorkers)
    return out;
  for (std::int64_t i = 0; i < said.group_size; ++i) out.push_back(said.rank_start + i * said.rank_stride);
  return out;
}

}  // namespace

ProcessGroups::ProcessGroups(const Trace& trace) : trace_(trace), listed_(listed_groups(trace)) {}

ProcessGroup ProcessGroups::group_of(const Collective& collective) const {
  ProcessGroup out = {.name = trace_.texts[collective.group_name],
                      .description = trace_.texts[collective.group_description],
                      .members = members_of(trace_, collective),
                      .size = collective.group_size};
  const auto listed = listed_.find(out.name);
  if (!out.name.empty() && listed != listed_.end()) {
    if (out.members.empty()) out.members = listed->second.members;
    if (out.description.empty()) out.description = listed->second.description;
    if (out.size <= 0) out.size = listed->second.size;
  }
  if (out.size <= 0) out.size = static_cast<std::int64_t>(out.members.size());
  if (out.name.empty()) out.stream = collective.stream;
  return out;
}

void ProcessGroups::refuse_members(std::size_t most) const {
  throw core::InputError(
      fmt::format("{}: /traceEvents: expected process groups of at most {} members in all, got more",
                  core::one_line(trace_.path), most));
}

std::uint32_t ProcessGroups::index_of(ProcessGroup group) {
  constexpr std::size_t kMaxDescribed = 500'000'000;  // in all descriptions of groups: seconds
  described_ += group.members.size();
  if (described_ > kMaxDescribed) refuse_members(kMaxDescribed);
  const auto [place, is_new] = places_.try_emplace({group.name, group.stream, group.members},
                                                   static_cast<std::uint32_t>(found_.size()));
  if (!is_new) {
    found_[place->second].size = std::max(found_[place->second].size, group.size);
    return place->second;
  }
  constexpr std::size_t kMaxMembers = 10'000'000;  // in all groups
  members_ += group.members.size();
  if (members_ > kMaxMembers) refuse_members(kMaxMembers);
  found_.push_back(std::move(group));
  return static_cast<std::uint32_t>(found_.size() - 1);
}

std::uint32_t ProcessGroups::index_of(const Collective& collective) {
  const Said said = {collective.group_name, collective.group_description, collective.group_ranks,
                     collective.rank_start, collective.rank_stride,       collective.group_size,
                     collective.stream};
  const auto [known, is_new] = known_.try_emplace(said, 0);
  if (is_new) known->second = index_of(group_of(collective));
  return known->second;
}

std::string title(const std::vector<ProcessGroup>& groups, std::uint32_t group) {
  const ProcessGroup& of = groups[group];
  if (of.name.empty())
    return fmt::format("stream {}",
                       std::count_if(groups.begin(), groups.begin() + group,
                                     [](const ProcessGroup& each) { return each.name.empty(); }));
  return core::one_line(of.name) +
         (of.description.empty() ? "" : fmt::format(" ({})", core::one_line(of.description)));
}

}  // namespace kineto
