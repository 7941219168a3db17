// A timeline small enough for a page: numbers instead of objects, and neighbouring tasks joined where there
// are too many.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

/// Writes `{"schedule", "process", "marks", "lanes", "slices", "idle", "joined_us"}`, and "stage" if it has
/// one. Times are whole nanoseconds. A slice is five numbers in a row: lane, category, index into `texts`,
/// start and duration. Neighbouring slices of one category are joined as long as they take at most `longest`
/// together, which is then `joined_us`; it is -1 if none are.
nlohmann::ordered_json compact(const scenarios::WorkerTimeline& timeline, std::optional<sim::Time> longest,
                               Texts& texts);

}  // namespace report
