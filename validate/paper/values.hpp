// The value of a quantity: one number, or one for each of several cases.

#pragma once

#include <string>
#include <vector>

namespace validate {

struct Value {
  std::string label;  ///< empty if there is a single number
  double value = 0;
};

using Values = std::vector<Value>;

inline double min(const Values& values) {
  double out = values.front().value;
  for (const Value& each : values) out = each.value < out ? each.value : out;
  return out;
}

inline double max(const Values& values) {
  double out = values.front().value;
  for (const Value& each : values) out = each.value > out ? each.value : out;
  return out;
}

}  // namespace validate
