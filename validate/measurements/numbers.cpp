#include "validate/measurements/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/scaled.hpp"
#include "planner/cost/costs.hpp"
#include "planner/cost/line_rate.hpp"

namespace validate {
namespace {

constexpr std::array<std::string_view, kQuantities.size()> kNames = {
    "compute_factor",         "per_byte",         "startup_per_hop", "fixed_startup_us",
    "communication_slowdown", "compute_slowdown", "forward_share"};

/// Standard deviations of what is known before any row is seen. A data sheet's rate is rarely reached, but
/// seldom missed by more than a factor of 2; its startup may be off by an order of magnitude.
constexpr double kComputeUncertainty = 1;
constexpr double kMeasuredPerByteUncertainty = 0.2;
constexpr double kPerByteUncertainty = 0.5;
constexpr double kMeasuredStartupUncertainty = 0.5;
constexpr double kStartupUncertainty = 1.5;
constexpr double kFixedStartupUncertaintyUs = 500;
constexpr double kCommunicationSlowdownUncertainty = 0.3;
constexpr double kComputeSlowdownUncertainty = 0.1;
constexpr double kShareUncertainty = 0.25;

constexpr double kMaxLogarithm = 4;
constexpr double kMaxShareLogarithm = 1.5;
constexpr double kMaxFixedStartupUs = 1e5;
constexpr double kMaxSlowdown = 4;

bool is_on_logarithms(FittedQuantity quantity) {
  return quantity == FittedQuantity::compute_factor || quantity == FittedQuantity::per_byte ||
         quantity == FittedQuantity::startup_per_hop;
}

std::optional<core::Link> link_of(const core::Network& network, std::size_t level) {
  return network.levels.empty() ? network.link : network.levels.at(level).link;
}

/// The smallest factor on times per byte at which no measured curve and no link is faster than the line rate,
/// which is that of the outermost level; 0 for the others.
double min_per_byte_factor(const core::Network& network, std::size_t level) {
  if (!network.line_rate_gbps || level + 1 < network.levels.size()) return 0;
  const std::optional<core::Link> link = link_of(network, level);
  double out = 0;
  if (link && link->beta_us_per_byte > 0) out = 8e-3 / *network.line_rate_gbps / link->beta_us_per_byte;
  for (const core::Measured& measured : network.measured) {
    const double far = std::max(1e9, 4 * measured.curve.measured_up_to_bytes());
    if (!std::isfinite(far) || outermost_level(network, measured.workers) != level) continue;
    const double slope = (measured.curve.us(2 * far) - measured.curve.us(far)) / far;
    const double bound =
        planner::physical_us_per_byte(*network.line_rate_gbps, measured.workers, measured.collective);
    if (slope > 0) out = std::max(out, bound / slope);
  }
  return out;
}

Number on_logarithms(FittedQuantity quantity, const std::string& owner, double uncertainty) {
  return {.quantity = quantity,
          .owner = owner,
          .known = 1,
          .uncertainty = uncertainty,
          .lower = -kMaxLogarithm,
          .upper = kMaxLogarithm};
}

Number from_zero(FittedQuantity quantity, const std::string& owner, double uncertainty, double max) {
  return {.quantity = quantity, .owner = owner, .uncertainty = uncertainty, .upper = max};
}

Number per_byte_of(const std::string& name, const core::Network& network, std::size_t level) {
  const bool measured = network.origin.kind == core::OriginKind::measured;
  Number out = on_logarithms(FittedQuantity::per_byte, name,
                             measured ? kMeasuredPerByteUncertainty : kPerByteUncertainty);
  out.level = level;
  const double min = min_per_byte_factor(network, level);
  if (min > 0 && std::log(min) > out.lower) {
    out.lower = std::min(std::log(min), out.upper);
    out.bounded_by_line_rate = true;
  }
  out.start = std::max(0.0, out.lower);
  return out;
}

bool has_startup(const core::Network& network, std::size_t level) {
  const std::optional<core::Link> link = link_of(network, level);
  return (link && link->alpha_us > 0) ||
         std::ranges::any_of(network.measured,
                             [](const core::Measured& each) { return each.curve.startup_us() > 0; });
}

core::Link scaled(const core::Link& link, const LevelNumbers& numbers) {
  return {.alpha_us = link.alpha_us * numbers.startup_per_hop,
          .beta_us_per_byte = link.beta_us_per_byte * numbers.per_byte,
          .gamma_us_per_byte = link.gamma_us_per_byte};
}

core::CostCurve longer(const core::CostCurve& curve, double us) {
  if (!curve.points().empty()) {
    auto points = curve.points();
    for (auto& [bytes, each] : points) each += us;
    return core::CostCurve::through(points);
  }
  if (!curve.segments().empty()) {
    auto segments = curve.segments();
    for (core::CostCurve::Segment& each : segments) each.startup_us += us;
    return core::CostCurve::of_segments(segments);
  }
  const double startup_us = curve.startup_us();
  constexpr double kFar = 1e9;
  return core::CostCurve::affine(startup_us + us, (curve.us(kFar) - startup_us) / kFar);
}

}  // namespace

std::string_view name(FittedQuantity quantity) { return kNames.at(static_cast<std::size_t>(quantity)); }

bool is_of_model(FittedQuantity quantity) {
  return quantity == FittedQuantity::compute_factor || quantity == FittedQuantity::forward_share;
}

double value_of(const Number& number, double position) {
  if (is_on_logarithms(number.quantity)) return std::exp(position);
  if (number.quantity != FittedQuantity::forward_share) return position;
  const double odds = number.known / (1 - number.known) * std::exp(position);
  return odds / (1 + odds);
}

std::string description(const Number& number, const core::Network* network) {
  static constexpr std::array<std::string_view, kQuantities.size()> kWords = {
      "compute factor",          "time per byte",     "startup per hop", "fixed startup",
      "communication slow-down", "compute slow-down", "forward share"};
  const std::string_view what = kWords.at(static_cast<std::size_t>(number.quantity));
  if (is_of_model(number.quantity)) return fmt::format("{} of model '{}'", what, number.owner);
  const bool names_level = network != nullptr && !network->levels.empty() &&
                           number.quantity != FittedQuantity::communication_slowdown &&
                           number.quantity != FittedQuantity::compute_slowdown;
  return fmt::format("{} of network '{}'{}", what, number.owner,
                     names_level ? fmt::format(", level '{}'", network->levels[number.level].name) : "");
}

std::vector<Number> numbers_of(const std::string& name, const core::Profile& profile) {
  std::vector<Number> out = {on_logarithms(FittedQuantity::compute_factor, name, kComputeUncertainty)};
  const double forward = core::forward_us(profile);
  const double backward = core::backward_us(profile);
  if (forward > 0 && backward > 0)
    out.push_back({.quantity = FittedQuantity::forward_share,
                   .owner = name,
                   .known = forward / (forward + backward),
                   .uncertainty = kShareUncertainty,
                   .lower = -kMaxShareLogarithm,
                   .upper = kMaxShareLogarithm});
  return out;
}

std::vector<Number> numbers_of(const std::string& name, const core::Network& network, std::size_t outermost) {
  std::vector<Number> out;
  const bool measured = network.origin.kind == core::OriginKind::measured;
  for (std::size_t level = 0; level <= outermost; ++level) {
    out.push_back(per_byte_of(name, network, level));
    if (has_startup(network, level)) {
      out.push_back(on_logarithms(FittedQuantity::startup_per_hop, name,
                                  measured ? kMeasuredStartupUncertainty : kStartupUncertainty));
      out.back().level = level;
    }
    out.push_back(
        from_zero(FittedQuantity::fixed_startup, name, kFixedStartupUncertaintyUs, kMaxFixedStartupUs));
    out.back().level = level;
    out.back().step = 1;
  }
  out.push_back(from_zero(FittedQuantity::communication_slowdown, name, kCommunicationSlowdownUncertainty,
                          kMaxSlowdown));
  out.push_back(from_zero(FittedQuantity::compute_slowdown, name, kComputeSlowdownUncertainty, kMaxSlowdown));
  return out;
}

std::size_t outermost_level(const core::Network& network, std::int64_t workers) {
  std::size_t out = 0;
  std::int64_t inside = 1;
  for (std::size_t i = 0; i < network.levels.size() && inside < workers; ++i) {
    if (network.levels[i].size == 1) continue;
    out = i;
    if (!network.levels[i].size) break;
    inside *= *network.levels[i].size;
  }
  return out;
}

core::Profile calibrated(const core::Profile& profile, const ModelNumbers& numbers) {
  core::Profile out = core::scaled(profile, numbers.compute_factor);
  out.compute_range = {};  // the rows say how long it takes
  const double forward = core::forward_us(out);
  const double backward = core::backward_us(out);
  if (numbers.odds_factor == 1 || !(forward > 0) || !(backward > 0)) return out;
  const double odds = forward / backward * numbers.odds_factor;
  const double forward_factor = odds / (1 + odds) * (forward + backward) / forward;
  const double backward_factor = 1 / (1 + odds) * (forward + backward) / backward;
  const auto scale = [](std::optional<double>& us, double factor) {
    if (us) *us *= factor;
  };
  for (core::ProfileLayer& layer : out.layers) {
    layer.forward_us *= forward_factor;
    layer.backward_us *= backward_factor;
    scale(layer.forward_spread_us, forward_factor);
    scale(layer.forward_device_us, forward_factor);
    scale(layer.backward_spread_us, backward_factor);
    scale(layer.backward_device_us, backward_factor);
    for (core::ProfileTensor& tensor : layer.tensors) scale(tensor.backward_us, backward_factor);
  }
  return out;
}

core::Network calibrated(const core::Network& network, const NetworkNumbers& numbers) {
  core::Network out = network;
  if (out.link) out.link = scaled(*out.link, numbers.levels.front());
  for (std::size_t i = 0; i < std::min(out.levels.size(), numbers.levels.size()); ++i)
    out.levels[i].link = scaled(out.levels[i].link, numbers.levels[i]);
  for (core::Measured& measured : out.measured) {
    const std::size_t level = std::min(outermost_level(network, measured.workers), numbers.levels.size() - 1);
    const LevelNumbers& its = numbers.levels[level];
    core::Network alone = {.name = {}, .origin = {}, .measured = {measured}};
    measured = core::scaled(alone, its.startup_per_hop, its.per_byte).measured.front();
  }
  return out;
}

core::Network with_fixed_startup(core::Network network, std::int64_t workers,
                                 const planner::Algorithm& algorithm, double fixed_us) {
  if (fixed_us <= 0 || workers < 2) return network;
  const planner::Costs costs(network, workers, algorithm);
  std::vector<core::Measured> more;
  for (const core::CollectiveKind kind :
       {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
        core::CollectiveKind::all_gather}) {
    try {
      more.push_back({.collective = kind,
                      .algorithm = algorithm.name,
                      .workers = workers,
                      .curve = longer(costs.of(kind).curve, fixed_us),
                      .fit = {}});
    } catch (const core::Unsupported&) {  // NOLINT(bugprone-empty-catch): whoever needs it will say so
    }
  }
  network.measured.insert(network.measured.begin(), more.begin(), more.end());
  return network;
}

}  // namespace validate
