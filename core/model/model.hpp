// A model: the layers of a network with their shapes, tensors and costs, read from `fusewise.model`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/model/layer.hpp"

namespace core {

/// Published figures of this model, for comparison.
struct Published {
  std::optional<std::int64_t> tensors;
  std::int64_t parameters = 0;
  std::string source;
};

struct Model {
  std::string name;
  std::string about;
  std::optional<Published> published;
  std::int64_t batch_size = 1;
  std::string dtype;  ///< float32, float16 or bfloat16
  std::optional<std::int64_t> sequence_length;
  /// In forward order: a layer's inputs come before it.
  std::vector<Layer> layers;
};

struct ModelOptions {
  /// Replaces the file's length; only for a model that has one.
  std::optional<std::int64_t> sequence_length;
  /// Height and width that replace the file's; only for a model with images.
  std::optional<std::int64_t> input_size = std::nullopt;
};

/// Reads `fusewise.model`, expands its blocks, infers every shape; throws InputError.
Model read_model(const Field& field, const ModelOptions& options = {});

/// A shared tensor counts once.
std::int64_t tensor_count(const Model& model);
std::int64_t parameter_count(const Model& model);
/// For one sample.
double forward_flops(const Model& model);

}  // namespace core
