// One cap per DDP bucket.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/emitters/caps.hpp"
#include "planner/emit/emitters/gradient_types.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {

struct DdpCaps {
  std::vector<std::string> mb;  ///< with the fewest decimals
  Sizes bytes;                  ///< the bytes that DDP derives from them

  /// The caps in MiB.
  nlohmann::ordered_json json() const;
};

/// Caps with which DDP forms these groups of gradients of so many bytes; they must be in backward order.
DdpCaps ddp_caps(const Sizes& bytes, const Groups& groups);

/// The lines that wrap the model in DDP with these caps. If there are several micro-batches, a function
/// follows that keeps all but the last from communicating.
std::string ddp_lines(const DdpCaps& caps, const EmitRequest& request);

/// The best single numbers for releases that take no list.
struct OlderReleases {
  std::string text;  ///< as comment lines
  nlohmann::ordered_json best_single_cap;
  nlohmann::ordered_json after_1_mib;   ///< where the first bucket keeps its 1 MiB
  nlohmann::ordered_json before_1_mib;  ///< where that is the last one
};

/// Searches them among all numbers that make different buckets of these bytes; `iteration_us` prices groups.
OlderReleases older_releases(const Report& report, const Sizes& bytes,
                             const std::function<double(const Groups&)>& iteration_us);

/// The lines that make DDP reduce gradients in another type than their own; empty where it needs none.
std::string converting_hook(const GradientTypes& types);
/// Notes the types that DDP's buckets count and reduce.
void note_types(Report& report, const GradientTypes& types);

}  // namespace planner
