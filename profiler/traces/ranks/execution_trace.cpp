#include "profiler/traces/ranks/execution_trace.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/json.hpp"
#include "core/json_text.hpp"
#include "core/limits.hpp"
#include "core/text_table.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/ranks/json_elements.hpp"

namespace ranks {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

enum class NodeKind { gradient, collective, boundary };

/// A node of the trace that matters here.
struct Node {
  std::int64_t id = 0;
  NodeKind what = NodeKind::boundary;
  Kind kind = Kind::unknown;
  std::int64_t elements = 0;
  std::int64_t each = 4;  ///< bytes of an element
};

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text_of(const json& object, const char* key) {
  const json* found = member(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

/// An attribute: schema 1.1 lists them under "attrs", 1.0 has some as keys of the node.
const json* attribute(const json& node, const char* name) {
  if (const json* list = member(node, "attrs"); list != nullptr && list->is_array())
    for (const json& each : *list)
      if (text_of(each, "name") == name) return member(each, "value");
  return member(node, name);
}

std::string text_attribute(const json& node, const char* name) {
  const json* found = attribute(node, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t integer_attribute(const json& node, const char* name) {
  const json* found = attribute(node, name);
  if (found == nullptr || !found->is_number_integer()) return 0;
  if (found->is_number_unsigned() &&
      found->get<std::uint64_t>() > static_cast<std::uint64_t>(core::kMaxElements))
    return 0;
  return std::max<std::int64_t>(found->get<std::int64_t>(), 0);
}

/// "inputs": {"shapes": ...}, or "input_shapes" in schema 1.0.
const json* inputs(const json& node, const char* key, const char* old_key) {
  if (const json* all = member(node, "inputs"); all != nullptr && all->is_object()) return member(*all, key);
  return member(node, old_key);
}

bool is_shape(const json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const json& each) { return each.is_number_integer(); });
}

/// The elements of all shapes in nested lists.
std::int64_t elements_of(const json& shapes) {
  if (!shapes.is_array()) return 0;
  const bool whole = is_shape(shapes);
  std::int64_t out = whole ? 1 : 0;
  for (const json& each : shapes) {
    const std::int64_t value = whole ? each.get<std::int64_t>() : elements_of(each);
    if (value < 0 || value > core::kMaxElements) return 0;
    if (whole && value > 0 && out > core::kMaxElements / value) return 0;
    out = whole ? out * value : out + value;
    if (out > core::kMaxElements) return 0;
  }
  return out;
}

std::string first_text(const json* list) {
  if (list == nullptr) return "";
  if (list->is_string()) return list->get<std::string>();
  if (!list->is_array()) return "";
  for (const json& each : *list)
    if (std::string out = first_text(&each); !out.empty()) return out;
  return "";
}

/// "Tensor(float)" and "GenericList[Tensor(c10::Half)]".
std::int64_t bytes_of_type(const std::string& type) {
  const std::size_t open = type.rfind('(');
  const std::size_t close = open == std::string::npos ? open : type.find(')', open);
  if (close == std::string::npos) return 0;
  return kineto::element_bytes(type.substr(open + 1, close - open - 1));
}

class Reader {
 public:
  explicit Reader(const std::string& path) { out_.path = path; }

  bool take(std::string_view key, json& value) {
    if (key == "schema" && value.is_string()) out_.schema = value.get<std::string>();
    if (key == "nodes") node(value);
    return true;
  }

  ExecutionTrace finished() {
    if (out_.nodes == 0)
      throw core::InputError(fmt::format("{}: /nodes: expected the nodes of an execution trace, got none",
                                         core::one_line(out_.path)));
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
    RecordedIteration iteration;
    for (const Node& each : nodes_) {
      if (each.what == NodeKind::boundary) {
        close(iteration);
      } else if (each.what == NodeKind::gradient) {
        iteration.gradients.push_back({.elements = each.elements, .bytes = each.elements * each.each});
      } else if (each.kind == Kind::all_reduce && !iteration.gradients.empty()) {
        iteration.buckets.push_back({.elements = each.elements, .bytes = each.elements * each.each});
      } else {
        ++others_[{each.kind, each.elements}];
      }
    }
    close(iteration);
    for (const auto& [key, count] : others_)
      out_.others.push_back({.kind = key.first, .elements = key.second, .count = count});
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kMaxNodes = 8'000'000;

  void node(const json& value) {
    if (!value.is_object()) return;
    ++out_.nodes;
    const std::string name = text_of(value, "name");
    const json* id = member(value, "id");
    Node found;
    if (id != nullptr && id->is_number_integer()) found.id = id->get<std::int64_t>();
    if (name == "torch::autograd::AccumulateGrad") {
      found.what = NodeKind::gradient;
    } else if (name == "record_param_comms") {
      if (!collective(value, found)) return;
    } else if (name.rfind("ProfilerStep#", 0) != 0 && name.rfind("Optimizer.step#", 0) != 0 &&
               name != "DistributedDataParallel.forward") {
      return;
    }
    if (found.what != NodeKind::boundary) size(value, found);
    if (nodes_.size() >= kMaxNodes)
      throw core::InputError(
          fmt::format("{}: /nodes: expected at most {} gradients and collectives, got more",
                      core::one_line(out_.path), kMaxNodes));
    nodes_.push_back(found);
  }

  /// Returns false for calls that move no data, such as "wait".
  bool collective(const json& value, Node& found) {
    found.what = NodeKind::collective;
    std::string name = text_attribute(value, "collective_name");
    if (name.empty())  // it stands among the values of the call
      if (const json* values = inputs(value, "values", "inputs"); values != nullptr && values->is_array())
        for (const json& each : *values)
          if (each.is_string() && kind_of(each.get<std::string>()) != Kind::unknown)
            name = each.get<std::string>();
    found.kind = kind_of(name);
    if (found.kind == Kind::unknown) return false;
    if (out_.group_size == 0 && found.kind == Kind::all_reduce) {
      out_.group_name = text_attribute(value, "pg_name");
      out_.group_description = text_attribute(value, "pg_desc");
      out_.group_size = integer_attribute(value, "pg_size");
    }
    return true;
  }

  static void size(const json& value, Node& found) {
    found.elements = integer_attribute(value, "in_msg_nelems");
    if (found.elements == 0)
      if (const json* shapes = inputs(value, "shapes", "input_shapes")) found.elements = elements_of(*shapes);
    std::int64_t each = kineto::element_bytes(text_attribute(value, "dtype"));
    if (each == 0) each = bytes_of_type(first_text(inputs(value, "types", "input_types")));
    if (each > 0) found.each = each;
  }

  void close(RecordedIteration& iteration) {
    if (iteration.gradients.empty()) return;
    assign(iteration);
    out_.iterations.push_back(std::move(iteration));
    iteration = {};
  }

  /// Gradients travel in the order in which they became ready, as DDP's buckets are rebuilt.
  static void assign(RecordedIteration& iteration) {
    std::size_t next = 0;
    for (Bucket& bucket : iteration.buckets) {
      std::int64_t sum = 0;
      std::size_t end = next;
      while (end < iteration.gradients.size() && sum < bucket.elements)
        sum += iteration.gradients[end++].elements;
      if (sum != bucket.elements) return;
      bucket.gradients = static_cast<std::int64_t>(end - next);
      next = end;
    }
  }

  ExecutionTrace out_;
  std::vector<Node> nodes_;
  std::map<std::pair<Kind, std::int64_t>, std::int64_t> others_;
};

/// The caps that explain all buckets but the last of each iteration, `first` of them or the others.
std::optional<CapRange> cap(const ExecutionTrace& trace, bool first) {
  CapRange out = {.from = 0, .to = std::numeric_limits<std::int64_t>::max()};
  bool is_known = false;
  for (const RecordedIteration& iteration : trace.iterations) {
    std::size_t gradient = 0;
    for (std::size_t i = 0; i + 1 < iteration.buckets.size(); ++i) {
      const Bucket& bucket = iteration.buckets[i];
      if (bucket.gradients == 0) break;
      gradient += static_cast<std::size_t>(bucket.gradients);
      if ((i == 0) != first) continue;
      is_known = true;
      out.from = std::max(out.from, bucket.bytes - iteration.gradients[gradient - 1].bytes);
      out.to = std::min(out.to, bucket.bytes);
    }
  }
  if (!is_known || out.from >= out.to) return std::nullopt;
  return out;
}

std::string cap_text(const std::optional<CapRange>& range, std::string_view which) {
  if (!range) return "";
  return fmt::format("DDP's rule gives these buckets with a cap above {} and up to {} bytes for {}\n",
                     range->from, range->to, which);
}

}  // namespace

ExecutionTrace read_execution_trace(const std::string& path) {
  Reader reader(path);
  for_each_element(path, [&](std::string_view key, json& value) { return reader.take(key, value); });
  return reader.finished();
}

std::optional<CapRange> first_cap(const ExecutionTrace& trace) { return cap(trace, true); }
std::optional<CapRange> other_cap(const ExecutionTrace& trace) { return cap(trace, false); }

std::string execution_text(const ExecutionTrace& trace) {
  std::string out = fmt::format(
      "PyTorch execution trace, schema {}: {} nodes, {} iterations with gradients; it "
      "holds no times\n",
      trace.schema.empty() ? "unknown" : core::one_line(trace.schema), trace.nodes, trace.iterations.size());
  if (trace.group_size > 0)
    out += fmt::format(
        "buckets travel in group {}{} of {} ranks\n", core::one_line(trace.group_name),
        trace.group_description.empty() ? "" : fmt::format(" ({})", core::one_line(trace.group_description)),
        trace.group_size);
  if (trace.iterations.empty()) return out + "no gradients: a backward pass was not recorded\n";
  const RecordedIteration& last = trace.iterations.back();
  std::int64_t elements = 0;
  for (const ReadyGradient& gradient : last.gradients) elements += gradient.elements;
  out += fmt::format("last iteration: {} gradients of {} elements in {} buckets, in this order\n",
                     last.gradients.size(), elements, last.buckets.size());
  std::vector<std::vector<std::string>> rows = {{"bucket", "gradients", "elements", "bytes"}};
  for (std::size_t i = 0; i < last.buckets.size(); ++i)
    rows.push_back({fmt::to_string(i + 1),
                    last.buckets[i].gradients > 0 ? fmt::to_string(last.buckets[i].gradients) : "unknown",
                    fmt::to_string(last.buckets[i].elements), fmt::to_string(last.buckets[i].bytes)});
  out += core::aligned(std::move(rows), {});
  out += cap_text(first_cap(trace), "the first") + cap_text(other_cap(trace), "the others");
  for (const OtherExchange& other : trace.others)
    out += fmt::format("besides: {} {} of {} elements\n", other.count, name(other.kind), other.elements);
  return out;
}

std::string execution_json(const ExecutionTrace& trace) {
  ordered_json iterations = ordered_json::array();
  for (const RecordedIteration& iteration : trace.iterations) {
    ordered_json gradients = ordered_json::array();
    for (const ReadyGradient& gradient : iteration.gradients) gradients.push_back(gradient.elements);
    ordered_json buckets = ordered_json::array();
    for (const Bucket& bucket : iteration.buckets)
      buckets.push_back(
          {{"elements", bucket.elements}, {"bytes", bucket.bytes}, {"gradients", bucket.gradients}});
    iterations.push_back({{"gradients", std::move(gradients)}, {"buckets", std::move(buckets)}});
  }
  ordered_json out = {{"format", "fusewise.buckets"},
                      {"version", 1},
                      {"group", core::one_line(trace.group_name)},
                      {"workers", trace.group_size}};
  const auto add_cap = [&](const char* key, const std::optional<CapRange>& range) {
    if (range) out[key] = {{"above_bytes", range->from}, {"up_to_bytes", range->to}};
  };
  add_cap("first_cap", first_cap(trace));
  add_cap("cap", other_cap(trace));
  out["iterations"] = std::move(iterations);
  return core::json_text(out);
}

}  // namespace ranks
