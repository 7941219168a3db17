// A step of a trace: an iteration, as its markers or its updates show it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "profiler/traces/kineto/device_time.hpp"

namespace kineto {

struct Step {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string label = {};       ///< of the annotation, after its prefix
  std::string last_label = {};  ///< of the last annotation, see joined_steps()
  std::size_t markers = 1;      ///< annotations that were joined
  bool has_gradients = false;
  bool has_update = false;                 ///< named by an annotation of the optimizer
  bool has_collectives = false;            ///< of gradients
  std::size_t left_out = 0;                ///< calls of earlier micro-batches, see keep_last_micro_batches()
  std::int64_t kept_from_ns = INT64_MIN;   ///< the last micro-batch begins, likewise
  Spans left_out_ns = {};                  ///< when these were launched
  bool may_be_partial = false;             ///< nothing says that the trace holds its begin
  std::int64_t first_lost_ns = INT64_MAX;  ///< the first launch whose kernel has no time in the trace
};

}  // namespace kineto
