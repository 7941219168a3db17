// A model: the layers of a network with their shapes, tensors and costs, read from `fusewise.model`.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "core/model/layer.hpp"

namespace core {

/// What others say this model has.
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
  /// In forward order, inputs first: a layer's inputs stand before it.
  std::vector<Layer> layers;
};

struct ModelOptions {
  /// Instead of the file's; only for a model that has one.
  std::optional<std::int64_t> sequence_length;
  /// Height and width of its images, instead of the file's; only for a model that has some.
  std::optional<std::int64_t> input_size = std::nullopt;
};

/// Reads `fusewise.model`, expands its blocks, infers every shape; throws InputError.
Model read_model(const Field& field, const ModelOptions& options = {});

/// A shared tensor counts once.
std::int64_t tensor_count(const Model& model);
std::int64_t parameter_count(const Model& model);
/// Of one sample.
double forward_flops(const Model& model);

}  // namespace core
