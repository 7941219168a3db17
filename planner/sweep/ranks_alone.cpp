// The implementation of Ranks for builds without MPI.

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/sweep/ranks.hpp"

namespace sweep {

Ranks::Ranks() {
  const int launched = launched_processes();
  if (launched > 1)
    throw core::EnvironmentError(fmt::format(
        "started as one of {} processes, but built without MPI (install libopenmpi-dev, configure "
        "and build again)",
        launched));
}

Ranks::~Ranks() = default;

bool Ranks::together(const std::function<void()>& step) const {
  step();
  return true;
}

std::string Ranks::broadcast(std::string text) const { return text; }

void Ranks::compute(const Sweep& sweep, Rows rows, WorkQueue& work_queue, int threads) const {
  sweep::compute(sweep, rows, work_queue, threads);
}

}  // namespace sweep
