// What `fusewise plan --memory-front --json` prints: the fastest plans for each amount of memory.

#include <fmt/format.h>

#include "planner/advise/memory_front_text.hpp"
#include "planner/report/report.hpp"

namespace report {

using nlohmann::ordered_json;

Report of_memory_front(const core::Field& file) {
  const planner::MemoryFrontTable front = planner::read_memory_front(file);
  ordered_json plans = ordered_json::array();
  for (const planner::MemoryFrontLine& plan : front.plans)
    plans.push_back({{"peak_bytes", plan.peak_bytes},
                     {"iteration_us", plan.iteration_us},
                     {"lower_bound_us", plan.lower_bound_us},
                     {"units", plan.units},
                     {"groups", plan.groups},
                     {"prefetch", plan.options.prefetch.value_or(1)},
                     {"backward_prefetch", plan.options.backward_prefetch.value_or(1)},
                     {"kept_groups", plan.options.kept_groups.value_or(1)}});
  Report out = {.title = fmt::format("Fastest sharded plans by memory, {} workers", front.workers),
                .data = {},
                .warnings = {}};
  out.data = {{"title", out.title},
              {"kind", "memory-front"},
              {"front",
               {{"workers", front.workers},
                {"exact", front.is_exact},
                {"activations", front.has_activations},
                {"chosen", front.chosen},
                {"plans", std::move(plans)}}}};
  return out;
}

}  // namespace report
