// Built where MPI was not found.

#include <fmt/format.h>

#include "models/errors.hpp"
#include "sweep/ranks.hpp"

namespace sweep {

Ranks::Ranks() {
  const int launched = launched_processes();
  if (launched > 1)
    throw models::WorldError(fmt::format(
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

void Ranks::compute(const Sweep& sweep, Rows rows, Board& board, int threads) const {
  sweep::compute(sweep, rows, board, threads);
}

}  // namespace sweep
