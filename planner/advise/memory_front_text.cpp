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

/// A plan as the table and the file have it, without its groups.
struct Line {
  std::int64_t peak_bytes = 0;
  double iteration_us = 0;
  double lower_bound_us = 0;
  std::string units;
  std::int64_t groups = 0;
  PipelineOptions options;
};

/// What a front says beside its plans.
struct About {
  bool is_exact = false;
  std::int64_t looked_at = 0;
  bool has_activations = false;
  std::size_t chosen = 0;
};

std::string table(const About& about, const std::vector<Line>& lines) {
  std::vector<std::vector<std::string>> rows = {{"memory MB", "iteration ms", "groups", "prefetch",
                                                 "backward prefetch", "kept groups", "of whole",
                                                 "above bound", ""}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    rows.push_back({fmt::format("{:.1f}", static_cast<double>(line.peak_bytes) / 1e6),
                    fmt::format("{:.3f}", line.iteration_us / 1e3), fmt::to_string(line.groups),
                    fmt::to_string(line.options.prefetch.value_or(1)),
                    fmt::to_string(line.options.backward_prefetch.value_or(1)),
                    fmt::to_string(line.options.kept_groups.value_or(1)), line.units,
                    fmt::format("{:.2f} %", 100 * (line.iteration_us / line.lower_bound_us - 1)),
                    i == about.chosen ? "*" : ""});
  }
  std::string out = core::aligned(rows, {6, 8});
  out += about.is_exact
             ? fmt::format("exact: best of all {} plans of whole layers", about.looked_at)
             : fmt::format(
                   "best of {} plans that were looked at; above bound = how far a better one of such groups "
                   "may be",
                   about.looked_at);
  out += about.has_activations ? "" : "; activations are left out";
  return out + "; * chosen\n";
}

Line read_line(const core::Field& field) {
  const Pipeline& sharded = pipeline("sharded");
  std::vector<std::string_view> keys = {"peak_bytes", "iteration_us", "lower_bound_us", "units", "groups"};
  keys.insert(keys.end(), sharded.option_keys.begin(), sharded.option_keys.end());
  field.allow_only(keys);
  return {.peak_bytes = field.at("peak_bytes").integer(0, core::kMaxBytes),
          .iteration_us = field.at("iteration_us").number(0, core::kMaxTimeUs * 10),
          .lower_bound_us = field.at("lower_bound_us").number(0, core::kMaxTimeUs * 10),
          .units = field.at("units").one_of({"blocks", "layers", "tensors"}),
          .groups = field.at("groups").integer(1, core::kMaxElements),
          .options = read_options(field, sharded)};
}

}  // namespace

std::string memory_front_text(const MemoryFront& front) {
  std::vector<Line> lines;
  for (const ShardedPlan& plan : front.plans)
    lines.push_back({.peak_bytes = plan.peak_bytes,
                     .iteration_us = plan.iteration_us,
                     .lower_bound_us = plan.lower_bound_us,
                     .units = std::string(plan.units),
                     .groups = static_cast<std::int64_t>(plan.groups.size()),
                     .options = plan.options});
  return table({.is_exact = front.is_exact,
                .looked_at = front.looked_at,
                .has_activations = front.has_activations,
                .chosen = front.chosen},
               lines);
}

std::string memory_front_summary(const core::Field& file) {
  file.check_format("fusewise.memory-front");
  file.allow_only({"format", "version", "workers", "exact", "looked_at", "activations", "chosen", "plans"});
  const std::int64_t workers = file.at("workers").integer(1, core::kMaxWorkers);
  std::vector<Line> lines;
  for (const core::Field& plan : file.at("plans").non_empty_items()) lines.push_back(read_line(plan));
  const auto last = static_cast<std::int64_t>(lines.size()) - 1;
  const About about = {.is_exact = file.at("exact").boolean(),
                       .looked_at = file.at("looked_at").integer(1, core::kMaxElements),
                       .has_activations = file.at("activations").boolean(),
                       .chosen = static_cast<std::size_t>(file.at("chosen").integer(0, last))};
  return fmt::format("fastest sharded plans by memory, {} workers\n\n{}", workers, table(about, lines));
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
