#include "planner/choose/constraints.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace planner {
namespace {

using core::Field;

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient) {
  const Gradient& at = workload.gradients[gradient];
  return workload.profile->layers[at.layer].tensors[at.tensor].name;
}

std::string quoted(const Workload& workload, std::uint32_t gradient) {
  return fmt::format("'{}'", core::printable(tensor_name(workload, gradient)));
}

/// The index of a tensor in backward order.
std::uint32_t find_gradient(const Field& field, const Workload& workload) {
  const std::string name = field.name();
  std::vector<std::string_view> known;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    known.push_back(tensor_name(workload, i));
    if (known.back() == name) return i;
  }
  field.expected("a tensor of the profile",
                 fmt::format("\"{}\"{}", core::printable(name), core::suggestion(name, known)));
}

/// The indexes of a list of at least two tensors, without duplicates.
std::vector<std::uint32_t> find_gradients(const Field& field, const Workload& workload) {
  std::vector<std::uint32_t> out;
  for (const Field& item : field.items()) {
    out.push_back(find_gradient(item, workload));
    if (std::count(out.begin(), out.end(), out.back()) > 1) item.expected("a tensor that is listed once");
  }
  if (out.size() < 2) field.expected("at least two tensors");
  return out;
}

/// The constraints in the file, checked as far as possible without a profile.
struct Wanted {
  Field field;
  std::optional<std::int64_t> min_group_bytes;
  std::optional<std::int64_t> max_group_bytes;
  std::optional<std::int64_t> fusion_buffer_bytes;
  std::optional<std::int64_t> groups;
  std::vector<Field> together;
  std::vector<Field> apart;
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

void add_together(const Wanted& wanted, const Workload& workload, GroupRules& rules) {
  for (const Field& list : wanted.together) {
    const std::vector<std::uint32_t> places = find_gradients(list, workload);
    const auto [first, last] = std::minmax_element(places.begin(), places.end());
    rules.keep_together(*first, *last);
  }
}

/// Whether `together` requires a group that holds both.
bool is_kept_together(const Wanted& wanted, const Workload& workload, std::uint32_t one,
                      std::uint32_t other) {
  GroupRules rules(workload);
  add_together(wanted, workload, rules);
  for (std::uint32_t cut = one + 1; cut <= other; ++cut)
    if (rules.allows(0, cut) || cut == workload.gradient_count()) return false;
  return true;
}

void add_apart(const Wanted& wanted, const Workload& workload, GroupRules& rules) {
  for (const Field& list : wanted.apart) {
    std::vector<std::uint32_t> places = find_gradients(list, workload);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (is_kept_together(wanted, workload, places[i - 1], places[i]))
        list.expected("tensors that `together` does not keep in one group",
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
  add_together(wanted, workload, rules);
  add_apart(wanted, workload, rules);
  check_possible(wanted, workload, rules);
  return rules;
}

std::optional<std::int64_t> integer_at(const Field& field, std::string_view key, std::int64_t min,
                                       std::int64_t max) {
  const std::optional<Field> found = field.find(key);
  if (!found) return std::nullopt;
  return found->integer(min, max);
}

/// Reads lists of at least two names each.
std::vector<Field> lists_at(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  if (!found) return {};
  std::vector<Field> lists = found->items();
  for (const Field& list : lists) {
    if (list.items().size() < 2) list.expected("at least two tensors");
    for (const Field& item : list.items()) item.name();
  }
  return lists;
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
