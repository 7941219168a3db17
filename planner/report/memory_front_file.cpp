// Reads what `fusewise plan --memory-front --json` prints: the fastest plans for each amount of memory.

#include <limits>

#include <fmt/format.h>

#include "planner/report/report.hpp"

namespace report {
namespace {

using core::Field;
using nlohmann::ordered_json;

constexpr double kMaxNumber = std::numeric_limits<double>::max();
constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

ordered_json plan_of(const Field& field) {
  ordered_json out = {{"peak_bytes", field.at("peak_bytes").integer(1, kMaxInteger)},
                      {"groups", field.at("groups").integer(1, kMaxInteger)}};
  for (const char* key : {"iteration_us", "lower_bound_us"}) out[key] = field.at(key).number(0, kMaxNumber);
  if (!(out["iteration_us"] > 0)) field.at("iteration_us").expected("a time above 0", "0");
  for (const char* key : {"prefetch", "backward_prefetch", "kept_groups"})
    out[key] = field.at(key).integer(0, kMaxInteger);
  return out;
}

}  // namespace

Report of_memory_front(const Field& file) {
  file.check_format("fusewise.memory-front");
  const std::vector<Field> plans = file.at("plans").non_empty_items();
  const std::int64_t workers = file.at("workers").integer(1, 1'000'000);
  Report out = {.title = fmt::format("Fastest sharded plans by memory, {} workers", workers),
                .data = {},
                .warnings = {}};
  out.data = {{"title", out.title},
              {"kind", "memory-front"},
              {"front",
               {{"workers", workers},
                {"exact", file.at("exact").boolean()},
                {"chosen", file.at("chosen").integer(0, static_cast<std::int64_t>(plans.size()) - 1)},
                {"plans", ordered_json::array()}}}};
  for (const Field& plan : plans) out.data["front"]["plans"].push_back(plan_of(plan));
  return out;
}

}  // namespace report
