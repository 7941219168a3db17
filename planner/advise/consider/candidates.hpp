// Compressors as candidates: the groups that are best for each, and what they come to.

#pragma once

#include <string>
#include <vector>

#include "planner/advise/consider/variants.hpp"

namespace planner::considered {

/// Less than this share of time is rounding.
constexpr double kNoGain = 1e-6;

inline bool is_sooner(double us, double than_us) { return us < than_us * (1 - kNoGain); }

/// The ways of the schedule's own choices, as far as they are about collectives.
std::vector<TransferChoice> collective_choices(const Schedule& schedule);

/// The schedule uncompressed, with the groups that no others beat.
Schedule dense_of(const Schedule& schedule);

/// The same with a compressor, for all groups or for those that gain by it.
Schedule compressed_of(const Schedule& dense, const Compressor& compressor, bool is_per_group);

Candidate described(const FusionRequest& request, const Schedule& schedule, const Groups& groups,
                    const Variant& variant, double factor);

/// Groups and the ways that they name.
struct Plan {
  Groups groups;
  std::vector<TransferCost> transfers;
};

struct Planned {
  Candidate candidate;
  Plan plan;
  double work = 0;  ///< of finding them, roughly
};

Planned planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor);

/// Other ways for these groups, one at a time as long as that is sooner.
Groups with_better_transfers(const FusionRequest& request, Groups groups);

/// The better of both plans' groups when each may travel either way.
Groups quick_choice(const FusionRequest& request, const Plan& dense, const Plan& compressed);

}  // namespace planner::considered
