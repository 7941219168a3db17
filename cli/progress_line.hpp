// Progress on a terminal: finished simulations, and steps.

#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "core/descriptor.hpp"
#include "planner/scenarios/run.hpp"

namespace cli {

/// How many were done each second, and how long the rest takes at that pace: ", 12.5 a second, about 4 s
/// left".
std::string pace(std::size_t done, std::size_t left, double seconds);

/// Replaces the line of progress on a terminal; the text is cut where the terminal ends, because only its
/// last row could be replaced.
void show_progress_line(int terminal, const std::string& text);

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

/// Counts steps of unlike length in one line: what is done next, how many are done, how many each second,
/// and how long the rest takes at that pace. Appears only on a terminal: the one of the process that
/// constructs it, also where a child that redirects its stderr takes the steps.
class StepLine {
 public:
  explicit StepLine(std::size_t total = 0);
  /// Steps that turn out to be necessary later. A step beyond the total counts by itself.
  void add(std::size_t steps);
  void next(const std::string& what);
  /// The same for work that tells the total with each step.
  void next(std::size_t total, const std::string& what);
  void end();

 private:
  core::Descriptor terminal_;  ///< below 0: nothing appears
  std::size_t total_;
  std::size_t begun_steps_ = 0;
  std::chrono::steady_clock::time_point begun_ = {};  ///< when the first step begins
};

}  // namespace cli
