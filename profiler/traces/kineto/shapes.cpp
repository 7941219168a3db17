#include "profiler/traces/kineto/shapes.hpp"

#include <algorithm>

#include "core/limits.hpp"

namespace kineto {

std::vector<std::vector<std::int64_t>> shapes_of(const std::string& text) {
  std::vector<std::vector<std::int64_t>> out;
  int depth = 0;
  std::int64_t value = 0;
  bool in_number = false;
  bool negative = false;
  constexpr std::int64_t kMax = 1'000'000'000'000'000;
  for (const char c : text) {
    if (c == '[' && ++depth == 2) out.emplace_back();
    if (c >= '0' && c <= '9') {
      value = std::min(kMax, value) * 10 + (c - '0');
      in_number = true;
      continue;
    }
    if (in_number && depth == 2) out.back().push_back(negative ? -value : value);
    negative = c == '-';
    value = 0;
    in_number = false;
    if (c == ']') --depth;
  }
  return out;
}

namespace {

std::int64_t checked(double elements) {
  return elements >= 1 && elements <= static_cast<double>(core::kMaxElements)
             ? static_cast<std::int64_t>(elements)
             : 0;
}

double product(const std::vector<std::int64_t>& shape) {
  double out = 1;
  for (const std::int64_t extent : shape) out *= static_cast<double>(extent);
  return out;
}

}  // namespace

std::int64_t elements_in(const std::vector<std::int64_t>& shape) { return checked(product(shape)); }

std::int64_t elements_in(const std::string& text) {
  double sum = 0;
  double extents = 1;
  bool is_shape = false;  // the list that was opened last holds numbers
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') {
      ++depth;
      extents = 1;
      is_shape = false;
    } else if (text[i] == ']') {
      if (is_shape && depth > 1) sum += extents;
      is_shape = false;
      --depth;
    } else if (text[i] >= '0' && text[i] <= '9') {
      double extent = 0;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) extent = 10 * extent + (text[i] - '0');
      --i;
      extents *= extent;
      is_shape = true;
    }
  }
  return checked(sum);
}

}  // namespace kineto
