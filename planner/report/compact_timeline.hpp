// A timeline small enough for a page: numbers instead of objects, and neighbouring tasks joined where there
// are too many.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/scenarios/run.hpp"

namespace report {

/// The texts of all timelines, each once.
class Texts {
 public:
  std::size_t index(const std::string& text);
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
  std::map<std::string, std::size_t> known_;
};

/// The times in which the worker computes nothing between its first and its last task: what its iterations
/// lose to communication that nothing hides.
std::vector<sim::Span> idle_times(const scenarios::WorkerTimeline& timeline);

/// Writes `{"schedule", "process", "marks", "lanes", "slices", "idle", "joined_us"}`. Times are whole
/// nanoseconds. A slice is five numbers in a row: lane, category, index into `texts`, start and duration.
/// Slices of one category are joined, with up to `joined_us` between them, until at most `max_slices` remain.
nlohmann::ordered_json compact(const scenarios::WorkerTimeline& timeline, std::size_t max_slices,
                               Texts& texts);

}  // namespace report
