// The report on the ranks of a job: for each process group when its collectives ran, how long they took with
// and without waiting, how much of it was exposed, and who came last.

#pragma once

#include <string>
#include <vector>

#include "profiler/traces/ranks/analysis.hpp"

namespace ranks {

struct Report {
  Job job;
  std::vector<std::vector<Exposed>> exposed;  ///< of each exchange of each rank
  std::vector<GroupStatistics> groups;
  std::vector<std::string> warnings;
};

Report make_report(std::vector<RankTrace> traces);

std::string report_text(const Report& report);

/// `fusewise.ranks` (fusewise schema ranks).
std::string report_json(const Report& report);

/// The measured curves of one group, by its name or description, or as NAME@RANK, the one of that name to
/// which the rank belongs; with an empty name, of the only group that has any. Throws InputError for a name
/// that no group has, or if there are several groups to choose from, or no curve.
traces::Measurements measurements_of(const Report& report, const std::string& group);

}  // namespace ranks
