#include "core/estimate/estimated_profile.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/estimate/device.hpp"
#include "core/estimate/estimate.hpp"
#include "core/host_stream.hpp"
#include "core/limits.hpp"
#include "core/model/divided.hpp"
#include "core/model/model.hpp"

namespace core {
namespace {

using core::Field;

constexpr std::int64_t kMaxBatch = 1'000'000'000;
constexpr std::int64_t kMaxSequence = 1'000'000'000;
constexpr double kMinComputeUs = 1e-3;

Device read_device(const Field& field) {
  std::vector<std::string_view> known;
  known.reserve(devices().size());
  for (const Device& each : devices()) known.push_back(each.name);
  return *device(field.one_of(known));
}

core::Model read_model_of(const Field& field, const ModelDivision& division) {
  core::ModelOptions options;
  if (const auto length = field.find("sequence_length"))
    options.sequence_length = length->integer(1, kMaxSequence);
  core::Model model = core::read_model(core::follow_model(field.at("estimate")), options);
  try {
    return divided(std::move(model), division);
  } catch (const core::Unsupported& problem) {
    field.at("estimate").expected(problem.expected(), problem.got());
  }
}

EstimateOptions read_options(const Field& field) {
  EstimateOptions out;
  if (const auto batch = field.find("batch_size")) out.batch_size = batch->integer(1, kMaxBatch);
  if (const auto type = field.find("dtype"))
    out.dtype = dtype(type->one_of({name(Dtype::float32), name(Dtype::float16), name(Dtype::bfloat16)}));
  if (const auto tf32 = field.find("tf32")) out.tf32 = tf32->boolean();
  if (const auto compute = field.find("compute_us"))
    out.compute_us = compute->number(kMinComputeUs, kMaxTimeUs);
  if (const auto share = field.find("forward_share")) out.forward_share = share->number(0, 1);
  return out;
}

Profile read_estimate(const Field& field, const ModelDivision& division) {
  field.allow_only({"estimate", "device", "batch_size", "dtype", "tf32", "sequence_length", "compute_us",
                    "forward_share"});
  const Device device = read_device(field.at("device"));
  const EstimateOptions options = read_options(field);
  const core::Model model = read_model_of(field, division);
  try {
    return estimate(model, device, options);
  } catch (const core::InputError& error) {
    field.at("estimate").expected("a model whose times a profile can hold", error.what());
  }
}

}  // namespace

bool asks_for_estimate(const Field& field) { return field.is_object() && field.has("estimate"); }

Profile read_or_estimate_profile(const Field& field, const ModelDivision& division) {
  return asks_for_estimate(field) ? read_estimate(field, division)
                                  : with_host_stream(read_profile(follow_profile(field)));
}

}  // namespace core
