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
  for (const std::vector<std::int64_t>& shape : shapes_of(text))
    if (!shape.empty()) sum += product(shape);
  return checked(sum);
}

}  // namespace kineto
