// What the `$names` in a block stand for.

#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "core/field.hpp"

namespace core {

class Arguments {
 public:
  void set(const std::string& name, Field value) { values_.insert_or_assign(name, std::move(value)); }

  /// The value itself or, where "$name" stands, what that stands for: messages then point at the latter.
  Field resolve(const Field& value) const;

 private:
  std::unordered_map<std::string, Field> values_;  // literals, never "$name"
};

}  // namespace core
