#include "planner/choose/constraints.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/job/names.hpp"

namespace planner {
namespace {

using core::Field;

std::string quoted(const Workload& workload, std::uint32_t gradient) {
  return fmt::format("'{}'", core::printable(tensor_name(workload, gradient)));
}

/// A list of at least two tensors in the file, which stays known for messages.
struct TensorList {
  Field field;
  std::vector<std::string> names;
};

/// The place of each tensor in backward order; of tensors of one name the first.
using Places = std::unordered_map<std::string_view, std::uint32_t>;

Places places_of_names(const Workload& workload) {
  Places out;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) out.emplace(tensor_name(workload, i), i);
  return out;
}

[[noreturn]] void refuse_unknown(const Field& field, const std::string& name, const Workload& workload) {
  std::vector<std::string_view> known;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) known.push_back(tensor_name(workload, i));
  field.expected("a tensor of the profile",
                 fmt::format("\"{}\"{}", core::printable(name), core::suggestion(name, known)));
}

/// The places of the tensors of a list, ascending.
std::vector<std::uint32_t> sorted_places(const TensorList& list, const Places& places,
                                         const Workload& workload) {
  std::vector<std::uint32_t> out;
  std::unordered_set<std::uint32_t> seen;
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    const auto found = places.find(list.names[i]);
    if (found == places.end()) refuse_unknown(list.field.items()[i], list.names[i], workload);
    if (!seen.insert(found->second).second) list.field.items()[i].expected("a tensor that is listed once");
    out.push_back(found->second);
  }
  std::ranges::sort(out);
  return out;
}

/// The constraints in the file, checked as far as possible without a profile.
struct Wanted {
  Field field;
  std::optional<std::int64_t> min_group_bytes;
  std::optional<std::int64_t> max_group_bytes;
  std::optional<std::int64_t> fusion_buffer_bytes;
  std::optional<std::int64_t> groups;
  std::vector<TensorList> together;
  std::vector<TensorList> apart;
};

void check_sizes(const Wanted& wanted, const Workload& workload) {
  if (wanted.min_group_bytes.value_or(0) > workload.bytes())
    wanted.field.at("min_group_bytes")
        .expected(fmt::format("at most {}, the bytes of all gradients", workload.bytes()));
  std::uint32_t largest = 0;
  for (std::uint32_t i = 1; i < workload.gradient_count(); ++i)
    if (workload.gradients[i].bytes > workload.gradients[largest].bytes) largest = i;
  if (wanted.max_group_bytes && workload.gradients[largest].bytes > *wanted.max_group_bytes)
    wanted.field.at("max_group_bytes")
        .expected(fmt::format("at least {}, the bytes of tensor {}, which cannot be cut",
                              workload.gradients[largest].bytes, quoted(workload, largest)));
  if (wanted.groups.value_or(0) > workload.gradient_count())
    wanted.field.at("groups").expected(
        fmt::format("at most {}, the number of tensors", workload.gradient_count()));
}

/// Whether these rules require a group that holds both.
bool keep_in_one_group(const GroupRules& together, std::uint32_t one, std::uint32_t other,
                       std::uint32_t tensors) {
  for (std::uint32_t cut = one + 1; cut <= other; ++cut)
    if (together.allows(0, cut) || cut == tensors) return false;
  return true;
}

void add_lists(const Wanted& wanted, const Workload& workload, GroupRules& rules) {
  if (wanted.together.empty() && wanted.apart.empty()) return;
  const Places known = places_of_names(workload);
  GroupRules together(workload);
  for (const TensorList& list : wanted.together) {
    const std::vector<std::uint32_t> places = sorted_places(list, known, workload);
    together.keep_together(places.front(), places.back());
    rules.keep_together(places.front(), places.back());
  }
  for (const TensorList& list : wanted.apart) {
    const std::vector<std::uint32_t> places = sorted_places(list, known, workload);
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (keep_in_one_group(together, places[i - 1], places[i], workload.gradient_count()))
        list.field.expected(
            "tensors that `together` does not keep in one group",
            fmt::format("{} and {}", quoted(workload, places[i - 1]), quoted(workload, places[i])));
      rules.keep_apart(places[i - 1], places[i]);
    }
  }
}

/// Formats the indexes that are true, such as "2 to 5, 7".
std::string ranges(const std::vector<bool>& numbers) {
  std::string out;
  for (std::size_t from = 0; from < numbers.size(); ++from) {
    if (!numbers[from]) continue;
    std::size_t to = from;
    while (to + 1 < numbers.size() && numbers[to + 1]) ++to;
    out += out.empty() ? "" : ", ";
    out += to == from ? fmt::to_string(from) : fmt::format("{} to {}", from, to);
    from = to;
  }
  return out;
}

/// Throws InputError if no grouping satisfies the rules.
void check_possible(const Wanted& wanted, const Workload& workload, const GroupRules& rules) {
  const std::uint32_t tensors = workload.gradient_count();
  if (Completions(rules, tensors).possible()) return;
  if (rules.count()) {
    GroupRules all = rules;
    all.count(tensors);
    const Completions completions(all, tensors);
    const std::string possible = ranges(completions.numbers_of_groups());
    if (!possible.empty())
      wanted.field.at("groups").expected(
          fmt::format("a number of groups that the other constraints allow ({})", possible));
  }
  wanted.field.expected("constraints that some grouping of neighbours in backward order keeps to",
                        "constraints that contradict one another");
}

GroupRules make_rules(const Wanted& wanted, const Workload& workload) {
  check_sizes(wanted, workload);
  GroupRules rules(workload);
  if (wanted.min_group_bytes) rules.min_bytes(*wanted.min_group_bytes);
  if (wanted.max_group_bytes) rules.max_bytes(*wanted.max_group_bytes);
  if (wanted.fusion_buffer_bytes) rules.buffer_bytes(*wanted.fusion_buffer_bytes);
  if (wanted.groups) rules.count(static_cast<std::uint32_t>(*wanted.groups));
  add_lists(wanted, workload, rules);
  check_possible(wanted, workload, rules);
  return rules;
}

std::optional<std::int64_t> integer_at(const Field& field, std::string_view key, std::int64_t min,
                                       std::int64_t max) {
  const std::optional<Field> found = field.find(key);
  if (!found) return std::nullopt;
  return found->integer(min, max);
}

std::vector<TensorList> lists_at(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  if (!found) return {};
  std::vector<TensorList> out;
  for (const Field& list : found->items()) {
    TensorList next = {.field = list};
    for (const Field& item : list.items()) next.names.push_back(item.name());
    if (next.names.size() < 2) list.expected("at least two tensors");
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace

Constraints read_constraints(const Field& field) {
  field.allow_only(
      {"min_group_bytes", "max_group_bytes", "fusion_buffer_bytes", "groups", "together", "apart"});
  Wanted wanted = {.field = field,
                   .min_group_bytes = integer_at(field, "min_group_bytes", 0, core::kMaxBytes),
                   .max_group_bytes = integer_at(field, "max_group_bytes", 1, core::kMaxBytes),
                   .fusion_buffer_bytes = integer_at(field, "fusion_buffer_bytes", 0, core::kMaxBytes),
                   .groups = integer_at(field, "groups", 1, core::kMaxElements),
                   .together = lists_at(field, "together"),
                   .apart = lists_at(field, "apart")};
  if (wanted.min_group_bytes && wanted.max_group_bytes && *wanted.min_group_bytes > *wanted.max_group_bytes)
    field.at("min_group_bytes").expected(fmt::format("at most max_group_bytes, {}", *wanted.max_group_bytes));
  return [wanted = std::move(wanted)](const Workload& workload) { return make_rules(wanted, workload); };
}

}  // namespace planner
