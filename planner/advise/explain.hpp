// Explains a plan: the cost of moving a group's boundary, where communication is exposed, what bounds the
// iteration, how sensitive the plan is to its inputs, and whether compression pays.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/run/predict.hpp"
#include "sim/timeline.hpp"

namespace planner {

struct GroupReason {
  std::string first_tensor;
  std::string last_tensor;
  std::int64_t bytes = 0;
  double sendable_us = 0;  ///< when its gradients are ready and encoded; this and the next two times count
                           ///< from the start of backward
  double start_us = 0;     ///< start of its first collective
  double end_us = 0;
  /// The cause of the start time: `gradients`, `channel` (an earlier group's collective), `gather` (an
  /// all-gather before it on the channel), `tick`, `scatters` (the limit on reduce-scatters in flight),
  /// `workers` (slower ones), or `pass` (a pass of a pipeline stage, after which collectives are issued).
  std::string waited_for;
  double exposed_us = 0;  ///< time that its collectives run while the slowest worker's
                          ///< compute is idle
  std::map<core::CollectiveKind, double> exposed_by_kind = {};  ///< its parts
  std::optional<double> merging_costs_us;    ///< cost of merging with the next group; absent for the last
                                             ///< group
  std::optional<double> splitting_costs_us;  ///< least cost of splitting the group; absent for a single
                                             ///< tensor
  std::string split_after;                   ///< the tensor after which that split is
};

/// Predicted iteration times under a hypothetical change, with this plan and with the best plan under that
/// change.
struct WhatIf {
  std::string change;
  double this_plan_us = 0;
  double best_plan_us = 0;
};

/// What-ifs for every combination of changes, at most one of each input: the product of the inputs' values,
/// of which the first is "as given" and the last input's vary fastest. A combination that cannot be run is
/// absent.
struct CombinedWhatIfs {
  struct Input {
    std::string name;
    std::vector<std::string> values;
  };
  std::vector<Input> inputs;
  std::vector<std::optional<WhatIf>> rows;
};

struct CompressorOutlook {
  std::string name;
  std::string described;          ///< the name with its density or rank
  std::optional<double> density;  ///< if it drops elements
  double iteration_us = 0;        ///< of the best plan with the compressor
  /// The factor by which bandwidth has to shrink before the compressor pays; 0 if it always pays, absent if
  /// it does not pay within a factor of 1,000.
  std::optional<double> pays_from;
};

struct Explanation {
  double iteration_us = 0;
  double lower_bound_us = 0;
  double compute_us = 0;  ///< forward, backward, coding, update and reading: a lower bound for every plan
  std::vector<GroupReason> groups;
  std::string bound_by;                     ///< the resource whose removal would shorten the iteration most
  std::vector<WhatIf> free;                 ///< one entry per resource, as if it cost nothing
  std::vector<WhatIf> other;                ///< entries for changed inputs: the plan's sensitivity
  std::optional<CombinedWhatIfs> combined;  ///< where it was asked for
  /// Upper bound of the speed-up from overlapping the communication of all bytes with forward and backward
  /// (as DeAR's equation 6, with the costs in use); absent where bytes travel encoded or workers share the
  /// update.
  std::optional<double> s_max;
  double speedup = 0;
  double best_uncompressed_us = 0;
  std::vector<CompressorOutlook> compressors;
  std::optional<double> line_rate_gbps;
};

/// `run` is the result of run(setting, schedule). The comparisons ignore jitter. `progress` is called before
/// each of its steps; `total` is their number. `combines` asks for combined what-ifs, which take several
/// times as long as those of one change.
Explanation explain(const Setting& setting, const Schedule& schedule, const Run& run,
                    const std::function<void(std::size_t total, const std::string& what)>& progress = {},
                    bool combines = false);

/// What the times of inputs are multiplied by.
struct InputFactors {
  double startup = 1;
  double per_byte = 1;
  double compute = 1;
  bool is_other_free = false;  ///< an input that takes time or none
};

/// `other` names an input that can be free, or is empty.
CombinedWhatIfs combined_what_ifs(
    const std::string& other,
    const std::function<std::optional<WhatIf>(const std::string& change, const InputFactors&)>& what_if);
/// The number of their rows.
std::size_t combinations(bool has_other);

/// The part of a span that lies in any of the others, of which no two overlap.
sim::Time overlap(const sim::Span& span, const std::vector<sim::Span>& others);

/// The schedule with its fusion replaced by the exact one.
Schedule with_optimal_fusion(const Schedule& schedule);

/// The iteration time with other groups; none if there can be no such groups.
using IterationOf = std::function<std::optional<double>(const Groups&)>;

/// Adds to the reason what merging the group with the next one costs, and splitting it.
void add_boundary_costs(const Workload& workload, const Groups& groups, std::size_t group, double planned_us,
                        const IterationOf& iteration_of, GroupReason& reason);

std::string explanation_text(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);
/// Formats "+1.234", "-0.001" or "nothing", in ms.
std::string change_text(double us);
/// A table of the rows, whose names end with the suffix.
std::string what_ifs_text(const std::vector<WhatIf>& rows, std::string_view suffix);
nlohmann::ordered_json group_reason_json(const GroupReason& reason);
nlohmann::ordered_json what_ifs_json(const std::vector<WhatIf>& rows);
nlohmann::ordered_json combined_json(const CombinedWhatIfs& all);

}  // namespace planner
