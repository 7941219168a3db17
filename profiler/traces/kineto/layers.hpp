// Calls of the same layer in every step become one layer of a profile: medians, and how far steps lie apart.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/profile.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

struct Layers {
  std::vector<core::ProfileLayer> layers;
  std::vector<std::int32_t> used_steps;  ///< those with the same layers as most
  std::size_t steps_with_layers = 0;
  std::int64_t without_backward = 0;  ///< layers with gradients or not, in which no backward was seen
  bool has_backward = false;
};

/// Throws InputError where gradients have no shapes.
Layers find_layers(const Trace& trace, const Calls& calls);

/// "[[512,3,224,224,],[64,],]" as numbers.
std::vector<std::vector<std::int64_t>> shapes_of(const std::string& text);

double median(std::vector<double> values);
/// Between the first and third quarter; 0 of one value.
double spread(const std::vector<double>& values);

}  // namespace kineto
