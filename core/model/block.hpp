// A named group of layers in a file, with parameters.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"

namespace core {

/// What a layer, a block's use or a group may say besides what is its own.
inline constexpr std::string_view kUseKeys[] = {"name", "inputs", "repeat", "first"};

struct Block {
  struct Parameter {
    std::string name;
    std::optional<Field> fallback;
  };

  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::string> inputs;  ///< what its layers call what it is given
  Field layers;
};

/// The `blocks` of a model; each may use those before it.
std::vector<Block> read_blocks(const Field& file);

}  // namespace core
