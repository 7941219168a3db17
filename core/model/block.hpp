// A named group of layers in a file, with parameters.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"

namespace core {

/// Keys that a layer, a use of a block and a group share.
inline constexpr std::string_view kUseKeys[] = {"name", "inputs", "repeat", "first"};

struct Block {
  struct Parameter {
    std::string name;
    std::optional<Field> fallback;
  };

  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::string> inputs;  ///< names of the inputs inside the block
  Field layers;
};

/// Reads the `blocks` of a model; each may use the blocks before it.
std::vector<Block> read_blocks(const Field& file);

}  // namespace core
