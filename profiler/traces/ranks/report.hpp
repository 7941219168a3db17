// The report on the ranks of a job: for each process group when its collectives ran, how long they took with
// and without waiting, how much of it was exposed, and who came last.

#pragma once

#include <cstddef>
#include <optional>
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

/// The group of a rank (an index into the job's) that sums gradients: `wanted` by name or description, or the
/// one that the trace shows, or the one with the most bytes in all-reduces and reduce-scatters. Throws
/// InputError if `wanted` names none.
std::optional<std::size_t> gradient_group(const Report& report, std::size_t rank, const std::string& wanted);

/// How long a rank waited in an iteration for slower members of a group while nothing hid it: the median over
/// the steps of its trace. Nothing if the group's collectives could not be matched between ranks.
std::optional<double> waiting_us(const Report& report, std::size_t rank, std::size_t group);

/// The part of waiting_us() that the rank's own trace does not show: in broadcasts, for example of DDP's
/// buffers, slower members are late by at least this much in every iteration, so that the shortest broadcast
/// holds it, too.
double constant_waiting_us(const Report& report, std::size_t rank, std::size_t group);

std::string report_text(const Report& report, std::size_t width = 0);

/// `fusewise.ranks` (fusewise schema ranks).
std::string report_json(const Report& report);

/// The measured curves of one group, by its name or description, or as NAME@RANK, the one of that name to
/// which the rank belongs; with an empty name, of the only group that has any. Throws InputError for a name
/// that no group has, or if there are several groups to choose from, or no curve.
traces::Measurements measurements_of(const Report& report, const std::string& group);

/// The same for an index into the job's groups; without series if it has no curve.
traces::Measurements measurements_of(const Report& report, std::size_t group);

}  // namespace ranks
