#include "validate/measurements/calibration.hpp"

#include <fmt/format.h>

namespace validate {

void Errors::add(double error, const std::string& row) {
  mean = (mean * static_cast<double>(rows) + error) / static_cast<double>(rows + 1);
  if (rows == 0 || error > worst) {
    worst = error;
    worst_row = row;
  }
  ++rows;
}

std::string description(const Measurement& row) {
  return fmt::format("{}, {}, {} on {}", row.model, row.network, row.schedule, row.workers);
}

}  // namespace validate
