#include "planner/sweep/axes.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/parallel/parallel.hpp"
#include "planner/scenarios/limits.hpp"

namespace sweep {
namespace {

using core::Field;

struct Range {
  std::string_view name;
  double min;
  double max;
  bool is_whole = false;
};

constexpr double kMaxFactor = 1e6;
constexpr double kMaxWhole = 0x1p53;  // beyond it, double skips integers
constexpr double kMaxBatch = 1e9;

// To add an axis, add a line here and in Quantity, and its effect in combined(), sweep.cpp.
constexpr std::array<Range, 10> kRanges = {{
    {"bandwidth_factor", 1 / kMaxFactor, kMaxFactor},
    {"line_rate_gbps", 1 / kMaxFactor, kMaxFactor},
    {"startup_factor", 0, kMaxFactor},
    {"batch_size", 1, kMaxBatch, true},
    {"density", 1e-9, 1},
    {"sigma", 0, scenarios::kMaxSigma},
    {"seed", 0, kMaxWhole, true},
    {"pipeline_stages", 1, static_cast<double>(planner::kMaxStages), true},
    {"micro_batches", 1, static_cast<double>(planner::kMaxMicroBatches), true},
    {"workers", 1, static_cast<double>(core::kMaxWorkers), true},
}};

const Range& range(Quantity quantity) { return kRanges[static_cast<std::size_t>(quantity)]; }

double read_value(const Field& field, const Range& range) {
  if (!range.is_whole) return field.number(range.min, range.max);
  return static_cast<double>(
      field.integer(static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max)));
}

/// Rejects duplicate values, whose rows could not be distinguished.
std::vector<double> read_values(const Field& field, const Range& range) {
  std::vector<double> out;
  std::set<double> seen;
  for (const Field& item : field.non_empty_items()) {
    out.push_back(read_value(item, range));
    if (!seen.insert(out.back()).second) item.expected("a value that is listed once");
  }
  return out;
}

}  // namespace

std::string_view name(Quantity quantity) { return range(quantity).name; }

bool is_whole(Quantity quantity) { return range(quantity).is_whole; }

std::string text(const Axis& axis, std::size_t index) {
  const double value = axis.values[index];
  return is_whole(axis.quantity) ? fmt::to_string(static_cast<std::int64_t>(value))
                                 : fmt::format("{}", value);
}

std::vector<Axis> read_axes(const Field& sweep) {
  std::vector<std::string_view> names;
  names.reserve(kRanges.size());
  for (const Range& known : kRanges) names.push_back(known.name);
  sweep.allow_only(names);
  std::vector<Axis> out;
  for (std::size_t i = 0; i < kRanges.size(); ++i)
    if (const std::optional<Field> field = sweep.find(kRanges[i].name))
      out.push_back({.quantity = static_cast<Quantity>(i), .values = read_values(*field, kRanges[i])});
  if (out.empty()) sweep.expected("an object of at least 1 axis");
  if (sweep.has("bandwidth_factor") && sweep.has("line_rate_gbps"))
    sweep.expected("bandwidth_factor or line_rate_gbps", "both");
  return out;
}

}  // namespace sweep
