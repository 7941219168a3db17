#include "core/model/expand.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "core/model/block.hpp"
#include "core/model/draft.hpp"
#include "core/model/kinds.hpp"

namespace core {
namespace {

constexpr std::size_t kMaxLayers = 20'000;
constexpr int kDeepest = 100;

/// A namespace of layer names: the layers of a named block, or of the file.
struct NameScope {
  std::string prefix;       ///< "layer1.0."
  std::size_t entries = 0;  ///< counts entries; names the next one without a name, as in PyTorch's Sequential
};

/// The blocks and inputs that the layers of one list can see.
struct Scope {
  NameScope* naming = nullptr;
  const Arguments* arguments = nullptr;
  std::vector<std::pair<std::string, std::size_t>> inputs;  ///< their names and layers
  std::size_t visible_blocks = 0;                           ///< the first so many
  int depth = 0;
};

class Expander {
 public:
  Expander(std::vector<Block> blocks, std::vector<Layer> given)
      : blocks_(std::move(blocks)), layers_(std::move(given)) {
    for (std::size_t i = 0; i < layers_.size(); ++i) results_.emplace(layers_[i].name, i);
  }

  void run(const Field& layers, const Arguments& globals) {
    globals_ = &globals;
    NameScope naming;
    const Scope scope = {.naming = &naming, .arguments = &globals, .visible_blocks = blocks_.size()};
    list(layers, scope, 0);
  }

  std::vector<Layer> take() { return std::move(layers_); }

 private:
  /// One repetition of a layer, a use of a block, or a group.
  struct Use {
    const Field& field;
    std::optional<std::string> name;  ///< none: a layer is numbered, a block's layers join those around it
    std::vector<std::size_t> inputs;
    std::optional<Field> own;  ///< the parameters of this repetition
  };

  std::size_t list(const Field& layers, const Scope& scope, std::size_t before);
  std::size_t entry(const Field& field, const Scope& scope, std::size_t before);
  std::size_t one(const Use& use, const Scope& scope);
  std::size_t layer(const Use& use, const Scope& scope);
  std::size_t group(const Use& use, const Scope& scope);
  std::size_t block(const Use& use, const Scope& scope);
  std::size_t inside(const Field& layers, const Use& use, const Scope& scope, Scope inner);

  std::vector<std::optional<Field>> repetitions(const Field& field, const Scope& scope) const;
  std::vector<std::size_t> inputs(const Field& field, const Scope& scope, std::size_t before) const;
  std::size_t find(const Field& reference, const Scope& scope) const;
  Arguments bind(const Block& block, const Use& use, const Scope& scope) const;
  void share(Draft& draft, const Field& shares) const;
  std::size_t finish(Draft draft, const Field& field);
  void register_name(const Field& field, const std::string& name, std::size_t result);

  std::vector<Block> blocks_;
  std::vector<Layer> layers_;
  const Arguments* globals_ = nullptr;
  std::unordered_map<std::string, std::size_t> results_;  ///< of layers and uses, by their full names
  std::unordered_map<std::string, TensorRef> tensors_;
  std::int64_t elements_ = 0;
};

std::size_t Expander::list(const Field& layers, const Scope& scope, std::size_t before) {
  if (scope.depth > kDeepest) layers.expected(fmt::format("blocks nested at most {} deep", kDeepest), "more");
  for (const Field& field : layers.non_empty_items()) before = entry(field, scope, before);
  return before;
}

/// "{}" in a name is replaced by the number of the repetition; without it the number follows a point.
std::string numbered(const std::string& name, std::int64_t number) {
  const std::size_t place = name.find("{}");
  if (place == std::string::npos) return fmt::format("{}.{}", name, number);
  return fmt::format("{}{}{}", name.substr(0, place), number, name.substr(place + 2));
}

std::size_t Expander::entry(const Field& field, const Scope& scope, std::size_t before) {
  Use use = {
      .field = field, .name = std::nullopt, .inputs = inputs(field, scope, before), .own = std::nullopt};
  const std::optional<Field> name = field.find("name");
  const std::optional<Field> repeat = field.find("repeat");
  const std::optional<Field> first = field.find("first");
  if (first && !repeat) first->expected("a 'repeat' beside it", "none");
  std::int64_t number = first ? first->integer(0, kLargestSize) : 0;
  std::size_t result = before;
  for (const std::optional<Field>& own : repetitions(field, scope)) {
    if (name) use.name = repeat ? numbered(name->name(), number++) : name->name();
    if (use.name && !repeat && use.name->find("{}") != std::string::npos)
      name->expected("a name without {}, as there is no 'repeat'");
    use.own = own;
    result = one(use, scope);
    use.inputs.front() = result;
  }
  // The last repetition is also known by the common name.
  if (name && repeat && name->name().find("{}") == std::string::npos)
    register_name(*name, scope.naming->prefix + name->name(), result);
  return result;
}

std::size_t Expander::one(const Use& use, const Scope& scope) {
  if (use.field.has("block")) return block(use, scope);
  if (use.field.has("layers") && !use.field.has("kind")) return group(use, scope);
  return layer(use, scope);
}

std::vector<std::optional<Field>> Expander::repetitions(const Field& field, const Scope& scope) const {
  constexpr std::int64_t kMaxRepetitions = 10'000;
  const std::optional<Field> repeat = field.find("repeat");
  if (!repeat) return {std::nullopt};
  const Field value = scope.arguments->resolve(*repeat);
  if (!value.is_array() || !field.has("block"))
    return std::vector<std::optional<Field>>(static_cast<std::size_t>(value.integer(1, kMaxRepetitions)));
  const std::vector<Field> sets = value.non_empty_items();
  return {sets.begin(), sets.end()};
}

std::vector<std::size_t> Expander::inputs(const Field& field, const Scope& scope, std::size_t before) const {
  const std::optional<Field> given = field.find("inputs");
  if (!given) return {before};
  std::vector<std::size_t> found;
  for (const Field& reference : given->non_empty_items()) found.push_back(find(reference, scope));
  return found;
}

std::size_t Expander::find(const Field& reference, const Scope& scope) const {
  const std::string name = reference.name();
  for (const auto& [input, index] : scope.inputs)
    if (input == name) return index;
  const std::string& prefix = scope.naming->prefix;
  const auto found = results_.find(prefix + name);
  if (found != results_.end()) return found->second;

  std::vector<std::string_view> known;
  for (const auto& [input, index] : scope.inputs) known.push_back(input);
  for (const auto& [full_name, index] : results_)
    if (full_name.compare(0, prefix.size(), prefix) == 0)
      known.push_back(std::string_view(full_name).substr(prefix.size()));
  std::ranges::sort(known);  // so that the same file gives the same message
  reference.expected("the name of an input or an earlier layer",
                     fmt::format("\"{}\"{}", printable(name), suggestion(name, known)));
}

std::size_t Expander::layer(const Use& use, const Scope& scope) {
  const Field kind_name = use.field.at("kind");
  std::vector<std::string_view> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  const std::string wanted = kind_name.one_of(names);
  const Kind& kind = *std::ranges::find(kinds(), wanted, &Kind::name);
  std::vector<std::string_view> keys(std::begin(kUseKeys), std::end(kUseKeys));
  keys.emplace_back("kind");
  keys.insert(keys.end(), kind.keys.begin(), kind.keys.end());
  use.field.allow_only(keys);

  NameScope& naming = *scope.naming;
  Layer layer = {.name = naming.prefix + use.name.value_or(fmt::to_string(naming.entries)),
                 .kind = kind.kind,
                 .parameters = {},
                 .inputs = use.inputs,
                 .output = {},
                 .tensors = {},
                 .is_view = kind.is_view};
  ++naming.entries;
  Draft draft(std::move(layer), use.field, *scope.arguments, layers_);
  kind.infer(draft);
  if (const auto shares = use.field.find("tied_to")) share(draft, *shares);
  return finish(std::move(draft), use.field);
}

/// Uses a tensor of an earlier layer as this layer's "weight".
void Expander::share(Draft& draft, const Field& shares) const {
  const std::string wanted = shares.name();
  const auto found = tensors_.find(wanted);
  if (found == tensors_.end()) {
    std::vector<std::string_view> known;
    for (const auto& [name, unused] : tensors_) known.push_back(name);
    std::ranges::sort(known);
    shares.expected("the name of an earlier tensor",
                    fmt::format("\"{}\"{}", printable(wanted), suggestion(wanted, known)));
  }
  const TensorRef owner = found->second;
  const Shape& shape = layers_[owner.layer].tensors[owner.tensor].shape;
  const Tensor& weight = draft.layer.tensors.front();
  if (shape != weight.shape)
    shares.expected(fmt::format("a tensor of shape {}", text(weight.shape)), text(shape));
  draft.layer.tensors.erase(draft.layer.tensors.begin());
  draft.layer.shared_weight = owner;
}

std::size_t Expander::finish(Draft draft, const Field& field) {
  const std::int64_t output = draft.checked_count(draft.layer.output);
  if (draft.layer.activation_elements == 0 && !draft.layer.is_view) draft.layer.activation_elements = output;
  const std::size_t index = layers_.size();
  if (index >= kMaxLayers) field.expected(fmt::format("at most {} layers in all", kMaxLayers), "more");
  for (std::size_t i = 0; i < draft.layer.tensors.size(); ++i) {
    elements_ += draft.layer.tensors[i].elements;
    tensors_.emplace(draft.layer.tensors[i].name, TensorRef{index, i});
  }
  if (elements_ > kMaxElementsInAll)
    field.expected(fmt::format("at most {} elements in all tensors", kMaxElementsInAll), "more");
  register_name(field.find("name").value_or(field), draft.layer.name, index);
  layers_.push_back(std::move(draft.layer));
  return index;
}

void Expander::register_name(const Field& field, const std::string& name, std::size_t result) {
  if (results_.emplace(name, result).second) return;
  field.expected("a name that nothing else in this model has", fmt::format("\"{}\" twice", printable(name)));
}

std::size_t Expander::group(const Use& use, const Scope& scope) {
  std::vector<std::string_view> keys(std::begin(kUseKeys), std::end(kUseKeys));
  keys.emplace_back("layers");
  use.field.allow_only(keys);
  if (use.inputs.size() != 1) use.field.at("inputs").expected("1 input");
  Scope inner = scope;
  inner.inputs = {{"input", use.inputs.front()}};
  return inside(use.field.at("layers"), use, scope, std::move(inner));
}

std::size_t Expander::block(const Use& use, const Scope& scope) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < scope.visible_blocks; ++i) names.push_back(blocks_[i].name);
  const Field reference = use.field.at("block");
  if (names.empty()) reference.expected("the name of an earlier block");
  const std::string wanted = reference.one_of(names);
  const auto index = static_cast<std::size_t>(std::ranges::find(names, wanted) - names.begin());
  const Block& block = blocks_[index];

  const Arguments arguments = bind(block, use, scope);
  if (use.inputs.size() != block.inputs.size())
    use.field.expected(
        fmt::format("as many inputs as '{}' has, {}", printable(block.name), block.inputs.size()),
        fmt::to_string(use.inputs.size()));
  Scope inner = scope;
  inner.inputs.clear();
  for (std::size_t i = 0; i < block.inputs.size(); ++i)
    inner.inputs.emplace_back(block.inputs[i], use.inputs[i]);
  inner.arguments = &arguments;
  inner.visible_blocks = index;
  return inside(block.layers, use, scope, std::move(inner));
}

std::size_t Expander::inside(const Field& layers, const Use& use, const Scope& scope, Scope inner) {
  ++inner.depth;
  const std::size_t first_input = inner.inputs.front().second;
  if (!use.name) return list(layers, inner, first_input);
  NameScope naming = {.prefix = fmt::format("{}{}.", scope.naming->prefix, *use.name)};
  ++scope.naming->entries;
  inner.naming = &naming;
  const std::size_t result = list(layers, inner, first_input);
  register_name(use.field.at("name"), scope.naming->prefix + *use.name, result);
  return result;
}

/// Returns the value with "$name" resolved, so that it does not depend on where it is used.
Field literal(const Field& field, const Arguments& arguments) {
  Field value = arguments.resolve(field);
  if (!value.is_array()) return value;
  for (const Field& item : value.items())
    if (item.is_text()) item.expected("a number");
  return value;
}

/// Returns the values of a block's parameters: this repetition's own, then the use's, then the block's.
Arguments Expander::bind(const Block& block, const Use& use, const Scope& scope) const {
  std::vector<std::string_view> own_keys;
  for (const Block::Parameter& parameter : block.parameters) own_keys.push_back(parameter.name);
  std::vector<std::string_view> keys = own_keys;
  keys.insert(keys.end(), std::begin(kUseKeys), std::end(kUseKeys));
  keys.emplace_back("block");
  use.field.allow_only(keys);
  if (use.own) use.own->allow_only(own_keys);

  Arguments arguments = *globals_;
  for (const Block::Parameter& parameter : block.parameters) {
    if (use.own && use.own->has(parameter.name))
      arguments.set(parameter.name, literal(use.own->at(parameter.name), *scope.arguments));
    else if (use.field.has(parameter.name) || !parameter.fallback)
      arguments.set(parameter.name, literal(use.field.at(parameter.name), *scope.arguments));
    else
      arguments.set(parameter.name, literal(*parameter.fallback, *globals_));
  }
  return arguments;
}

}  // namespace

std::vector<Layer> expand_layers(const Field& file, std::vector<Layer> given, const Arguments& globals) {
  Expander expander(read_blocks(file), std::move(given));
  expander.run(file.at("layers"), globals);
  return expander.take();
}

}  // namespace core
