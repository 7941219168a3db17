// General layers: matrix products, element-wise functions, joining and rearranging.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/model/kinds.hpp"

namespace core::rules {

void linear(Draft& draft) {
  const Shape& in = draft.input();
  if (in.size() > 2) draft.refuse("an input of shape [features] or [length, features]", text(in));
  const Linear linear = {.out_features = draft.integer("out_features"),
                         .bias = draft.boolean_or("bias", true)};
  draft.layer.parameters = linear;
  draft.layer.output = in;
  draft.layer.output.back() = linear.out_features;
  draft.tensor("weight", {linear.out_features, in.back()});
  draft.layer.forward_flops =
      2.0 * static_cast<double>(draft.checked_count(draft.layer.output)) * static_cast<double>(in.back());
  if (linear.bias) draft.tensor("bias", {linear.out_features});
}

/// One operation per element: relu, silu, ... Memory traffic dominates.
void elementwise(Draft& draft) {
  draft.layer.output = draft.input();
  draft.layer.forward_flops = static_cast<double>(draft.checked_count(draft.layer.output));
}

void gelu(Draft& draft) {
  elementwise(draft);
  draft.layer.parameters = Gelu{.tanh = draft.boolean_or("tanh", false)};
}

void hardtanh(Draft& draft) {
  elementwise(draft);
  const Hardtanh clamp = {.min = draft.number_or("min", -1, -1e9, 1e9),
                          .max = draft.number_or("max", 1, -1e9, 1e9)};
  if (clamp.min >= clamp.max) draft.refuse("min below max", fmt::format("{} and {}", clamp.min, clamp.max));
  draft.layer.parameters = clamp;
}

void dropout(Draft& draft) {
  elementwise(draft);
  draft.layer.parameters = Dropout{.probability = draft.number_or("probability", 0.5, 0, 1)};
}

/// add, multiply
void same_shapes(Draft& draft) {
  const std::vector<Shape> shapes = draft.inputs(2, SIZE_MAX);
  for (const Shape& shape : shapes)
    if (shape != shapes.front())
      draft.refuse("inputs of one shape", fmt::format("{} and {}", text(shapes.front()), text(shape)));
  draft.layer.output = shapes.front();
  draft.layer.forward_flops =
      static_cast<double>(shapes.size() - 1) * static_cast<double>(draft.checked_count(draft.layer.output));
}

void concat(Draft& draft) {
  const std::vector<Shape> shapes = draft.inputs(2, SIZE_MAX);
  const auto axis = static_cast<std::size_t>(draft.integer_or("axis", 0, 0));
  Shape out = shapes.front();
  if (axis >= out.size())
    draft.refuse(fmt::format("an axis from 0 to {}", out.size() - 1), fmt::to_string(axis));
  for (auto shape = shapes.begin() + 1; shape != shapes.end(); ++shape) {
    Shape alike = *shape;
    if (alike.size() == out.size()) alike[axis] = out[axis];
    if (alike != out)
      draft.refuse(fmt::format("inputs that differ in dimension {} alone", axis),
                   fmt::format("{} and {}", text(shapes.front()), text(*shape)));
    out[axis] += (*shape)[axis];
  }
  draft.layer.parameters = Concat{.axis = axis};
  draft.layer.output = out;
}

void flatten(Draft& draft) {
  const Shape& in = draft.input();
  const auto from = static_cast<std::size_t>(draft.integer_or("from", 0, 0));
  if (from >= in.size())
    draft.refuse(fmt::format("a dimension from 0 to {}", in.size() - 1), fmt::to_string(from));
  const auto first = in.begin() + static_cast<std::ptrdiff_t>(from);
  Shape out(in.begin(), first);
  out.push_back(draft.checked_count(Shape(first, in.end())));
  draft.layer.parameters = Flatten{.from = from};
  draft.layer.output = out;
}

void transpose(Draft& draft) {
  const Shape& in = draft.input();
  const std::vector<std::int64_t> axes = draft.integers("axes", 0, kLargestSize);
  std::vector<std::int64_t> sorted = axes;
  std::ranges::sort(sorted);
  bool each_once = axes.size() == in.size();
  for (std::size_t i = 0; i < sorted.size(); ++i) each_once &= sorted[i] == static_cast<std::int64_t>(i);
  if (!each_once)
    draft.refuse(fmt::format("axes that name each of {} dimensions once", in.size()), text(axes));
  Transpose transpose;
  for (const std::int64_t axis : axes) {
    transpose.axes.push_back(static_cast<std::size_t>(axis));
    draft.layer.output.push_back(in[static_cast<std::size_t>(axis)]);
  }
  draft.layer.parameters = transpose;
}

void select(Draft& draft) {
  const Shape& in = draft.input();
  const Select select = {.index = draft.integer_or("index", 0, 0)};
  if (in.size() < 2) draft.refuse("an input of at least 2 dimensions", text(in));
  if (select.index >= in.front())
    draft.refuse(fmt::format("an index from 0 to {}", in.front() - 1), fmt::to_string(select.index));
  draft.layer.parameters = select;
  draft.layer.output = Shape(in.begin() + 1, in.end());
}

void cross_entropy(Draft& draft) {
  constexpr double kFlopsPerElement = 5;  // maximum, difference, exponential, sum, quotient
  const Shape& in = draft.input();
  draft.layer.parameters = Loss{.weight = draft.number_or("weight", 1, 0, 1e6)};
  draft.layer.output = {1};
  draft.layer.forward_flops = kFlopsPerElement * static_cast<double>(draft.checked_count(in));
  draft.layer.activation_elements = draft.checked_count(in);  // the softmax
}

}  // namespace core::rules
