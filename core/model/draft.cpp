#include "core/model/draft.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace core {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size > kMaxTensorElements / count) return kMaxTensorElements + 1;
    count *= size;
  }
  return count;
}

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Draft::Draft(Layer started, const Field& field, const Arguments& arguments, const std::vector<Layer>& layers)
    : layer(std::move(started)), field_(field), arguments_(arguments), layers_(layers) {}

void Draft::refuse(std::string_view what, std::string_view got) const {
  field_.expected(what, fmt::format("{} in layer '{}'", got, printable(layer.name)));
}

const Layer& Draft::input_layer(std::size_t index) const { return layers_[layer.inputs[index]]; }

std::vector<Shape> Draft::inputs(std::size_t min, std::size_t max) const {
  if (layer.inputs.size() < min || layer.inputs.size() > max) {
    const std::string wanted = min == max             ? fmt::format("{}", min)
                               : max > layers_.size() ? fmt::format("at least {}", min)
                                                      : fmt::format("{} to {}", min, max);
    refuse(fmt::format("{} {}", wanted, max == 1 ? "input" : "inputs"), fmt::to_string(layer.inputs.size()));
  }
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    const auto* given = std::get_if<Input>(&input_layer(i).parameters);
    if (given != nullptr && given->element == Element::token)
      refuse("an input of numbers", fmt::format("the tokens '{}'", printable(input_layer(i).name)));
    shapes.push_back(input_layer(i).output);
  }
  return shapes;
}

const Shape& Draft::input() const {
  (void)inputs(1, 1);  // rejects any other number, and tokens
  return input_layer(0).output;
}

const Shape& Draft::image() const {
  const Shape& shape = input();
  if (shape.size() != 3) refuse("an input of shape [channels, height, width]", text(shape));
  return shape;
}

const Shape& Draft::sequence() const {
  const Shape& shape = input();
  if (shape.size() != 2) refuse("an input of shape [length, features]", text(shape));
  return shape;
}

const Layer& Draft::any_input() const {
  if (layer.inputs.size() != 1) refuse("1 input", fmt::to_string(layer.inputs.size()));
  return input_layer(0);
}

std::optional<Field> Draft::find(std::string_view key) const {
  const std::optional<Field> found = field_.find(key);
  return found ? std::optional(arguments_.resolve(*found)) : std::nullopt;
}

std::int64_t Draft::integer(std::string_view key, std::int64_t min) const {
  return arguments_.resolve(field_.at(key)).integer(min, kLargestSize);
}

std::int64_t Draft::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min) const {
  const std::optional<Field> found = find(key);
  return found ? found->integer(min, kLargestSize) : fallback;
}

double Draft::number_or(std::string_view key, double fallback, double min, double max) const {
  const std::optional<Field> found = find(key);
  return found ? found->number(min, max) : fallback;
}

bool Draft::boolean_or(std::string_view key, bool fallback) const {
  const std::optional<Field> found = find(key);
  return found ? found->boolean() : fallback;
}

Extent Draft::to_extent(const Field& value, std::int64_t min) const {
  if (!value.is_array()) {
    const std::int64_t size = value.integer(min, kLargestSize);
    return {size, size};
  }
  const std::vector<Field> sizes = value.items();
  if (sizes.size() != 2) value.expected("a number or [height, width]");
  return {arguments_.resolve(sizes[0]).integer(min, kLargestSize),
          arguments_.resolve(sizes[1]).integer(min, kLargestSize)};
}

Extent Draft::extent(std::string_view key) const { return to_extent(arguments_.resolve(field_.at(key)), 1); }

Extent Draft::extent_or(std::string_view key, Extent fallback, std::int64_t min) const {
  const std::optional<Field> found = find(key);
  return found ? to_extent(*found, min) : fallback;
}

std::vector<std::int64_t> Draft::integers(std::string_view key, std::int64_t min, std::int64_t max) const {
  std::vector<std::int64_t> values;
  for (const Field& item : arguments_.resolve(field_.at(key)).non_empty_items())
    values.push_back(arguments_.resolve(item).integer(min, max));
  return values;
}

std::int64_t Draft::checked_count(const Shape& shape) const {
  const std::int64_t count = element_count(shape);
  if (count > kMaxTensorElements) refuse(fmt::format("at most {} elements", kMaxTensorElements), text(shape));
  return count;
}

void Draft::tensor(std::string_view leaf, Shape shape) {
  const std::int64_t elements = checked_count(shape);
  layer.tensors.push_back(
      {.name = fmt::format("{}.{}", layer.name, leaf), .shape = std::move(shape), .elements = elements});
}

}  // namespace core
