#include "core/model/block.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace core {
namespace {

constexpr std::size_t kMaxBlocks = 100;

/// Reads "name" or ["name", default value].
Block::Parameter read_parameter(const Field& field) {
  if (!field.is_array()) return {.name = field.name(), .fallback = std::nullopt};
  const std::vector<Field> parts = field.items();
  if (parts.size() != 2) field.expected("a name or [name, value]");
  return {.name = parts[0].name(), .fallback = parts[1]};
}

std::vector<Block::Parameter> read_parameters(const Field& field) {
  std::vector<Block::Parameter> parameters;
  for (const Field& item : field.items()) {
    Block::Parameter parameter = read_parameter(item);
    const bool is_use_key = parameter.name == "block" || std::find(std::begin(kUseKeys), std::end(kUseKeys),
                                                                   parameter.name) != std::end(kUseKeys);
    if (is_use_key)
      item.expected("a name that means nothing yet", fmt::format("\"{}\"", printable(parameter.name)));
    for (const Block::Parameter& earlier : parameters)
      if (earlier.name == parameter.name)
        item.expected("a name once", fmt::format("\"{}\" twice", printable(parameter.name)));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::vector<std::string> read_input_names(const Field& field) {
  std::vector<std::string> names;
  for (const Field& item : field.non_empty_items()) {
    names.push_back(item.name());
    if (std::find(names.begin(), names.end() - 1, names.back()) != names.end() - 1)
      item.expected("a name once", fmt::format("\"{}\" twice", printable(names.back())));
  }
  return names;
}

Block read_block(const Field& field) {
  field.allow_only({"name", "parameters", "inputs", "layers"});
  const std::optional<Field> parameters = field.find("parameters");
  const std::optional<Field> inputs = field.find("inputs");
  return {.name = field.at("name").name(),
          .parameters = parameters ? read_parameters(*parameters) : std::vector<Block::Parameter>(),
          .inputs = inputs ? read_input_names(*inputs) : std::vector<std::string>{"input"},
          .layers = field.at("layers")};
}

}  // namespace

std::vector<Block> read_blocks(const Field& file) {
  std::vector<Block> blocks;
  const std::optional<Field> field = file.find("blocks");
  if (!field) return blocks;
  for (const Field& item : field->items()) {
    blocks.push_back(read_block(item));
    if (blocks.size() > kMaxBlocks) field->expected(fmt::format("at most {} blocks", kMaxBlocks));
    const auto same_name = [&](const Block& other) { return other.name == blocks.back().name; };
    if (std::any_of(blocks.begin(), blocks.end() - 1, same_name))
      item.at("name").expected("a name that no other block has");
  }
  return blocks;
}

}  // namespace core
