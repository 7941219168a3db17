#include "core/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/bundled.hpp"
#include "core/json_text.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

using core::Field;
using nlohmann::ordered_json;

struct DtypeEntry {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<DtypeEntry, 3> kDtypes = {{{"float32", 4}, {"float16", 2}, {"bfloat16", 2}}};

Dtype read_dtype(const Field& field) {
  return *dtype(field.one_of({kDtypes[0].name, kDtypes[1].name, kDtypes[2].name}));
}

std::optional<double> optional_time(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  return found ? std::optional(found->number(0, kMaxTimeUs)) : std::nullopt;
}

/// The time of a layer's kernels, which cannot exceed that of the layer.
std::optional<double> device_time(const Field& field, std::string_view key, double layer_us) {
  const std::optional<Field> found = field.find(key);
  return found ? std::optional(found->number(0, layer_us)) : std::nullopt;
}

/// Rejects a name that another layer, or another tensor, of the file has.
class Names {
 public:
  std::string unique(const Field& field) {
    std::string name = field.name();
    if (!seen_.insert(name).second) field.expected("a name that nothing else in this file has");
    return name;
  }

 private:
  std::unordered_set<std::string> seen_;
};

std::vector<std::int64_t> read_shape(const Field& field, std::int64_t elements) {
  std::vector<std::int64_t> shape;
  std::int64_t left = elements;
  bool fits = true;
  for (const Field& size : field.items()) {
    shape.push_back(size.integer(1, kMaxElements));
    fits = fits && left % shape.back() == 0;
    left /= shape.back();
  }
  if (!fits || left != 1)
    field.expected(fmt::format("sizes whose product is the tensor's {} elements", elements),
                   fmt::format("[{}]", fmt::join(shape, ", ")));
  return shape;
}

ProfileTensor read_tensor(const Field& field, Names& names) {
  field.allow_only({"name", "elements", "shape", "backward_us"});
  ProfileTensor out = {.name = names.unique(field.at("name")),
                       .elements = field.at("elements").integer(1, kMaxElements),
                       .backward_us = optional_time(field, "backward_us")};
  if (const auto shape = field.find("shape")) {
    out.shape = read_shape(*shape, out.elements);
    out.is_scalar = out.shape.empty();
  }
  return out;
}

std::string read_module(const Field& field, const ProfileLayer& layer) {
  std::string module = field.text();
  for (const ProfileTensor& tensor : layer.tensors)
    if (!is_below(tensor.name, module))
      field.expected(fmt::format("a module that has the layer's tensor '{}'", tensor.name));
  return module;
}

/// Either no tensor has its part of the backward time, or all have and the parts add up to the layer's.
void check_parts(const Field& field, const ProfileLayer& layer) {
  const auto has_part = [](const ProfileTensor& tensor) { return tensor.backward_us.has_value(); };
  const auto with_part = std::ranges::count_if(layer.tensors, has_part);
  if (with_part == 0) return;
  double sum = 0;
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    if (!has_part(layer.tensors[i])) {
      const Field tensor = field.at("tensors").items()[i];
      (void)tensor.at("backward_us");  // reports that it is missing
    }
    sum += *layer.tensors[i].backward_us;
  }
  constexpr double kTolerance = 1e-6;
  if (std::abs(sum - layer.backward_us) > kTolerance * std::max(sum, layer.backward_us))
    field.at("backward_us").expected(fmt::format("the sum of its tensors' parts, {}", sum));
}

ProfileLayer read_layer(const Field& field, Names& layer_names, Names& tensor_names) {
  field.allow_only({"name", "kind", "forward_us", "backward_us", "tensors", "module", "frozen_elements",
                    "forward_spread_us", "backward_spread_us", "activation_bytes", "forward_device_us",
                    "backward_device_us", "forward_host_us", "backward_host_us"});
  ProfileLayer layer = {.name = layer_names.unique(field.at("name")),
                        .kind = field.at("kind").name(),
                        .forward_us = field.at("forward_us").number(0, kMaxTimeUs),
                        .backward_us = field.at("backward_us").number(0, kMaxTimeUs)};
  for (const Field& tensor : field.at("tensors").items())
    layer.tensors.push_back(read_tensor(tensor, tensor_names));
  check_parts(field, layer);
  if (const auto module = field.find("module")) layer.module = read_module(*module, layer);
  if (const auto frozen = field.find("frozen_elements"))
    layer.frozen_elements = frozen->integer(0, kMaxElements);
  layer.forward_spread_us = optional_time(field, "forward_spread_us");
  layer.backward_spread_us = optional_time(field, "backward_spread_us");
  if (const auto bytes = field.find("activation_bytes"))
    layer.activation_bytes = bytes->integer(0, kMaxBytes);
  layer.forward_device_us = device_time(field, "forward_device_us", layer.forward_us);
  layer.backward_device_us = device_time(field, "backward_device_us", layer.backward_us);
  layer.forward_host_us = optional_time(field, "forward_host_us");
  layer.backward_host_us = optional_time(field, "backward_host_us");
  return layer;
}

ProfileOverlap read_overlap(const Field& field) {
  field.allow_only({"compute_slowdown", "communication_slowdown"});
  return {.compute_slowdown = field.at("compute_slowdown").number(0, kMaxOverlapSlowdown),
          .communication_slowdown = field.at("communication_slowdown").number(0, kMaxOverlapSlowdown)};
}

ProfileIteration read_iteration(const Field& field) {
  field.allow_only({"optimizer_us", "other_us", "waiting_us", "host_us", "synchronizes"});
  const auto synchronizes = field.find("synchronizes");
  return {.optimizer_us = optional_time(field, "optimizer_us").value_or(0),
          .other_us = optional_time(field, "other_us").value_or(0),
          .waiting_us = optional_time(field, "waiting_us").value_or(0),
          .host_us = optional_time(field, "host_us"),
          .synchronizes = !synchronizes || synchronizes->boolean()};
}

ComputeRange read_range(const Field& field) {
  field.allow_only({"low", "high"});
  return {.low = field.at("low").number(1 / kMaxComputeRange, 1),
          .high = field.at("high").number(1, kMaxComputeRange)};
}

/// The host's times are complete: those of each layer and of the rest of the iteration, or none.
void check_host_times(const Field& field, const Profile& profile) {
  const bool expected = profile.iteration && profile.iteration->host_us;
  const std::vector<Field> layers = field.at("layers").items();
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const std::string_view key : {"forward_host_us", "backward_host_us"}) {
      if (expected) (void)layers[i].at(key);  // reports that it is missing
      if (const auto found = layers[i].find(key); found && !expected)
        found->expected("the host's other work beside it (host_us in the profile's iteration)", "none");
    }
}

ordered_json to_json(const ProfileLayer& layer) {
  ordered_json tensors = ordered_json::array();
  for (const ProfileTensor& tensor : layer.tensors) {
    ordered_json item = {{"name", tensor.name}, {"elements", tensor.elements}};
    if (!tensor.shape.empty() || tensor.is_scalar) item["shape"] = tensor.shape;
    if (tensor.backward_us) item["backward_us"] = *tensor.backward_us;
    tensors.push_back(std::move(item));
  }
  ordered_json out = {{"name", layer.name},
                      {"kind", layer.kind},
                      {"forward_us", layer.forward_us},
                      {"backward_us", layer.backward_us},
                      {"tensors", std::move(tensors)}};
  if (layer.module) out["module"] = *layer.module;
  if (layer.frozen_elements > 0) out["frozen_elements"] = layer.frozen_elements;
  if (layer.forward_spread_us) out["forward_spread_us"] = *layer.forward_spread_us;
  if (layer.backward_spread_us) out["backward_spread_us"] = *layer.backward_spread_us;
  if (layer.activation_bytes) out["activation_bytes"] = *layer.activation_bytes;
  if (layer.forward_device_us) out["forward_device_us"] = *layer.forward_device_us;
  if (layer.backward_device_us) out["backward_device_us"] = *layer.backward_device_us;
  if (layer.forward_host_us) out["forward_host_us"] = *layer.forward_host_us;
  if (layer.backward_host_us) out["backward_host_us"] = *layer.backward_host_us;
  return out;
}

ordered_json to_json(const ProfileIteration& iteration) {
  ordered_json out = {{"optimizer_us", iteration.optimizer_us}, {"other_us", iteration.other_us}};
  if (iteration.waiting_us > 0) out["waiting_us"] = iteration.waiting_us;
  if (!iteration.host_us) return out;
  out["host_us"] = *iteration.host_us;
  out["synchronizes"] = iteration.synchronizes;
  return out;
}

ordered_json to_json(const Profile& profile) {
  ordered_json layers = ordered_json::array();
  for (const ProfileLayer& layer : profile.layers) layers.push_back(to_json(layer));
  ordered_json out = {{"format", "fusewise.profile"},     {"version", 1},
                      {"model", profile.model},           {"batch_size", profile.batch_size},
                      {"dtype", name(profile.dtype)},     {"device", profile.device},
                      {"origin", to_json(profile.origin)}};
  if (profile.compute_range)
    out["compute_range"] = {{"low", profile.compute_range->low}, {"high", profile.compute_range->high}};
  out["layers"] = std::move(layers);
  if (profile.iteration) out["iteration"] = to_json(*profile.iteration);
  return out;
}

}  // namespace

std::string_view name(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)).name; }
std::optional<Dtype> dtype(std::string_view name) {
  for (std::size_t i = 0; i < kDtypes.size(); ++i)
    if (kDtypes.at(i).name == name) return Dtype{static_cast<int>(i)};
  return std::nullopt;
}
std::int64_t bytes_per_element(Dtype dtype) { return kDtypes.at(static_cast<std::size_t>(dtype)).bytes; }

Profile read_profile(const Field& field) {
  field.check_format("fusewise.profile");
  field.allow_only({"format", "version", "model", "batch_size", "dtype", "device", "origin", "compute_range",
                    "layers", "iteration", "overlap"});
  if (const auto overlap = field.find("overlap")) (void)read_overlap(*overlap);
  Profile profile = {.model = field.at("model").name(),
                     .batch_size = field.at("batch_size").integer(1, kMaxElements),
                     .dtype = read_dtype(field.at("dtype")),
                     .device = field.at("device").text(),
                     .origin = read_origin(field.at("origin")),
                     .layers = {}};
  if (const auto range = field.find("compute_range")) profile.compute_range = read_range(*range);
  Names layer_names;
  Names tensor_names;
  const Field layers = field.at("layers");
  for (const Field& layer : layers.non_empty_items())
    profile.layers.push_back(read_layer(layer, layer_names, tensor_names));
  if (const auto iteration = field.find("iteration")) profile.iteration = read_iteration(*iteration);
  check_host_times(field, profile);
  if (tensor_count(profile) == 0) layers.expected("layers with at least one tensor in all", "none");
  if (forward_us(profile) + backward_us(profile) <= 0)
    layers.expected("layers with a total time above 0", "0 us in all");
  if (parameter_count(profile) + frozen_count(profile) > kMaxElementsInAll)
    layers.expected(fmt::format("at most {} elements in all", kMaxElementsInAll), "more");
  return profile;
}

std::optional<ProfileOverlap> read_profile_overlap(const Field& profile) {
  const auto overlap = follow_profile(profile).find("overlap");
  return overlap ? std::optional(read_overlap(*overlap)) : std::nullopt;
}

std::string profile_text(const Profile& profile) { return core::json_text(to_json(profile)); }

std::string profile_text(const Profile& profile, const ProfileOverlap& overlap) {
  ordered_json out = to_json(profile);
  out["overlap"] = {{"compute_slowdown", overlap.compute_slowdown},
                    {"communication_slowdown", overlap.communication_slowdown}};
  return core::json_text(out);
}

std::int64_t tensor_count(const Profile& profile) {
  std::int64_t count = 0;
  for (const ProfileLayer& layer : profile.layers) count += static_cast<std::int64_t>(layer.tensors.size());
  return count;
}

std::int64_t frozen_count(const Profile& profile) {
  std::int64_t count = 0;
  for (const ProfileLayer& layer : profile.layers)
    count = std::min(count, kMaxElementsInAll) + layer.frozen_elements;  // cannot overflow
  return count;
}

std::int64_t parameter_count(const Profile& profile) {
  std::int64_t count = 0;
  for (const ProfileLayer& layer : profile.layers)
    for (const ProfileTensor& tensor : layer.tensors)
      count = std::min(count, kMaxElementsInAll) + tensor.elements;  // cannot overflow
  return count;
}

Profile without_launch_waits(Profile profile) {
  const auto leave_out = [](double& us, std::optional<double>& spread_us, std::optional<double>& device_us) {
    if (!device_us) return 1.0;
    const double factor = us > 0 ? *device_us / us : 1;
    us = *device_us;
    if (spread_us) *spread_us *= factor;
    return factor;
  };
  for (ProfileLayer& layer : profile.layers) {
    leave_out(layer.forward_us, layer.forward_spread_us, layer.forward_device_us);
    const double factor = leave_out(layer.backward_us, layer.backward_spread_us, layer.backward_device_us);
    for (ProfileTensor& tensor : layer.tensors)
      if (tensor.backward_us) *tensor.backward_us *= factor;
    layer.forward_host_us = layer.backward_host_us = std::nullopt;
  }
  if (profile.iteration) profile.iteration->host_us = std::nullopt;
  return profile;
}

bool is_below(std::string_view name, std::string_view module) {
  return module.empty() || name == module ||
         (name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.');
}

double forward_us(const Profile& profile) {
  double sum = 0;
  for (const ProfileLayer& layer : profile.layers) sum += layer.forward_us;
  return sum;
}

double backward_us(const Profile& profile) {
  double sum = 0;
  for (const ProfileLayer& layer : profile.layers) sum += layer.backward_us;
  return sum;
}

}  // namespace core
