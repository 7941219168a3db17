// Progress on a terminal: finished simulations, and steps.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/descriptor.hpp"
#include "planner/scenarios/run.hpp"

namespace cli {

/// How many were done each second, and how long the rest takes at that pace: ", 12.5 a second, about 4 s
/// left".
std::string pace(std::size_t done, std::size_t left, double seconds);

/// Replaces the line of progress on a terminal; the text is cut where the terminal ends, because only its
/// last row could be replaced.
void show_progress_line(int terminal, const std::string& text);

/// Calls a function every second from a thread of its own, until it is destroyed. Not for commands that start
/// processes.
class EverySecond {
 public:
  explicit EverySecond(std::function<void()> call);

 private:
  std::mutex mutex_;
  std::condition_variable_any is_over_;
  std::jthread thread_;
};

/// Counts finished simulations in one line on stderr, and the seconds of the next one. Appears only on a
/// terminal, after half a second. Copies share the line.
class ProgressLine {
 public:
  ProgressLine();
  void operator()(const scenarios::Progress& progress);

 private:
  struct Line;
  std::shared_ptr<Line> line_;  ///< null: nothing appears
};

/// Counts steps of unlike length in one line: what is done next, how many are done, how many each second,
/// and how long the rest takes at that pace. Appears only on a terminal: the one of the process that
/// constructs it, also where a child that redirects its stderr takes the steps.
class StepLine {
 public:
  explicit StepLine(std::size_t total = 0);
  /// From now on the line tells how long a step has taken that takes longer than a second. Not for commands
  /// that start processes.
  void count_seconds();
  /// Steps that turn out to be necessary later. A step beyond the total counts by itself.
  void add(std::size_t steps);
  void next(const std::string& what);
  /// The same for work that tells the total with each step.
  void next(std::size_t total, const std::string& what);
  /// What the step under way does now; shown ten times a second at most.
  void detail(const std::string& what);
  void end();

 private:
  void show();

  core::Descriptor terminal_;  ///< below 0: nothing appears
  std::mutex mutex_;           ///< of what follows
  std::size_t total_;
  std::size_t begun_steps_ = 0;
  std::string step_;                                       ///< empty: none is under way
  std::string detail_;                                     ///< ", iteration 3"
  std::chrono::steady_clock::time_point begun_ = {};       ///< when the first step begins
  std::chrono::steady_clock::time_point step_begun_ = {};  ///< when the last one begins
  std::chrono::steady_clock::time_point shown_ = {};
  std::optional<EverySecond> seconds_;
};

}  // namespace cli
