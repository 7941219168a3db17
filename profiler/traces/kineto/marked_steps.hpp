// Step markers: which of them make an iteration together, and whether any is missing.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/traces/kineto/step.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Joins marked steps in which gradients are only accumulated with those after them, until one holds the
/// update, or the collectives of gradients in traces that do not name updates; sorted by time. A marker that
/// lies within an earlier one of the same label is left out.
std::vector<Step> joined_steps(const Trace& trace, std::vector<Step> marked);

/// Says of every step whether it holds the update and collectives of gradients.
void describe_steps(const Trace& trace, std::vector<Step>& steps);

/// Returns "3 to 5, 7" for steps that markers number so, and "1 to 3" for the first three of steps without
/// numbers. After eight runs it ends with "and others".
std::string numbers_text(const std::vector<Step>& steps, const std::vector<std::int32_t>& which);

/// The times between marked steps.
class StepGaps {
 public:
  StepGaps(const std::vector<Step>& steps, bool are_marked);

  /// Whether no step is missing between one and the next: their numbers follow one another, or there is
  /// little time between them.
  bool has_next(std::size_t at) const;
  std::int64_t usual_ns() const { return usual_ns_; }

 private:
  double after_ns(std::size_t at) const;

  const std::vector<Step>& steps_;
  bool are_marked_;
  double longest_ns_ = 0;
  std::int64_t usual_ns_ = 0;
};

}  // namespace kineto
