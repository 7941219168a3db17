#include "validate/paper/sampled.hpp"

#include <cmath>

namespace validate {
namespace {

using core::Field;

// Limits the run to seconds: every rank is a thread.
constexpr std::int64_t kMaxRanks = 64;
constexpr std::int64_t kMaxElements = 1'000'000;
constexpr std::int64_t kMaxCalls = 1000;
constexpr double kMaxDrawn = 2e7;

sparse::GradientSource read_source(const Field& field) {
  field.allow_only({"seed", "tails", "layers", "layer_sigma", "common", "drift"});
  constexpr std::int64_t kMaxLayers = 10'000;
  constexpr double kMaxSigma = 5;
  sparse::GradientSource out;
  if (const auto seed = field.find("seed"))
    out.seed = static_cast<std::uint64_t>(seed->integer(0, INT64_MAX));
  if (const auto tails = field.find("tails"))
    out.tails = tails->one_of({"gaussian", "laplace"}) == "gaussian" ? sparse::Tails::gaussian
                                                                     : sparse::Tails::laplace;
  if (const auto layers = field.find("layers"))
    out.layers = static_cast<std::size_t>(layers->integer(1, kMaxLayers));
  if (const auto sigma = field.find("layer_sigma")) out.layer_sigma = sigma->number(0, kMaxSigma);
  if (const auto common = field.find("common")) out.common = common->number(0, 1);
  if (const auto drift = field.find("drift")) out.drift = drift->number(0, 1);
  return out;
}

}  // namespace

std::vector<float> SampledGradients::gradient(std::uint32_t rank, std::uint64_t call) const {
  return sparse::gradient(source, elements, rank, call);
}

std::vector<std::string_view> sampled_keys(const std::vector<std::string_view>& more) {
  std::vector<std::string_view> out = {"workers", "elements", "density", "calls", "gradients"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

SampledGradients read_sampled(const Request& request) {
  SampledGradients out;
  out.ranks = static_cast<std::uint32_t>(request.at("workers").integer(2, kMaxRanks));
  out.elements = static_cast<std::size_t>(request.at("elements").integer(1, kMaxElements));
  const double kept = std::round(request.at("density").number(0, 1) * static_cast<double>(out.elements));
  out.kept = static_cast<std::size_t>(kept);
  if (out.kept == 0) request.at("density").expected("one that keeps at least 1 element");
  if (const auto calls = request.find("calls"))
    out.calls = static_cast<std::uint64_t>(calls->integer(1, kMaxCalls));
  if (const auto source = request.find("gradients")) out.source = read_source(*source);
  const double sampled =
      static_cast<double>(out.ranks) * static_cast<double>(out.elements) * static_cast<double>(out.calls);
  if (sampled > kMaxDrawn) request.at("elements").expected("at most 2e7 with all workers and calls", "more");
  return out;
}

}  // namespace validate
