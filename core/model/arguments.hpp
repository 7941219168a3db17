// The values of the `$names` in a block.

#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "core/field.hpp"

namespace core {

class Arguments {
 public:
  void set(const std::string& name, Field value) { values_.insert_or_assign(name, std::move(value)); }

  /// Returns the value itself or, for "$name", the argument; messages then point at the argument.
  Field resolve(const Field& value) const;

 private:
  std::unordered_map<std::string, Field> values_;  // literals, never "$name"
};

}  // namespace core
