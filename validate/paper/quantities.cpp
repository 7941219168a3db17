#include "validate/paper/quantities.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace validate {
namespace {

using core::Field;
using Keys = std::map<std::string, Field>;

struct Case {
  std::string label;
  Keys keys;
};

constexpr std::size_t kMaxCases = 10'000;

std::vector<Quantity> all_quantities() {
  std::vector<Quantity> out;
  for (auto* group : {simulated_quantities, sweep_quantities, collective_quantities, dear_quantities,
                      part_quantities, weak_scaling_quantities, hitopk_quantities, counted_quantities,
                      selected_quantities, searched_quantities}) {
    std::vector<Quantity> some = group();
    std::move(some.begin(), some.end(), std::back_inserter(out));
  }
  return out;
}

/// Reads `"for": {"workers": [4, 8], "schedule": ["wfbp", "ddp"]}` as the product of the lists; the last key,
/// in the quantity's order, changes fastest.
std::vector<Case> product(const Field& field, const Quantity& quantity) {
  std::vector<Case> cases(1);
  for (const std::string_view key : quantity.keys) {
    if (!field.has(key)) continue;
    const std::vector<Field> values = field.at(key).non_empty_items();
    if (cases.size() * values.size() > kMaxCases)
      field.expected(fmt::format("a product of at most {} cases", kMaxCases), "more");
    std::vector<Case> next;
    next.reserve(cases.size() * values.size());
    for (const Case& each : cases) {
      for (const Field& value : values) {
        next.push_back(each);
        next.back().label += (each.label.empty() ? "" : " ") + value.words();
        next.back().keys.emplace(key, value);
      }
    }
    cases = std::move(next);
  }
  return cases;
}

/// Reads `"cases": [{"label": "2DTAR", "collectives": ...}, ...]`.
std::vector<Case> listed(const Field& field, const Quantity& quantity) {
  std::vector<Case> cases;
  for (const Field& item : field.non_empty_items()) {
    Case one = {.label = item.at("label").name(), .keys = {}};
    for (const std::string_view key : quantity.keys)
      if (const auto value = item.find(key)) one.keys.emplace(key, *value);
    cases.push_back(std::move(one));
  }
  return cases;
}

std::vector<Case> cases_of(const Field& quantity, const Quantity& known) {
  const std::optional<Field> cases = quantity.find("cases");
  const std::optional<Field> sets = quantity.find("for");
  if (cases && sets) cases->expected("cases or for", "both");
  if (cases) return listed(*cases, known);
  return sets ? product(*sets, known) : std::vector<Case>(1);
}

double mean_of(const Values& values) {
  double sum = 0;
  for (const Value& each : values) sum += each.value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

const Quantity& quantity_named(const Field& quantity) {
  std::vector<std::string_view> names;
  for (const Quantity& each : quantities()) names.push_back(each.name);
  const std::string name = quantity.at("kind").one_of(names);
  return *std::ranges::find(quantities(), name, &Quantity::name);
}

}  // namespace

std::span<const Quantity> quantities() {
  static const std::vector<Quantity> all = all_quantities();
  return all;
}

const Quantity& quantity_of(const Figure& figure) { return quantity_named(figure.quantity); }

void check_quantity(const Field& quantity) {
  const Quantity& known = quantity_named(quantity);
  std::vector<std::string_view> keys = {"kind", "for", "cases", "times", "mean"};
  keys.insert(keys.end(), known.keys.begin(), known.keys.end());
  quantity.allow_only(keys);
  if (const auto sets = quantity.find("for")) sets->allow_only(known.keys);
  keys = known.keys;
  keys.emplace_back("label");
  if (const auto cases = quantity.find("cases"))
    for (const Field& item : cases->non_empty_items()) item.allow_only(keys);
  (void)cases_of(quantity, known);
}

namespace {

/// Adds the scenario to the error if the quantity requests something unsupported.
Values measured(const Quantity& quantity, const Request& request) {
  try {
    return quantity.measure(request);
  } catch (const core::Unsupported& problem) {
    request.at("scenario").expected(problem.expected(), problem.got());
  }
}

}  // namespace

Values measure(const Paper& paper, const Figure& figure) {
  const Quantity& quantity = quantity_of(figure);
  constexpr double kLargest = 1e15;
  const std::optional<Field> times = figure.quantity.find("times");
  const double factor = times ? times->number(-kLargest, kLargest) : 1;
  Values out;
  for (const Case& each : cases_of(figure.quantity, quantity)) {
    for (Value value : measured(quantity, Request(paper, figure.quantity, each.keys))) {
      if (!each.label.empty())
        value.label = value.label.empty() ? each.label : each.label + ' ' + value.label;
      value.value *= factor;
      out.push_back(std::move(value));
    }
  }
  const std::optional<Field> mean = figure.quantity.find("mean");
  return !out.empty() && mean && mean->boolean() ? Values{{"", mean_of(out)}} : out;
}

}  // namespace validate
