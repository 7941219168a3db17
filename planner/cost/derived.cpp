#include "planner/cost/derived.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/quantities.hpp"
#include "planner/cost/curve_parts.hpp"
#include "planner/cost/extrapolate.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::CostCurve;

// ---- other numbers of workers

std::vector<MeasuredOn> measured_on(const core::Network& network, const Algorithm& algorithm,
                                    CollectiveKind kind) {
  std::vector<MeasuredOn> out;
  std::unordered_set<std::int64_t> known;
  for (const core::Measured& each : network.measured)
    if (each.collective == kind && each.workers > 1 && sizes_of(each.curve).size() > 1 &&
        each.algorithm.value_or(algorithm.name) == algorithm.name && known.insert(each.workers).second)
      out.push_back({.workers = each.workers, .curve = &each.curve, .is_stated = each.algorithm.has_value()});
  std::ranges::sort(out, [](const MeasuredOn& a, const MeasuredOn& b) { return a.workers < b.workers; });
  return out;
}

std::optional<DerivedCost> extrapolated_cost(const core::Network& network, std::int64_t workers,
                                             const Algorithm& algorithm, CollectiveKind kind) {
  const std::vector<MeasuredOn> measured = measured_on(network, algorithm, kind);
  if (measured.empty()) return std::nullopt;
  const Extrapolation found = extrapolate(measured, workers, algorithm, kind);
  if (found.left_out_error && *found.left_out_error > kMaxLeftOutError)
    throw core::Unsupported(
        fmt::format("a number of workers for which network '{}' has a cost of {} {} (measured on {}, which "
                    "predict one another with a mean error of {:.0f} %, too much to go by; measure it on {})",
                    network.name, algorithm.name, core::name(kind), core::list_text(workers_of(measured)),
                    100 * *found.left_out_error, workers),
        fmt::to_string(workers));
  DerivedCost out = {.curve = found.curve,
                     .low_factor = found.low_factor,
                     .high_factor = found.high_factor,
                     .peaks = found.peaks};
  out.derivation = fmt::format(
      "extrapolated from {} workers: {}; {}", fmt::join(found.from, " and "),
      growth_text(found.growth, algorithm, std::max(workers, found.from.back())),
      found.left_out_error
          ? fmt::format("measured numbers of workers predict one another with a mean error of {:.0f} %",
                        100 * *found.left_out_error)
          : "with one number of workers nothing says how far that can be trusted, a second one would");
  return out;
}

std::vector<double> sizes_of_both(const CostCurve& one, const CostCurve& other) {
  std::vector<double> sizes = sizes_of(one);
  for (const double size : sizes_of(other)) sizes.push_back(size);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// ---- the halves of an all-reduce

/// The share of an all-reduce that one half of it takes: more for small messages, whose startups are not
/// halved, and inside a machine, where sums and copies take a part, as on the bundled ones.
constexpr double kHalfOfSmall = 0.75;
constexpr double kHalfInMachine = 0.57;
constexpr double kHalfOverNetwork = 0.52;
/// 19 in 20 of the halves on the bundled machines lie between these factors of it.
constexpr double kHalfLow = 0.82;
constexpr double kHalfHigh = 1.35;

/// 95 % of the all-gathers on the bundled machines take between these factors of a reduce-scatter of as many
/// bytes.
constexpr double kGatherLow = 0.9;
constexpr double kGatherHigh = 1.3;

double half_of_large(std::int64_t workers) {
  return workers <= core::kWorkersOfMachine ? kHalfInMachine : kHalfOverNetwork;
}

std::string because(const DerivedCost& cost, std::string_view what) {
  return cost.derivation.empty() ? "" : fmt::format("; the {} is {}", what, cost.derivation);
}

DerivedCost half_of(const DerivedCost& whole, std::int64_t workers) {
  const CostCurve& curve = whole.curve;
  const double half = half_of_large(workers);
  const double startup = startup_of(curve);
  DerivedCost out = {.low_factor = kHalfLow * whole.low_factor, .high_factor = kHalfHigh * whole.high_factor};
  const auto half_us = [&](double bytes) {
    const double us = curve.us(bytes);
    const double small = us > 0 ? std::min(1.0, startup / us) : 0;
    return us * (half + (kHalfOfSmall - half) * small);
  };
  out.curve = sampled_at(sizes_of(curve), half_us);
  // Those of an all-reduce that was derived were cut off before.
  out.peaks = whole.peaks.empty() ? peaks_of(sizes_of(curve), half_us) : whole.peaks;
  out.derivation = fmt::format(
      "ASSUMED to take {:.2f} of an all-reduce, up to {:.2f} of a small one, as on the bundled machines; "
      "measure it{}",
      half, kHalfOfSmall, because(whole, "all-reduce"));
  return out;
}

/// An all-gather or reduce-scatter from the other of the two.
DerivedCost other_half(DerivedCost half, CollectiveKind kind) {
  const bool is_gather = kind == CollectiveKind::all_gather;
  const std::string_view from =
      core::name(is_gather ? CollectiveKind::reduce_scatter : CollectiveKind::all_gather);
  half.low_factor *= is_gather ? kGatherLow : 1 / kGatherHigh;
  half.high_factor *= is_gather ? kGatherHigh : 1 / kGatherLow;
  half.derivation = fmt::format("ASSUMED to take as long as {}, as on most machines; measure it{}", from,
                                because(half, from));
  return half;
}

/// An all-reduce from its halves: what half_of() undoes.
DerivedCost whole_of(const DerivedCost& scatter, const DerivedCost& gather, std::int64_t workers) {
  const double halves = 2 * half_of_large(workers);
  const double startup = startup_of(scatter.curve) + startup_of(gather.curve);
  const auto whole_us = [&](double bytes) {
    const double us = scatter.curve.us(bytes) + gather.curve.us(bytes);
    const double without_small = us - (1 - halves / (2 * kHalfOfSmall)) * std::min(us, startup);
    return without_small / halves;
  };
  std::vector<double> sizes = sizes_of_both(scatter.curve, gather.curve);
  DerivedCost out = {.curve = sampled_at(sizes, whole_us),
                     .low_factor = std::min(scatter.low_factor, gather.low_factor) / kHalfHigh,
                     .high_factor = std::max(scatter.high_factor, gather.high_factor) / kHalfLow,
                     .peaks = peaks_of(sizes, whole_us)};
  out.derivation = fmt::format(
      "ASSUMED to take {:.2f} of its halves, down to {:.2f} for a small one, as on the bundled machines; "
      "measure it{}{}",
      1 / halves, 0.5 / kHalfOfSmall, because(scatter, core::name(CollectiveKind::reduce_scatter)),
      because(gather, core::name(CollectiveKind::all_gather)));
  return out;
}

}  // namespace

const core::Measured* find_measured(const core::Network& network, std::int64_t workers,
                                    const Algorithm& algorithm, CollectiveKind kind) {
  for (const core::Measured& measured : network.measured)
    if (measured.collective == kind && measured.workers == workers &&
        measured.algorithm.value_or(algorithm.name) == algorithm.name)
      return &measured;
  return nullptr;
}

bool has_measured_nodes(const core::Network& network) {
  return !network.measured.empty() && network.levels.size() == 2 &&
         network.levels.front().name == kMeasuredNode && network.levels.front().size.has_value();
}

namespace {

/// From curves of the collective itself: on as many workers, or on others.
std::optional<DerivedCost> own_cost(const core::Network& network, std::int64_t workers,
                                    const Algorithm& algorithm, CollectiveKind kind) {
  if (const core::Measured* measured = find_measured(network, workers, algorithm, kind))
    return DerivedCost{.curve = measured->curve};
  return extrapolated_cost(network, workers, algorithm, kind);
}

/// From curves of all-gathers and reduce-scatters, or of one of them.
std::optional<DerivedCost> cost_from_halves(const core::Network& network, std::int64_t workers,
                                            const Algorithm& algorithm, CollectiveKind kind) {
  const auto with_sizes = [&](CollectiveKind half) {
    auto out = own_cost(network, workers, algorithm, half);
    if (out && sizes_of(out->curve).size() < 2) out.reset();  // one size says nothing of others
    return out;
  };
  auto scatter = with_sizes(CollectiveKind::reduce_scatter);
  auto gather = with_sizes(CollectiveKind::all_gather);
  if (!scatter && !gather) return std::nullopt;
  if (!scatter) scatter = other_half(*gather, CollectiveKind::reduce_scatter);
  if (!gather) gather = other_half(*scatter, CollectiveKind::all_gather);
  if (kind == CollectiveKind::reduce_scatter) return scatter;
  if (kind == CollectiveKind::all_gather) return gather;
  return whole_of(*scatter, *gather, workers);
}

std::optional<DerivedCost> cost_in_node(const core::Network& network, std::int64_t workers,
                                        const Algorithm& algorithm, CollectiveKind kind) {
  if (const core::Measured* measured = find_measured(network, workers, algorithm, kind))
    return DerivedCost{.curve = measured->curve};
  const bool has_halves = algorithm_entry(algorithm.name).has_halves;
  if (kind == CollectiveKind::all_reduce) {
    auto own = extrapolated_cost(network, workers, algorithm, kind);
    return own || !has_halves ? own : cost_from_halves(network, workers, algorithm, kind);
  }
  if (!has_halves) return std::nullopt;
  const core::Measured* whole = find_measured(network, workers, algorithm, CollectiveKind::all_reduce);
  const bool has_sizes =
      whole != nullptr && sizes_of(whole->curve).size() > 1;  // one size says nothing of others
  if (has_sizes && measured_on(network, algorithm, kind).empty())
    return half_of({.curve = whole->curve}, workers);
  if (auto own = extrapolated_cost(network, workers, algorithm, kind)) return own;
  const auto all_reduce = extrapolated_cost(network, workers, algorithm, CollectiveKind::all_reduce);
  return all_reduce ? half_of(*all_reduce, workers) : cost_from_halves(network, workers, algorithm, kind);
}

// ---- several nodes
// The numbers were chosen by 23 tables of nccl-tests on 2 to 128 nodes of A100, H100, H200 and B200 that
// others published, and held against 15 more; docs/networks.md says how well.

/// The share of what a port reaches with a ring that it reaches with trees.
constexpr double kReachedByTrees = 0.7;
/// A hop of a ring inside a node, beyond those of the node's own ring, takes this many times as long as one
/// in a short message, whose protocol has less to start.
constexpr double kHopInside = 3;

/// Whether an all-reduce may go along trees, as a library chooses where it is free to.
bool may_take_trees(const core::Network& network, std::int64_t node, const Algorithm& algorithm,
                    CollectiveKind kind) {
  if (kind != CollectiveKind::all_reduce || algorithm_entry(algorithm.name).needs_nodes) return false;
  const core::Measured* measured = find_measured(network, node, algorithm, kind);
  return measured == nullptr || measured->algorithm.value_or("") != "ring";
}

/// The smaller of two curves at the sizes of both.
CostCurve smaller(const CostCurve& one, const CostCurve& other) {
  return sampled_at(sizes_of_both(one, other),
                    [&](double bytes) { return std::min(one.us(bytes), other.us(bytes)); });
}

/// Several nodes. As many rings as there are ports go through all workers at once, so that the slower of node
/// and port decides after the startups of all hops; or trees do, whichever is faster. The steps of two_level
/// follow one another.
DerivedCost cost_of_nodes(const core::Network& network, std::int64_t workers, const Algorithm& algorithm,
                          CollectiveKind kind) {
  const std::int64_t node = *network.levels.front().size;
  const core::Level& joins = network.levels.back();
  if (workers % node != 0)
    throw core::Unsupported(
        fmt::format("a multiple of the {} workers in a node of network '{}'", node, network.name),
        fmt::to_string(workers));
  const std::optional<DerivedCost> inside = cost_in_node(network, node, algorithm, kind);
  if (!inside)
    throw core::Unsupported(fmt::format("a curve of {} {} on the {} workers of a node in network '{}'",
                                        algorithm.name, core::name(kind), node, network.name),
                            "none");
  const auto nodes = static_cast<double>(workers / node);
  const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double share = joins.shared ? 1 : 1 / static_cast<double>(node);
  const auto over_port = [&](double members) {
    return passes * (members - 1) / members * share * joins.link.beta_us_per_byte;
  };
  const double between_us = passes * (nodes - 1) * joins.link.alpha_us;
  const bool in_turn = algorithm_entry(algorithm.name).needs_nodes;
  const bool by_trees = may_take_trees(network, node, algorithm, kind);

  // Inside a node, too, a ring through all workers sends more than one through the node's alone.
  const double more_inside = node > 1 ? factors({}, workers).passes / factors({}, node).passes : 1;
  const double startup_inside_us = startup_of(inside->curve);
  /// The node's curve without its startup, or the port if that takes longer, after all startups.
  const auto together = [&](double startup_us, double us_per_byte) {
    const auto moving_us = [&](double bytes) {
      return std::max(0.0, more_inside * inside->curve.us(bytes) - startup_inside_us);
    };
    const CostCurve moving = larger(sampled_at(sizes_of(inside->curve), moving_us), us_per_byte);
    return sampled_at(sizes_of(moving),
                      [&](double bytes) { return startup_us + startup_inside_us + moving.us(bytes); });
  };
  const auto ring = [&] {
    const double hops_inside = passes * (static_cast<double>(workers - node) - (nodes - 1));
    return together(between_us + kHopInside * hops_inside * network.levels.front().link.alpha_us,
                    over_port(static_cast<double>(workers)));
  };
  // Up and down again, and a hop of a tree takes two of a ring.
  const auto trees = [&] {
    const auto levels = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(workers / node - 1)));
    const double startup_us = 2 * levels * 2 * joins.link.alpha_us;
    return together(startup_us, over_port(nodes) / kReachedByTrees);
  };
  const auto in_steps = [&](double bytes) {
    return between_us + inside->curve.us(bytes) + over_port(nodes) * bytes;
  };
  DerivedCost out = {
      .low_factor = kNodesLow * inside->low_factor,
      .high_factor = kNodesHigh * inside->high_factor,
      .peaks = inside->peaks.empty()
                   ? peaks_of(sizes_of(inside->curve), [&](double bytes) { return inside->curve.us(bytes); })
                   : inside->peaks};
  out.curve = in_turn    ? sampled_at(sizes_of(inside->curve), in_steps)
              : by_trees ? smaller(ring(), trees())
                         : ring();
  out.derivation = fmt::format(
      "{} nodes of {} workers over ports that reach {:.6g} Gb/s for each {}: the curve of one node {}{}{}",
      workers / node, node, 8e-3 / joins.link.beta_us_per_byte, joins.shared ? "node" : "worker",
      in_turn    ? "and, after it, a ring between nodes"
      : by_trees ? "or, if that takes longer, the ports, with a ring through all workers or trees, "
                   "whichever is faster"
                 : "or, if that takes longer, the ports, with a ring through all workers",
      inside->derivation.empty() ? "" : "; in a node ", inside->derivation);
  return out;
}

}  // namespace

std::optional<DerivedCost> derived_cost(const core::Network& network, std::int64_t workers,
                                        const Algorithm& algorithm, CollectiveKind kind) {
  if (has_measured_nodes(network)) {
    if (workers > *network.levels.front().size) return cost_of_nodes(network, workers, algorithm, kind);
  } else if (network.link || !network.levels.empty()) {
    return std::nullopt;
  }
  return cost_in_node(network, workers, algorithm, kind);
}

core::Network with_derived(core::Network network, std::int64_t workers, const Algorithm& algorithm) {
  if (workers < 2 || has_measured_nodes(network)) return network;
  std::vector<core::Measured> derived;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    if (find_measured(network, workers, algorithm, kind) != nullptr) continue;
    try {
      if (const auto cost = derived_cost(network, workers, algorithm, kind))
        derived.push_back(
            {.collective = kind, .algorithm = algorithm.name, .workers = workers, .curve = cost->curve});
    } catch (const core::Unsupported&) {  // is refused again by what needs it
    }
  }
  network.measured.insert(network.measured.end(), derived.begin(), derived.end());
  return network;
}

std::set<std::int64_t> measured_workers(const core::Network& network) {
  std::set<std::int64_t> out;
  for (const core::Measured& each : network.measured) out.insert(each.workers);
  return out;
}

void join_nodes(core::Network& network, std::int64_t node, const core::Link& between, bool is_shared) {
  core::Link inside;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    const core::Measured* measured = find_measured(network, node, {}, kind);
    if (measured == nullptr) continue;
    const CostCurve& curve = measured->curve;
    const auto p = static_cast<double>(node);
    const double last = sizes_of(curve).back();
    const double hops = (kind == CollectiveKind::all_reduce ? 2 : 1) * (p - 1);
    inside.alpha_us = curve.startup_us() / hops;
    inside.beta_us_per_byte =
        std::max(0.0, curve.us(last) - curve.startup_us()) / std::max(1.0, last) * p / hops;
    break;
  }
  network.link.reset();
  std::erase_if(network.measured, [&](const core::Measured& each) { return each.workers > node; });
  network.levels = {{.name = std::string(kMeasuredNode), .size = node, .link = inside},
                    {.name = "between", .size = {}, .link = between, .shared = is_shared}};
  network.levels.back().link.beta_us_per_byte /= kReachedRate;
}

}  // namespace planner
