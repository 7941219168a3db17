// An imported trace as what is to be simulated again: import, compare and report use the same.

#pragma once

#include <optional>

#include "planner/scenarios/replay.hpp"
#include "profiler/traces/kineto/import.hpp"

namespace cli {

/// `waiting_us`: for slower workers, where the traces of several ranks tell it.
scenarios::MeasuredIteration measured_iteration(const kineto::Imported& imported,
                                                std::optional<double> waiting_us = {});

}  // namespace cli
