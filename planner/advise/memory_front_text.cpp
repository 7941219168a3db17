#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/text_table.hpp"
#include "planner/advise/memory_front.hpp"

namespace planner {
namespace {

double above_bound(const ShardedPlan& plan) { return plan.iteration_us / plan.lower_bound_us - 1; }

}  // namespace

std::string memory_front_text(const MemoryFront& front) {
  std::vector<std::vector<std::string>> rows = {{"memory MB", "iteration ms", "groups", "prefetch",
                                                 "backward prefetch", "kept groups", "above bound", ""}};
  for (std::size_t i = 0; i < front.plans.size(); ++i) {
    const ShardedPlan& plan = front.plans[i];
    rows.push_back({fmt::format("{:.1f}", static_cast<double>(plan.peak_bytes) / 1e6),
                    fmt::format("{:.3f}", plan.iteration_us / 1e3), fmt::to_string(plan.groups.size()),
                    fmt::to_string(*plan.options.prefetch), fmt::to_string(*plan.options.backward_prefetch),
                    fmt::to_string(*plan.options.kept_groups),
                    fmt::format("{:.2f} %", 100 * above_bound(plan)), i == front.chosen ? "*" : ""});
  }
  std::string out = core::aligned(rows, {7});
  out += front.is_exact
             ? fmt::format("exact: best of all {} plans of whole layers", front.looked_at)
             : fmt::format(
                   "best of {} plans of whole {} that were looked at; above bound = how far a better one of "
                   "them may be",
                   front.looked_at, front.units);
  out += front.has_activations ? "" : "; activations are left out";
  return out + "; * chosen\n";
}

std::string memory_front_json(const MemoryFront& front) {
  nlohmann::ordered_json plans = nlohmann::ordered_json::array();
  for (const ShardedPlan& plan : front.plans) {
    nlohmann::ordered_json item = {{"peak_bytes", plan.peak_bytes},
                                   {"iteration_us", plan.iteration_us},
                                   {"lower_bound_us", plan.lower_bound_us},
                                   {"groups", plan.groups.size()}};
    write_options(plan.options, item);
    plans.push_back(std::move(item));
  }
  return core::json_text({{"format", "fusewise.memory-front"},
                          {"version", 1},
                          {"workers", front.workers},
                          {"exact", front.is_exact},
                          {"looked_at", front.looked_at},
                          {"units", front.units},
                          {"activations", front.has_activations},
                          {"chosen", front.chosen},
                          {"plans", std::move(plans)}});
}

}  // namespace planner
