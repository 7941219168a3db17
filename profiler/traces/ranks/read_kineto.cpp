#include "profiler/traces/ranks/read_kineto.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "core/json.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/read_trace.hpp"

namespace ranks {
namespace {

using kineto::Calls;
using kineto::Role;
using kineto::Trace;
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

/// "[0, 1, 2, 3]"; nothing if the list is shortened ("...") or no list.
std::vector<std::int64_t> ranks_in(const std::string& text) {
  if (text.find("...") != std::string::npos) return {};
  const json list = json::parse(text, nullptr, false);
  std::vector<std::int64_t> out;
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (!each.is_number_integer()) return {};
    out.push_back(each.get<std::int64_t>());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The process groups that a trace lists, by name.
std::map<std::string, LocalGroup> listed_groups(const Trace& trace) {
  std::map<std::string, LocalGroup> out;
  const json list = json::parse(trace.groups_json, nullptr, false);
  if (!list.is_array()) return out;
  for (const json& each : list) {
    if (!each.is_object()) continue;
    LocalGroup group = {.description = text_of(each, "pg_desc"),
                        .size = std::max(size_of(each, "pg_size"), size_of(each, "group_size"))};
    if (const auto ranks = each.find("ranks"); ranks != each.end())
      group.members = ranks_in(ranks->is_string() ? ranks->get<std::string>() : ranks->dump());
    out[text_of(each, "pg_name")] = std::move(group);
  }
  return out;
}

class Groups {
 public:
  explicit Groups(const Trace& trace) : trace_(trace), listed_(listed_groups(trace)) {}

  std::uint32_t index_of(const kineto::Collective& said) {
    LocalGroup group = {.name = trace_.texts[said.group_name],
                        .description = trace_.texts[said.group_description],
                        .members = members(said),
                        .size = said.group_size};
    const auto listed = listed_.find(group.name);
    if (!group.name.empty() && listed != listed_.end()) {
      if (group.members.empty()) group.members = listed->second.members;
      if (group.description.empty()) group.description = listed->second.description;
      if (group.size <= 0) group.size = listed->second.size;
    }
    if (group.size <= 0) group.size = static_cast<std::int64_t>(group.members.size());
    if (group.name.empty()) group.stream = said.stream;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      LocalGroup& known = found_[i];
      if (known.name != group.name || known.stream != group.stream || known.members != group.members)
        continue;
      known.size = std::max(known.size, group.size);
      return static_cast<std::uint32_t>(i);
    }
    found_.push_back(std::move(group));
    return static_cast<std::uint32_t>(found_.size() - 1);
  }

  std::vector<LocalGroup> found() && { return std::move(found_); }

 private:
  std::vector<std::int64_t> members(const kineto::Collective& said) const {
    std::vector<std::int64_t> out = ranks_in(trace_.texts[said.group_ranks]);
    if (!out.empty() || said.rank_start < 0 || said.rank_stride <= 0 || said.group_size <= 0 ||
        said.group_size > core::kMaxWorkers || said.rank_stride > core::kMaxWorkers ||
        said.rank_start > core::kMaxWorkers)
      return out;
    for (std::int64_t i = 0; i < said.group_size; ++i) out.push_back(said.rank_start + i * said.rank_stride);
    return out;
  }

  const Trace& trace_;
  std::map<std::string, LocalGroup> listed_;
  std::vector<LocalGroup> found_;
};

Kind exchange_kind(const Trace& trace, const kineto::Kernel& kernel) {
  const Kind kind = ranks::kind_of(kineto::collective_name(trace, kernel));
  return kind == Kind::unknown ? ranks::kind_of(trace.texts[kernel.name]) : kind;
}

/// A trace without marked steps has the iterations that were found in it, if there are several.
std::vector<Step> steps_of(const Calls& calls) {
  std::vector<Step> out;
  if (!calls.has_steps && calls.steps.size() < 2) return out;
  for (const kineto::Step& step : calls.steps)
    out.push_back({.label = step.label, .span = {step.start_ns, step.end_ns}});
  return out;
}

/// An iteration begins on the device with the first kernel of a forward pass, or else with any.
std::vector<Launched> beginnings(const Trace& trace, const Calls& calls) {
  std::vector<bool> has_forward(calls.steps.size(), false);
  for (const kineto::Work& work : calls.work)
    if (work.step >= 0 && work.role == Role::forward) has_forward[static_cast<std::size_t>(work.step)] = true;
  std::vector<Launched> out;
  for (std::size_t i = 0; i < calls.work.size(); ++i) {
    const kineto::Work& work = calls.work[i];
    const bool communicates = work.role == Role::communication || work.role == Role::copy;
    if (work.step < 0 || !work.has_launch || communicates) continue;
    if (work.role == Role::forward || !has_forward[static_cast<std::size_t>(work.step)])
      out.push_back({.at_ns = work.launched_ns, .start_ns = trace.kernels[i].start_ns});
  }
  return out;
}

}  // namespace

RankTrace read_kineto(const std::string& path, std::string_view step) {
  Trace trace = kineto::read_trace(path);
  const Calls calls = kineto::find_calls(trace, step);
  RankTrace out = {.path = path,
                   .rank = trace.rank >= 0 ? trace.rank : rank_in_name(path),
                   .world_size = trace.world_size,
                   .device = trace.device,
                   .origin_ns = trace.base_ns,
                   .waits = calls.waits,
                   .steps = steps_of(calls)};
  Groups groups(trace);
  std::vector<std::int64_t> launched;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const kineto::Kernel& kernel = trace.kernels[i];
    const Span ran = {kernel.start_ns, kernel.end_ns};
    const kineto::Work& work = calls.work[i];
    if (work.role == Role::copy) out.copies.push_back(ran);
    if (work.role != Role::communication && work.role != Role::copy) out.compute.push_back(ran);
    if (work.role != Role::communication) continue;
    const kineto::Collective& said = trace.collectives[static_cast<std::size_t>(kernel.collective)];
    out.exchanges.push_back({.ran = ran,
                             .kind = exchange_kind(trace, kernel),
                             .group = groups.index_of(said),
                             .sequence = said.sequence,
                             .id = trace.texts[said.id],
                             .bytes = kineto::bytes_of(trace, kernel)});
    launched.push_back(work.launched_ns);
  }
  out.groups = std::move(groups).found();
  finish(out, launched, beginnings(trace, calls));
  return out;
}

std::int64_t rank_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view word : {"rank", "worker"}) {
    const std::size_t found = name.find(word);
    if (found == std::string::npos) continue;
    std::size_t begin = found + word.size();
    while (begin < name.size() && (name[begin] == '_' || name[begin] == '-' || name[begin] == '.')) ++begin;
    std::int64_t out = -1;
    const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), out);
    if (error == std::errc() && out >= 0 && out < core::kMaxWorkers) return out;
  }
  return -1;
}

}  // namespace ranks
