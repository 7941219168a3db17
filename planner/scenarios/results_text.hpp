// Results as a table, JSON or CSV.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "planner/scenarios/run.hpp"

namespace scenarios {

/// The numbers of an entry, by the name and in the order of every format.
std::span<const std::pair<std::string_view, double planner::Metrics::*>> result_numbers();

/// Writes a `fusewise.results` document.
std::string results_json(const Results& results);
/// Writes a header line and one line per entry (RFC 4180).
std::string results_csv(const Results& results);
/// Its header line; and one of its other lines, without the newline.
std::string csv_header(bool with_memory, bool with_intervals);
std::string csv_row(const Entry& entry, bool with_interval = false);
/// Writes aligned columns; the fastest schedule of each number of workers is marked. Where the table does not
/// fit that width, it leaves out units and columns, and says so; 0: it is complete.
std::string results_table(Results results, std::size_t width = 0);

/// Names of schedules without the folders of files in them, if the names stay distinct.
std::vector<std::string> without_folders(std::vector<std::string> names);

/// Writes a plan and its comparison with others as text.
std::string plan_table(const planner::PlanFile& plan);

/// How good the groups of a plan are; `exact` says what holds of them if they are exact.
std::string optimality_words(const planner::PlanFile& plan, std::string_view exact);

/// What the row is called whose time no grouping beats under the plan's pipeline; another pipeline may.
std::string lower_bound_label(const planner::PlanFile& plan);

}  // namespace scenarios
