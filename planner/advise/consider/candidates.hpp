// Plans compressors as candidates: finds the best groups of each and their cost.

#pragma once

#include <string>
#include <vector>

#include "planner/advise/consider/variants.hpp"

namespace planner::considered {

/// Gains below this share of the time count as rounding errors.
constexpr double kNoGain = 1e-6;

inline bool is_sooner(double us, double than_us) { return us < than_us * (1 - kNoGain); }

/// The transfers that the schedule offers, restricted to their choice of collectives.
std::vector<TransferChoice> collective_choices(const Schedule& schedule);

/// The schedule without compression, with optimal groups.
Schedule dense_of(const Schedule& schedule);

/// The uncompressed schedule with a compressor, for all groups or only for those that gain.
Schedule compressed_of(const Schedule& dense, const Compressor& compressor, bool is_per_group);

Candidate described(const FusionRequest& request, const Schedule& schedule, const Groups& groups,
                    const Variant& variant, double factor);

/// Groups with the transfers that they name.
struct Plan {
  Groups groups;
  std::vector<TransferCost> transfers;
};

struct Planned {
  Candidate candidate;
  Plan plan;
  double work = 0;  ///< estimated cost of finding them
};

Planned planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor);

/// Improves the groups' transfers one at a time for as long as the iteration gets shorter.
Groups with_better_transfers(const FusionRequest& request, Groups groups);

/// The better of both plans' groups when each group may be sent either way.
Groups quick_choice(const FusionRequest& request, const Plan& dense, const Plan& compressed);

}  // namespace planner::considered
