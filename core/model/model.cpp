#include "core/model/model.hpp"

#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/model/arguments.hpp"
#include "core/model/draft.hpp"
#include "core/model/expand.hpp"

namespace core {
namespace {

constexpr std::int64_t kMaxParameters = 1'000'000'000'000'000;

Published read_published(const Field& field) {
  field.allow_only({"tensors", "parameters", "source"});
  const std::optional<Field> tensors = field.find("tensors");
  return {.tensors = tensors ? std::optional(tensors->integer(1, kLargestSize)) : std::nullopt,
          .parameters = field.at("parameters").integer(1, kMaxParameters),
          .source = field.at("source").name()};
}

/// Returns an input as a layer.
Layer read_input(const Field& field, const Arguments& globals) {
  field.allow_only({"name", "shape", "element", "vocabulary"});
  Layer layer = {.name = field.at("name").name(), .kind = LayerKind::input, .is_view = true};
  const Field shape = field.at("shape");
  for (const Field& size : shape.non_empty_items())
    layer.output.push_back(globals.resolve(size).integer(1, kLargestSize));
  if (element_count(layer.output) > kMaxTensorElements)
    shape.expected(fmt::format("at most {} elements", kMaxTensorElements));

  Input input;
  const std::optional<Field> element = field.find("element");
  if (element && element->one_of({"float", "token"}) == "token") {
    input.element = Element::token;
    input.vocabulary = field.at("vocabulary").integer(1, kLargestSize);
  } else if (field.has("vocabulary")) {
    field.at("vocabulary").expected(R"(nothing beside "element": "float")");
  }
  layer.parameters = input;
  return layer;
}

std::vector<Layer> read_inputs(const Field& field, const Arguments& globals) {
  std::vector<Layer> inputs;
  std::unordered_set<std::string> names;
  for (const Field& item : field.non_empty_items()) {
    inputs.push_back(read_input(item, globals));
    if (!names.insert(inputs.back().name).second) item.at("name").expected("a name that no other input has");
  }
  return inputs;
}

/// Returns the length of a sequence, from the options or the file, and defines "$sequence_length".
std::optional<std::int64_t> read_length(const Field& file, const ModelOptions& options, Arguments& globals) {
  const std::optional<Field> field = file.find("sequence_length");
  if (!field) {
    if (options.sequence_length) file.expected("a model with a sequence_length", "one without");
    return std::nullopt;
  }
  const std::int64_t own = field->integer(1, kLargestSize);
  const std::int64_t length = options.sequence_length.value_or(own);
  globals.set("sequence_length",
              length == own ? *field : Field::parse(fmt::to_string(length), "the sequence length asked for"));
  return length;
}

/// True for an input [channels, height, width].
bool is_image(const Layer& input) {
  return input.output.size() == 3 && std::get<Input>(input.parameters).element == Element::real;
}

/// Changes the size of the images to that of the options.
void resize(const Field& field, const ModelOptions& options, std::vector<Layer>& inputs) {
  if (!options.input_size) return;
  bool has_image = false;
  for (Layer& input : inputs) {
    if (!is_image(input)) continue;
    has_image = true;
    input.output[1] = input.output[2] = *options.input_size;
    if (element_count(input.output) > kMaxTensorElements)
      field.expected(fmt::format("at most {} elements", kMaxTensorElements),
                     fmt::format("{} of images of {} x {}", element_count(input.output), input.output[1],
                                 input.output[2]));
  }
  if (!has_image) field.expected("an input of images, as an input size was asked for", "none");
}

}  // namespace

Model read_model(const Field& field, const ModelOptions& options) {
  field.check_format("fusewise.model");
  field.allow_only({"format", "version", "name", "about", "published", "input", "sequence_length",
                    "batch_size", "dtype", "blocks", "layers"});
  const std::optional<Field> published = field.find("published");
  Model model = {.name = field.at("name").name(),
                 .about = field.at("about").text(),
                 .published = published ? std::optional(read_published(*published)) : std::nullopt,
                 .batch_size = field.at("batch_size").integer(1, kLargestSize),
                 .dtype = field.at("dtype").one_of({"float32", "float16", "bfloat16"})};
  Arguments globals;
  model.sequence_length = read_length(field, options, globals);
  std::vector<Layer> inputs = read_inputs(field.at("input"), globals);
  resize(field.at("input"), options, inputs);
  model.layers = expand_layers(field, std::move(inputs), globals);
  if (tensor_count(model) == 0) field.at("layers").expected("layers with at least one tensor in all", "none");
  return model;
}

std::int64_t tensor_count(const Model& model) {
  std::int64_t count = 0;
  for (const Layer& layer : model.layers) count += static_cast<std::int64_t>(layer.tensors.size());
  return count;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t count = 0;
  for (const Layer& layer : model.layers)
    for (const Tensor& tensor : layer.tensors) count += tensor.elements;
  return count;
}

double forward_flops(const Model& model) {
  double flops = 0;
  for (const Layer& layer : model.layers) flops += layer.forward_flops;
  return flops;
}

}  // namespace core
