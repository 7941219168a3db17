// Results as a table for people, JSON and CSV for machines.

#pragma once

#include <string>

#include "planner/scenarios/run.hpp"

namespace scenarios {

/// `fusewise.results`
std::string results_json(const Results& results);
/// A header line, then a line per entry; RFC 4180.
std::string results_csv(const Results& results);
/// Aligned columns; the fastest schedule of each number of workers is marked.
std::string results_table(const Results& results);

/// What a plan says, and how it compares, for people.
std::string plan_table(const planner::PlanFile& plan);

}  // namespace scenarios
