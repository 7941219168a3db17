// Reads a fusewise.results file, of which a report shows the iterations.

#pragma once

#include "core/field.hpp"
#include "planner/scenarios/run.hpp"

namespace report {

/// Reads the entries with their intervals, and the warnings. Throws InputError.
scenarios::Results read_results(const core::Field& file);

}  // namespace report
