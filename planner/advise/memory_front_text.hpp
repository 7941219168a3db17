// A front as the table and the file have it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// A plan without its groups.
struct MemoryFrontLine {
  std::int64_t peak_bytes = 0;
  double iteration_us = 0;
  double lower_bound_us = 0;
  std::string units;  ///< what no group divides: blocks, layers or tensors
  std::int64_t groups = 0;
  PipelineOptions options;
};

struct MemoryFrontTable {
  std::int64_t workers = 1;
  bool is_exact = false;
  std::int64_t looked_at = 0;
  bool has_activations = false;
  std::size_t chosen = 0;
  std::vector<MemoryFrontLine> plans;
};

/// Reads and checks `fusewise.memory-front`. Throws InputError.
MemoryFrontTable read_memory_front(const core::Field& file);

/// What memory_front_text() says of a front, under a line with the number of workers.
std::string memory_front_summary(const MemoryFrontTable& front, std::size_t width = 0);

}  // namespace planner
