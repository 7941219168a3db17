// TrioSim's operator traces of one training iteration on one GPU: a CSV of operators and a CSV of the tensors
// they touch. Forward operators become layers; the time of a backward operator is added to the layer to which
// it belongs.
//
// Of the two time columns, Operator_cudatimenooverlap is used, the sum of an operator's kernels.
// Operator_cudatime runs from the start of its first kernel to the end of its last. For the H100 ResNet-50
// the two agree within 25 us, except at the loss and the classifier, and in each backward convolution after
// which autograd adds the gradient of a residual branch, by 0.3 to 2.1 ms. This difference is the GPU waiting
// for the host, which the tracer slowed, and not uncounted kernels, for three reasons: operators of equal
// shape agree within 1 % in the sum, but only within a factor of 3.5 in the difference; the sum less the time
// of such an addition in forward is 1.8 to 3.1 times the forward convolution, and 1.6 to 3.8 times where
// there is no addition and no difference; and the same tool's VGG-13 trace, whose GPU is never idle, launches
// every kernel through the runtime calls that the sum includes.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

bool is_trace_header(std::string_view line) {
  constexpr std::string_view kStart = "OperatorID,OperatorName,";
  return line.substr(0, kStart.size()) == kStart;
}

bool is_tensor_header(std::string_view line) {
  constexpr std::string_view kStart = "Index,TensorID,TensorShape,";
  return line.substr(0, kStart.size()) == kStart;
}

using Id = std::int64_t;

/// "[13; 20; 22]"
std::vector<std::int64_t> list_of(const Line& line, std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') line.expected("a list [a; b; ...]", text);
  const std::string_view inside = trimmed(text.substr(1, text.size() - 2));
  std::vector<std::int64_t> list;
  if (inside.empty()) return list;
  for (const std::string_view item : split(inside, ";"))
    list.push_back(integer(line, trimmed(item), "a number in a list", 0, core::kMaxBytes));
  return list;
}

// ---- the tensor table

struct Parameter {
  std::string role;  ///< weight or bias
  std::int64_t elements;
};

struct TensorTable {
  std::unordered_map<Id, Parameter> parameters;
  std::unordered_map<Id, std::string> shapes;
};

/// The schema writes an optional argument as `bias=None`.
std::string role_of(std::string_view type) { return std::string(type.substr(0, type.find('='))); }

TensorTable read_tensors(const LogFile& log) {
  const CsvTable csv = read_csv(log, is_tensor_header, "a tensor table");
  const std::size_t id_column = csv.column("TensorID");
  const std::size_t shape_column = csv.column("TensorShape");
  const std::size_t elements_column = csv.column("TensorNumElement");
  const std::size_t type_column = csv.column("TensorType");
  TensorTable table;
  for (const CsvRow& row : csv.rows) {
    const Id id = integer(row.line, row.fields[id_column], "a tensor's id", 0, core::kMaxBytes);
    const std::int64_t elements =
        integer(row.line, row.fields[elements_column], "elements", 0, core::kMaxElements);
    table.shapes.emplace(id, row.fields[shape_column]);
    const std::string role = role_of(row.fields[type_column]);
    if (elements == 0 || (role != "weight" && role != "bias")) continue;  // undefined tensors have 0 elements
    const auto [known, is_new] = table.parameters.emplace(id, Parameter{.role = role, .elements = elements});
    if (!is_new && known->second.elements != elements)
      row.line.expected(fmt::format("{} elements, as tensor {} had above", known->second.elements, id),
                        row.fields[elements_column]);
  }
  return table;
}

// ---- the operators

struct Operator {
  std::string name;
  std::string stage;
  std::vector<Id> inputs;
  std::vector<std::int64_t> input_elements;
  double us = 0;
  double span_us = 0;
};

std::vector<Operator> read_operators(const LogFile& log) {
  const CsvTable csv = read_csv(log, is_trace_header, "an operator trace");
  const std::size_t name = csv.column("OperatorName");
  const std::size_t inputs = csv.column("Operator_input");
  const std::size_t elements = csv.column("InputSize");
  const std::size_t us = csv.column("Operator_cudatimenooverlap");
  const std::size_t span = csv.column("Operator_cudatime");
  const std::size_t gpu = csv.column("gpuid");
  const std::size_t stage = csv.column("stage");
  std::vector<Operator> operators;
  for (const CsvRow& row : csv.rows) {
    const std::string& where = row.fields[stage];
    if (where != "forward" && where != "backward" && where != "optimizer")
      row.line.expected("stage forward, backward or optimizer", where);
    if (row.fields[gpu] != csv.rows.front().fields[gpu])
      row.line.expected(fmt::format("one GPU, {} as above", core::printable(csv.rows.front().fields[gpu])),
                        row.fields[gpu]);
    operators.push_back({.name = row.fields[name],
                         .stage = where,
                         .inputs = list_of(row.line, row.fields[inputs]),
                         .input_elements = list_of(row.line, row.fields[elements]),
                         .us = microseconds(row.line, row.fields[us], "a time in us"),
                         .span_us = microseconds(row.line, row.fields[span], "a time in us")});
  }
  return operators;
}

/// "aten::relu_" -> "relu"
std::string kind_of(std::string_view name) {
  constexpr std::string_view kNamespace = "aten::";
  if (name.substr(0, kNamespace.size()) == kNamespace) name.remove_prefix(kNamespace.size());
  while (!name.empty() && name.back() == '_') name.remove_suffix(1);
  return std::string(name);
}

// ---- forward operators to layers

constexpr std::string_view kLoss = "cross_entropy_loss";

struct Layer {
  core::ProfileLayer layer;
  std::optional<Id> weight;
  bool is_counter = false;  ///< adds to a single number: batch norm's count of batches
  bool has_backward = false;
};

Layer layer_of(const Operator& op, const TensorTable& tensors, std::set<Id>& owned) {
  Layer out = {.layer = {.name = {}, .kind = kind_of(op.name), .forward_us = op.us}};
  for (const Id id : op.inputs) {
    const auto found = tensors.parameters.find(id);
    if (found == tensors.parameters.end()) continue;
    if (found->second.role == "weight" && !out.weight) out.weight = id;
    // A shared parameter belongs to its first use, where backward, in reverse order, completes it.
    if (owned.insert(id).second)
      out.layer.tensors.push_back({.name = found->second.role, .elements = found->second.elements});
  }
  out.is_counter = out.layer.kind == "add" && !op.input_elements.empty() &&
                   std::all_of(op.input_elements.begin(), op.input_elements.end(),
                               [](std::int64_t elements) { return elements == 1; });
  return out;
}

std::vector<Layer> forward_layers(const std::vector<Operator>& operators, const TensorTable& tensors) {
  std::vector<Layer> layers;
  std::set<Id> owned;
  for (const Operator& op : operators) {
    if (op.stage != "forward") continue;
    if (op.name == "aten::ones_like" && !layers.empty() && layers.back().layer.kind == kLoss) {
      layers.back().layer.backward_us += op.us;  // the gradient of the loss, with which backward begins
      continue;
    }
    Layer layer = layer_of(op, tensors, owned);
    if (layer.layer.kind == "batch_norm" && !layers.empty() && layers.back().is_counter) {
      layer.layer.forward_us += layers.back().layer.forward_us;
      layers.pop_back();
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// conv2d_1, conv2d_2, ...: the trace has no names of modules.
void name_layers(std::vector<Layer>& layers) {
  std::map<std::string, int> count;
  for (Layer& layer : layers) {
    layer.layer.name = fmt::format("{}_{}", layer.layer.kind, ++count[layer.layer.kind]);
    std::map<std::string, int> roles;
    for (core::ProfileTensor& tensor : layer.layer.tensors) {
      const int use = ++roles[tensor.name];
      tensor.name = layer.layer.name + '.' + tensor.name + (use > 1 ? fmt::format("#{}", use) : "");
    }
  }
}

// ---- backward operators to layers

struct BackwardRule {
  std::string_view name;
  std::string_view kind;
  bool by_weight;  ///< the operator's inputs name the weight; otherwise the order decides
};
constexpr std::array<BackwardRule, 10> kBackward = {{
    {"ConvolutionBackward0", "conv2d", true},
    {"CudnnBatchNormBackward0", "batch_norm", true},
    {"NativeBatchNormBackward0", "batch_norm", true},
    {"ReluBackward0", "relu", false},
    {"MaxPool2DWithIndicesBackward0", "max_pool2d", false},
    {"MeanBackward1", "adaptive_avg_pool2d", false},  // of a pool down to one number per channel
    {"AdaptiveAvgPool2DBackward0", "adaptive_avg_pool2d", false},
    {"AddmmBackward0", "linear", false},  // its weight is a transposed view with an id of its own
    {"LogSoftmaxBackward0", kLoss, false},
    {"NllLossBackward0", kLoss, false},
}};

const BackwardRule* rule_for(std::string_view name) {
  constexpr std::string_view kBefore = "evaluate_function: ";
  const std::size_t at = name.find(kBefore);
  if (at != std::string_view::npos) name.remove_prefix(at + kBefore.size());
  const auto found = std::find_if(kBackward.begin(), kBackward.end(),
                                  [&](const BackwardRule& rule) { return rule.name == name; });
  return found == kBackward.end() ? nullptr : &*found;
}

/// Finds each backward operator's layer; every layer once for each rule, the last one first.
class BackwardOrder {
 public:
  explicit BackwardOrder(std::vector<Layer>& layers) : layers_(&layers) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (layers[i].weight) by_weight_[*layers[i].weight].push_back(i);
  }

  Layer* find(const Operator& op) {
    const BackwardRule* const rule = rule_for(op.name);
    if (rule == nullptr) return nullptr;
    return rule->by_weight ? with_weight(op, rule->kind) : next(*rule);
  }

 private:
  Layer* with_weight(const Operator& op, std::string_view kind) {
    for (const Id id : op.inputs) {
      const auto found = by_weight_.find(id);
      if (found == by_weight_.end() || found->second.empty()) continue;
      Layer& layer = (*layers_)[found->second.back()];
      if (layer.layer.kind != kind) continue;
      found->second.pop_back();
      return &layer;
    }
    return nullptr;
  }

  Layer* next(const BackwardRule& rule) {
    std::size_t& end = next_.try_emplace(rule.name, layers_->size()).first->second;
    while (end > 0)
      if (Layer& layer = (*layers_)[--end]; layer.layer.kind == rule.kind) return &layer;
    return nullptr;
  }

  std::vector<Layer>* layers_;
  std::unordered_map<Id, std::vector<std::size_t>> by_weight_;
  std::map<std::string_view, std::size_t> next_;
};

/// Operators that belong to no layer: their time is left out of the profile and reported instead.
struct Unattributed {
  std::int64_t operators = 0;
  double us = 0;
  std::set<std::string> names;
};

Unattributed attribute_backward(const std::vector<Operator>& operators, std::vector<Layer>& layers) {
  Unattributed rest;
  BackwardOrder order(layers);
  for (const Operator& op : operators) {
    if (op.stage != "backward") continue;
    if (Layer* const layer = order.find(op)) {
      layer->layer.backward_us += op.us;
      layer->has_backward = true;
    } else {
      ++rest.operators;
      rest.us += op.us;
      rest.names.insert(core::printable(op.name));
    }
  }
  return rest;
}

// ---- the profile

double sum_us(const std::vector<Operator>& operators, std::string_view stage, double Operator::*time) {
  double sum = 0;
  for (const Operator& op : operators)
    if (op.stage == stage) sum += op.*time;
  return sum;
}

std::string report(const std::vector<Operator>& operators, const std::vector<Layer>& layers,
                   const Unattributed& rest) {
  const auto lost = std::count_if(layers.begin(), layers.end(), [](const Layer& layer) {
    return !layer.layer.tensors.empty() && !layer.has_backward;
  });
  std::string text = fmt::format(
      "times are sums of kernels; spans from an operator's first kernel to its last, in which the GPU also "
      "waits for the traced host, add up to {} us forward and {} us backward; optimizer {} us, not part of "
      "the layers; backward operators that belong to no layer: ",
      sum_us(operators, "forward", &Operator::span_us), sum_us(operators, "backward", &Operator::span_us),
      sum_us(operators, "optimizer", &Operator::us));
  text += rest.operators == 0
              ? "none"
              : fmt::format("{}, {} us in all, among them {}", rest.operators, rest.us, *rest.names.begin());
  if (lost > 0) text += fmt::format("; layers with tensors but without a backward operator: {}", lost);
  return text;
}

/// Returns the first dimension of the first operator's input, "[128, 3, 224, 224]", or 0 if that is a
/// parameter.
std::int64_t batch_size_in(const std::vector<Operator>& operators, const TensorTable& tensors) {
  if (operators.empty() || operators.front().inputs.empty()) return 0;
  if (tensors.parameters.count(operators.front().inputs.front()) > 0) return 0;
  const auto shape = tensors.shapes.find(operators.front().inputs.front());
  if (shape == tensors.shapes.end()) return 0;
  constexpr std::size_t kMaxDigits = 9;
  std::int64_t size = 0;
  for (std::size_t i = 1; i < shape->second.size() && i <= kMaxDigits; ++i) {
    const char c = shape->second[i];
    if (c < '0' || c > '9') return c == ',' ? size : 0;
    size = 10 * size + (c - '0');
  }
  return 0;
}

/// Returns the trace and the tensor table, which may be given in either order.
std::pair<const LogFile*, const LogFile*> trace_and_tensors(const std::vector<LogFile>& logs) {
  const LogFile* trace = nullptr;
  const LogFile* tensors = nullptr;
  for (const LogFile& log : logs) {
    const bool is_trace = has_line(log.text, is_trace_header);
    if (!is_trace && !has_line(log.text, is_tensor_header))
      refuse(log, "the header of an operator trace or of a tensor table", "neither");
    const LogFile*& place = is_trace ? trace : tensors;
    if (place != nullptr) refuse(log, "one operator trace and one tensor table", "a second one");
    place = &log;
  }
  if (trace == nullptr) refuse(logs.front(), "an operator trace beside this tensor table", "none");
  if (tensors == nullptr) refuse(logs.front(), "a tensor table beside this operator trace", "none");
  return {trace, tensors};
}

}  // namespace

bool is_triosim(std::string_view text, std::string_view /*path*/) {
  return has_line(text, is_trace_header) || has_line(text, is_tensor_header);
}

core::Profile import_triosim(const std::vector<LogFile>& logs, const ImportOptions& options) {
  const auto [trace, table] = trace_and_tensors(logs);
  const std::vector<Operator> operators = read_operators(*trace);
  const TensorTable tensors = read_tensors(*table);
  std::vector<Layer> layers = forward_layers(operators, tensors);
  name_layers(layers);
  const Unattributed rest = attribute_backward(operators, layers);

  const std::int64_t held = batch_size_in(operators, tensors);
  const bool told = options.batch_size > 0 || held == 0;
  core::Profile profile = profile_head(*trace, options, told ? given_batch_size(*trace, options) : held);
  profile.origin = {
      .kind = core::OriginKind::measured,
      .source = fmt::format("TrioSim operator trace {} with tensor table {}; {}", file_name(*trace),
                            file_name(*table), report(operators, layers, rest))};
  for (Layer& layer : layers) profile.layers.push_back(std::move(layer.layer));
  return profile;
}

}  // namespace traces::importers
