#include "planner/cost/costs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/cost/derived.hpp"
#include "planner/cost/line_rate.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::Level;
using core::Link;
using core::Network;

bool is_slower(const Link& a, const Link& b) {
  return a.beta_us_per_byte != b.beta_us_per_byte ? a.beta_us_per_byte > b.beta_us_per_byte
                                                  : a.alpha_us > b.alpha_us;
}

/// The levels that P workers span: the innermost, and each further one while more than one unit remains.
std::vector<Level> spanned(const std::vector<Level>& levels, std::int64_t workers) {
  std::vector<Level> out;
  std::int64_t inside = 1;
  for (const Level& level : levels) {
    if (inside >= workers) break;
    if (level.size == 1) continue;  // a level of one unit has no links to cross
    out.push_back(level);
    if (!level.size) break;
    inside *= *level.size;
  }
  return out;
}

Fabric make_fabric(const Network& network, std::int64_t workers) {
  Fabric fabric = {.workers = workers};
  if (network.levels.empty()) {
    fabric.flat = *network.link;
    return fabric;
  }
  const std::vector<Level> levels = spanned(network.levels, workers);
  const auto slowest = std::ranges::min_element(
      levels, [](const Level& a, const Level& b) { return is_slower(a.link, b.link); });
  fabric.flat = slowest->link;

  const std::int64_t node = network.levels.front().size.value_or(workers);
  Fabric::Nodes nodes = {.workers_in_node = std::min(node, workers),
                         .nodes = workers <= node ? 1 : workers / node,
                         .inside = network.levels.front().link};
  const Level* between = nullptr;
  for (const Level& level : levels)
    if (&level != &levels.front() || node == 1)
      if (between == nullptr || is_slower(level.link, between->link)) between = &level;
  if (between != nullptr) {
    nodes.between = between->link;
    nodes.between_is_shared = between->shared;
  }
  fabric.nodes = nodes;
  return fabric;
}

std::string description(CollectiveKind kind, const Algorithm& algorithm) {
  return fmt::format("{} {}", algorithm.name, core::name(kind));
}

void check_nodes(const Network& network, std::int64_t workers, std::string_view what) {
  if (network.levels.empty())
    throw Unsupported(fmt::format("a network with levels, as {} needs", what),
                      fmt::format("network '{}' without", network.name), "/network");
  const std::int64_t node = network.levels.front().size.value_or(workers);
  if (workers > node && workers % node != 0)
    throw Unsupported(fmt::format("for {} a multiple of the {} workers in a node", what, node),
                      fmt::to_string(workers));
}

ClosedForm closed_form(const Network& network, std::int64_t workers, const Algorithm& algorithm,
                       CollectiveKind kind) {
  if (!network.link && network.levels.empty()) {
    std::vector<std::int64_t> measured_on;
    for (const core::Measured& measured : network.measured)
      if (measured.collective == kind && measured.algorithm.value_or(algorithm.name) == algorithm.name)
        measured_on.push_back(measured.workers);
    throw Unsupported(
        fmt::format("a number of workers for which network '{}' has a cost of {} ({})", network.name,
                    description(kind, algorithm),
                    measured_on.empty() ? "none is measured, and it has no link"
                                        : fmt::format("measured on {}", fmt::join(measured_on, ", "))),
        fmt::to_string(workers));
  }
  const AlgorithmEntry& entry = algorithm_entry(algorithm.name);
  if (!entry.has_halves && kind != CollectiveKind::all_reduce)
    throw Unsupported(fmt::format("an all-reduce that has a {}", core::name(kind)), algorithm.name);
  if (entry.needs_nodes) check_nodes(network, workers, algorithm.name);
  return entry.cost(make_fabric(network, workers), algorithm);
}

/// Bytes sent per byte under a measured algorithm. two_level sends as much as the ring, wherever the nodes
/// are.
double sent_per_byte(std::int64_t workers, const Algorithm& algorithm) {
  const AlgorithmEntry& entry = algorithm_entry(algorithm.name);
  if (entry.needs_nodes) return 2 * static_cast<double>(workers - 1) / static_cast<double>(workers);
  return entry.cost({.workers = workers}, algorithm).sent_per_byte;
}

/// Reduce-scatter and all-gather split the startup and beta of an all-reduce equally.
double share_of(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 1 : 0.5; }

/// The largest size in any curve of the network. Derived curves may have points beyond it.
double max_measured_bytes(const Network& network) {
  double out = 0;
  for (const core::Measured& each : network.measured) out = std::max(out, each.curve.measured_up_to_bytes());
  return out;
}

/// The bound at the line rate on costs that are not below it on purpose: a bandwidth_factor is.
std::optional<double> bound_of(const Network& network, std::int64_t workers, const Algorithm& algorithm,
                               CollectiveKind kind) {
  const std::optional<double> rate = line_rate_gbps(network, workers);
  if (!rate || algorithm != Algorithm{.name = algorithm.name}) return std::nullopt;
  const AlgorithmEntry& entry = algorithm_entry(algorithm.name);
  if (entry.needs_nodes || algorithm.name == "parameter_server") return std::nullopt;
  return physical_us_per_byte(*rate, workers, kind);
}

/// The cost from curves: measured, or derived from measured ones. None if there are none.
std::optional<CollectiveCost> cost_of_curves(const Network& network, std::int64_t workers,
                                             const Algorithm& algorithm, CollectiveKind kind) {
  if (const core::Measured* measured = find_measured(network, workers, algorithm, kind))
    return CollectiveCost{.curve = measured->curve};
  if (auto derived = derived_cost(network, workers, algorithm, kind))
    return CollectiveCost{.curve = std::move(derived->curve)};
  return std::nullopt;
}

/// `raises`: costs under the physical bound are raised to it.
CollectiveCost cost_of(const Network& network, std::int64_t workers, const Algorithm& algorithm,
                       CollectiveKind kind, bool raises) {
  if (workers == 1) return {.curve = core::CostCurve::affine(0, 0)};
  const double share = share_of(kind);
  // 0: none
  const double bound = raises ? bound_of(network, workers, algorithm, kind).value_or(0) : 0;
  if (auto cost = cost_of_curves(network, workers, algorithm, kind)) {
    if (bound > 0) cost->curve = raised(cost->curve, bound);
    cost->sent_per_byte = share * sent_per_byte(workers, algorithm);
    cost->is_measured = true;
    return std::move(*cost);
  }
  const ClosedForm whole = closed_form(network, workers, algorithm, kind);
  const double sum =
      kind == CollectiveKind::all_gather ? 0 : whole.sum_us_per_byte;  // only the reduce-scatter has a gamma
                                                                       // part
  return {.curve = raised_affine(share * whole.startup_us, share * whole.link_us_per_byte + sum, bound),
          .sent_per_byte = share * whole.sent_per_byte};
}

/// The number of workers nearest to these, of all others on which this collective is measured; 0 if none.
std::int64_t nearest_measured(const Network& network, std::int64_t workers, const Algorithm& algorithm,
                              CollectiveKind kind) {
  std::int64_t nearest = 0;
  const auto ratio = [&](std::int64_t other) {
    return static_cast<double>(std::max(other, workers)) / static_cast<double>(std::min(other, workers));
  };
  for (const core::Measured& other : network.measured)
    if (other.collective == kind && other.workers > 1 && other.workers != workers &&
        other.algorithm.value_or(algorithm.name) == algorithm.name &&
        (nearest == 0 || ratio(other.workers) < ratio(nearest)))
      nearest = other.workers;
  return nearest;
}

}  // namespace

Fabric fabric_of(const Network& network, std::int64_t workers, std::string_view what, bool needs_nodes) {
  if (!network.link && network.levels.empty())
    throw Unsupported(fmt::format("a network with a link or levels, as {} has a closed form alone", what),
                      fmt::format("network '{}', which is measured alone", network.name), "/network");
  if (needs_nodes) check_nodes(network, workers, what);
  return make_fabric(network, workers);
}

Costs::Costs(const Network& network, std::int64_t workers, Algorithm algorithm)
    : network_(&network), workers_(workers), algorithm_(std::move(algorithm)) {}

const CollectiveCost& Costs::work_out(CollectiveKind kind) const {
  return known_.at(static_cast<std::size_t>(kind))
      .emplace(cost_of(*network_, workers_, algorithm_, kind, true));
}

std::vector<Warning> Costs::warnings(CollectiveKind kind, const std::vector<double>& sizes) const {
  if (workers_ == 1 || sizes.empty()) return {};
  const CollectiveCost& cost = of(kind);
  const auto what = [&] {  // most often there is nothing to say
    return fmt::format("network '{}', {} on {} workers", network_->name, description(kind, algorithm_),
                       workers_);
  };
  const auto on_any = [&] {
    return fmt::format("network '{}', {}", network_->name, description(kind, algorithm_));
  };
  std::vector<Warning> out;

  const CollectiveCost as_given = cost_of(*network_, workers_, algorithm_, kind, false);
  const double largest = *std::ranges::max_element(sizes);
  double measured = as_given.curve.measured_up_to_bytes();
  if (cost.is_measured) measured = std::min(measured, max_measured_bytes(*network_));
  if (largest > measured)
    out.push_back(
        {.subject = "extrapolation: " + on_any(),
         .weight = largest / measured,
         .text = fmt::format("{}: measured up to {:.0f} bytes, the last line is continued to {:.0f}", what(),
                             measured, largest),
         .workers = workers_,
         .also = "also continued, at most as far,"});

  for (const core::Measured& other : network_->measured)
    if (!cost.is_measured && other.collective == kind && other.workers == workers_)
      out.push_back({.subject = "unused: " + what(),
                     .text = fmt::format("{}: measured there only as {}, so the closed form is used", what(),
                                         *other.algorithm)});

  const std::int64_t nearest = cost.is_measured ? 0 : nearest_measured(*network_, workers_, algorithm_, kind);
  if (nearest != 0)
    out.push_back({.subject = "source: " + what(),
                   .text = fmt::format("{}: the formula of {} on the network's {}, where {} workers have a "
                                       "measured curve; times of the two do not compare",
                                       what(), algorithm_.name, network_->levels.empty() ? "link" : "levels",
                                       nearest)});
  if (cost.is_measured && find_measured(*network_, workers_, algorithm_, kind) == nullptr) {
    const std::optional<DerivedCost> derived = derived_cost(*network_, workers_, algorithm_, kind);
    out.push_back(
        {.subject = "derived: " + on_any(),
         .weight = derived->high_factor / derived->low_factor,
         .text = fmt::format(
             "{}: not measured; {}; 95 % of the true times are expected at {:.2f} to {:.2f} of these", what(),
             derived->derivation, derived->low_factor, derived->high_factor),
         .workers = workers_,
         .also = "also derived, with at most this range,"});
    for (const Peak& peak : derived->peaks)
      if (std::ranges::any_of(sizes, [&](double bytes) { return peak_factor({peak}, bytes) > 1; }))
        out.push_back({.subject = "peak: " + on_any(),
                       .weight = peak.factor,
                       .text = fmt::format("{}: {}", what(), text_of(peak, derived->high_factor)),
                       .workers = workers_,
                       .also = "their curves fall by at most this factor, too,"});
  }

  const std::optional<double> rate = line_rate_gbps(*network_, workers_);
  if (!rate) return out;
  const double min = physical_us_per_byte(*rate, workers_, kind);
  const bool is_raised = bound_of(*network_, workers_, algorithm_, kind).has_value();
  for (const double bytes : sizes) {
    const double bound = min * bytes;
    const double us = as_given.curve.us(bytes);
    constexpr double kRounding = 1 - 1e-9;
    if (us >= bound * kRounding) continue;
    out.push_back({.subject = "bound: " + what(),
                   .weight = bound - us,
                   .text = fmt::format(
                       "{}: {:.0f} bytes take {:.6g} us, under the physical bound of {:.6g} us at {} Gb/s{}",
                       what(), bytes, us, bound, *rate,
                       is_raised ? ", which fidelity 'closed' takes instead: measure larger messages, or "
                                   "correct line_rate_gbps"
                                 : "")});
  }
  return out;
}

}  // namespace planner
