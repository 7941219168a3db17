// Counts finished simulations on a terminal.

#pragma once

#include <chrono>

#include "planner/scenarios/run.hpp"

namespace cli {

/// Counts finished simulations in one line on stderr. Appears only on a terminal, after half a second.
class ProgressLine {
 public:
  ProgressLine();
  void operator()(const scenarios::Progress& progress);

 private:
  bool is_terminal_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = begun_;
};

}  // namespace cli
