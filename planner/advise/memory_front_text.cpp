#include "planner/advise/memory_front_text.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/limits.hpp"
#include "core/text_table.hpp"
#include "planner/advise/memory_front.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

std::string table(const MemoryFrontTable& front, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"memory MB", "iteration ms", "groups", "prefetch",
                                                 "backward prefetch", "kept groups", "of whole",
                                                 "above bound", ""}};
  for (std::size_t i = 0; i < front.plans.size(); ++i) {
    const MemoryFrontLine& line = front.plans[i];
    rows.push_back({fmt::format("{:.1f}", static_cast<double>(line.peak_bytes) / 1e6),
                    fmt::format("{:.3f}", line.iteration_us / 1e3), fmt::to_string(line.groups),
                    fmt::to_string(line.options.prefetch.value_or(1)),
                    fmt::to_string(line.options.backward_prefetch.value_or(1)),
                    fmt::to_string(line.options.kept_groups.value_or(1)), line.units,
                    fmt::format("{:.2f} %", 100 * (line.iteration_us / line.lower_bound_us - 1)),
                    i == front.chosen ? "*" : ""});
  }
  std::string out = core::aligned(rows, {6, 8}, width);
  out += front.is_exact
             ? fmt::format("exact: best of all {} plans of whole layers", front.looked_at)
             : fmt::format(
                   "best of {} plans that were looked at; above bound = how far a better one of such groups "
                   "may be",
                   front.looked_at);
  out += front.has_activations ? "" : "; activations are left out";
  return out + "; * chosen\n";
}

double read_time(const core::Field& field) {
  const double us = field.number(0, core::kMaxTimeUs * 10);
  if (us == 0) field.expected("a time above 0", "0");
  return us;
}

MemoryFrontLine read_line(const core::Field& field) {
  const Pipeline& sharded = pipeline("sharded");
  std::vector<std::string_view> keys = {"peak_bytes", "iteration_us", "lower_bound_us", "units", "groups"};
  keys.insert(keys.end(), sharded.option_keys.begin(), sharded.option_keys.end());
  field.allow_only(keys);
  return {.peak_bytes = field.at("peak_bytes").integer(0, core::kMaxBytes),
          .iteration_us = read_time(field.at("iteration_us")),
          .lower_bound_us = read_time(field.at("lower_bound_us")),
          .units = field.at("units").one_of({"blocks", "layers", "tensors"}),
          .groups = field.at("groups").integer(1, core::kMaxElements),
          .options = read_options(field, sharded)};
}

}  // namespace

std::string memory_front_text(const MemoryFront& front, std::size_t width) {
  MemoryFrontTable out = {.workers = front.workers,
                          .is_exact = front.is_exact,
                          .looked_at = front.looked_at,
                          .has_activations = front.has_activations,
                          .chosen = front.chosen,
                          .plans = {}};
  for (const ShardedPlan& plan : front.plans)
    out.plans.push_back({.peak_bytes = plan.peak_bytes,
                         .iteration_us = plan.iteration_us,
                         .lower_bound_us = plan.lower_bound_us,
                         .units = std::string(plan.units),
                         .groups = static_cast<std::int64_t>(plan.groups.size()),
                         .options = plan.options});
  return table(out, width);
}

MemoryFrontTable read_memory_front(const core::Field& file) {
  file.check_format("fusewise.memory-front");
  file.allow_only({"format", "version", "workers", "exact", "looked_at", "activations", "chosen", "plans"});
  MemoryFrontTable out = {.workers = file.at("workers").integer(1, core::kMaxWorkers),
                          .is_exact = file.at("exact").boolean(),
                          .looked_at = file.at("looked_at").integer(1, core::kMaxElements),
                          .has_activations = file.at("activations").boolean(),
                          .chosen = 0,
                          .plans = {}};
  for (const core::Field& plan : file.at("plans").non_empty_items()) out.plans.push_back(read_line(plan));
  const auto last = static_cast<std::int64_t>(out.plans.size()) - 1;
  out.chosen = static_cast<std::size_t>(file.at("chosen").integer(0, last));
  return out;
}

std::string memory_front_summary(const MemoryFrontTable& front, std::size_t width) {
  return fmt::format("fastest sharded plans by memory, {} workers\n\n{}", front.workers, table(front, width));
}

std::string memory_front_json(const MemoryFront& front) {
  nlohmann::ordered_json plans = nlohmann::ordered_json::array();
  for (const ShardedPlan& plan : front.plans) {
    nlohmann::ordered_json item = {{"peak_bytes", plan.peak_bytes},
                                   {"iteration_us", plan.iteration_us},
                                   {"lower_bound_us", plan.lower_bound_us},
                                   {"units", plan.units},
                                   {"groups", plan.groups.size()}};
    write_options(plan.options, item);
    plans.push_back(std::move(item));
  }
  return core::json_text({{"format", "fusewise.memory-front"},
                          {"version", 1},
                          {"workers", front.workers},
                          {"exact", front.is_exact},
                          {"looked_at", front.looked_at},
                          {"activations", front.has_activations},
                          {"chosen", front.chosen},
                          {"plans", std::move(plans)}});
}

}  // namespace planner
