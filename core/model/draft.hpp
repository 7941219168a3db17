// A layer under construction: the rule of its kind reads, checks and fills it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/model/arguments.hpp"
#include "core/model/layer.hpp"

namespace core {

class Draft {
 public:
  /// `layers` are the earlier layers, to which the indices in `layer.inputs` refer.
  Draft(Layer layer, const Field& field, const Arguments& arguments, const std::vector<Layer>& layers);

  Layer layer;

  /// Returns the only input; rejects tokens.
  const Shape& input() const;
  /// Returns the only input, [channels, height, width].
  const Shape& image() const;
  /// Returns the only input, [length, features].
  const Shape& sequence() const;
  /// Returns the only input, tokens or not.
  const Layer& any_input() const;
  std::vector<Shape> inputs(std::size_t min, std::size_t max) const;

  std::int64_t integer(std::string_view key, std::int64_t min = 1) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min = 1) const;
  double number_or(std::string_view key, double fallback, double min, double max) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  /// Reads one number for both, or [height, width].
  Extent extent(std::string_view key) const;
  Extent extent_or(std::string_view key, Extent fallback, std::int64_t min = 1) const;
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max) const;

  /// Adds a tensor of this layer, in forward order.
  void tensor(std::string_view leaf, Shape shape);
  /// Returns the number of elements of a shape; rejects more than a file may hold.
  std::int64_t checked_count(const Shape& shape) const;

  /// Throws `FILE: /layers/3: expected {what}, got {got} in layer 'NAME'`.
  [[noreturn]] void refuse(std::string_view what, std::string_view got) const;

 private:
  std::optional<Field> find(std::string_view key) const;
  Extent to_extent(const Field& value, std::int64_t min) const;
  const Layer& input_layer(std::size_t index) const;

  const Field& field_;
  const Arguments& arguments_;
  const std::vector<Layer>& layers_;
};

/// The largest size that a model may contain.
constexpr std::int64_t kLargestSize = 1'000'000'000;
constexpr std::int64_t kMaxTensorElements = 1'000'000'000'000;

}  // namespace core
