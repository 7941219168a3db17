// Shapes as traces write them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kineto {

/// Reads "[[512,3,224,224,],[64,],]" as numbers.
std::vector<std::vector<std::int64_t>> shapes_of(const std::string& text);

/// The elements of a tensor; 0 if there are none, or more than any job has.
std::int64_t elements_in(const std::vector<std::int64_t>& shape);

/// The elements of all tensors that have dimensions, those in lists of tensors included, likewise.
std::int64_t elements_in(const std::string& text);

}  // namespace kineto
