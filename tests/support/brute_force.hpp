// The reference for exact planners: every grouping with every transfer, an evaluator written from the
// contract alone, and small instances whose numbers are sums of powers of two, so that every order of
// summation gives the same picoseconds.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/choose/constraints.hpp"
#include "planner/choose/iteration.hpp"
#include "planner/choose/simulate_iteration.hpp"
#include "tests/support/groups.hpp"

namespace support {

// ---- every grouping

/// The order of groupings: value, number of groups, gradients in the first group.
using Rank = std::tuple<sim::Time, std::size_t, std::uint32_t>;

inline Rank rank(const planner::Groups& groups, sim::Time value) {
  return {value, groups.size(), groups.front().end};
}

/// The rank of no grouping.
constexpr Rank kNoGrouping = {sim::Time::max(), 0, 0};

/// Cuts after gradient i if bit i is set.
inline planner::Groups groups_of(std::uint32_t cuts, std::uint32_t count) {
  planner::Groups groups = {{.begin = 0, .end = 1}};
  for (std::uint32_t i = 1; i < count; ++i) {
    if ((cuts >> (i - 1) & 1U) != 0)
      groups.push_back({.begin = i, .end = i + 1});
    else
      groups.back().end = i + 1;
  }
  return groups;
}

/// Advances to the next assignment of transfers, counting with the first group as the lowest digit; false
/// after the last one.
inline bool next_transfers(planner::Groups& groups, std::uint32_t transfers) {
  for (planner::Group& group : groups) {
    if (++group.transfer < transfers) return true;
    group.transfer = 0;
  }
  return false;
}

/// Calls `look` with every grouping that `is_allowed` accepts, with every assignment of transfers.
template <typename IsAllowed, typename Look>
void for_each_grouping(std::uint32_t count, std::uint32_t transfers, IsAllowed is_allowed, Look look) {
  for (std::uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
    planner::Groups groups = groups_of(cuts, count);
    if (!is_allowed(groups)) continue;
    do look(groups);
    while (next_transfers(groups, transfers));
  }
}

inline bool any_grouping(const planner::Groups& /*groups*/) { return true; }

/// Returns the best rank of all groupings; kNoGrouping if none is allowed.
template <typename Value, typename IsAllowed>
Rank best_rank(std::uint32_t count, std::uint32_t transfers, Value value, IsAllowed is_allowed) {
  Rank best = kNoGrouping;
  for_each_grouping(count, transfers, is_allowed, [&](const planner::Groups& groups) {
    best = std::min(best, rank(groups, value(groups)));
  });
  return best;
}

// ---- the contract

/// Evaluates a schedule under one scenario without any code of the planner: costs by sections 1, 2 and 4 of
/// the contract, times by section 3, no slow-down, one micro-batch.
class Reference {
 public:
  Reference(const Scene& scene, std::string_view pipeline, bool overlap_gather,
            std::vector<planner::Transfer> transfers)
      : scene_(scene),
        pipeline_(pipeline),
        overlap_gather_(overlap_gather),
        transfers_(std::move(transfers)),
        workers_(scene.setting.costs.workers()),
        slowdown_(worst_slowdown()) {
    add_profile();
    add_extras();
    for (std::uint32_t transfer = 0; transfer < transfers_.size(); ++transfer) add_costs(transfer);
  }

  std::uint32_t count() const { return static_cast<std::uint32_t>(gradients_.size()); }
  std::uint32_t transfer_count() const { return static_cast<std::uint32_t>(transfers_.size()); }
  const std::vector<planner::Transfer>& transfers() const { return transfers_; }

  /// Returns the time from the start of an iteration to that of the next, before the maximum with the input.
  sim::Time value(const planner::Groups& groups) const {
    if (pipeline_ == "wfbp" || pipeline_ == "after_backward") return value_of_one_phase(groups);
    return overlap_gather_ ? value_of_overlapped_gathers(groups) : value_of_gathers_before_forward(groups);
  }

  template <typename IsAllowed>
  Rank best(IsAllowed is_allowed) const {
    return best_rank(
        count(), transfer_count(), [this](const planner::Groups& groups) { return value(groups); },
        is_allowed);
  }

 private:
  using Time = sim::Time;
  using Kind = core::CollectiveKind;

  struct ReferenceGradient {
    std::size_t layer = 0;
    std::int64_t bytes = 0;
    Time ready{};
  };

  /// The cost of one group with one transfer.
  struct GroupCost {
    Time encode{};
    Time all_reduce{};
    Time reduce_scatter{};
    Time all_gather{};
    Time decode{};
  };

  // Inputs: profile and conditions of the slowest worker.

  double worst_slowdown() const {
    const auto& stragglers = scene_.setting.conditions.stragglers;
    double worst = static_cast<std::int64_t>(stragglers.size()) < workers_ ? 1 : 0;
    std::int64_t existing = 0;
    for (const planner::Straggler& straggler : stragglers) {
      if (straggler.worker >= workers_) continue;
      worst = std::max(worst, straggler.slowdown);
      ++existing;
    }
    return existing < workers_ ? std::max(worst, 1.0) : worst;
  }

  void add_profile() {
    const auto& layers = scene_.profile.layers;
    for (const core::ProfileLayer& layer : layers) forward_.push_back(time(layer.forward_us * slowdown_));
    for (std::size_t at = layers.size(); at-- > 0;) {
      const core::ProfileLayer& layer = layers[at];
      const bool in_parts = !layer.tensors.empty() && layer.tensors.front().backward_us;
      if (!in_parts) backward_ += time(layer.backward_us * slowdown_);
      for (std::size_t tensor = layer.tensors.size(); tensor-- > 0;) {
        if (in_parts) backward_ += time(*layer.tensors[tensor].backward_us * slowdown_);
        gradients_.push_back({.layer = at, .bytes = 4 * layer.tensors[tensor].elements, .ready = backward_});
      }
    }
  }

  void add_extras() {
    const planner::Conditions& conditions = scene_.setting.conditions;
    if (!conditions.read_is_overlapped) read_ = time(conditions.read_us);
    if (!conditions.parallel_tensor_operator) {
      update_ = time((conditions.optimizer_us + conditions.lars_us) * slowdown_);
      return;
    }
    update_ = time(conditions.optimizer_us * slowdown_);
    lars_ = time(conditions.lars_us / p() * slowdown_);
    if (workers_ > 1)
      lars_gather_ = time(
          collective_us(transfers_.front(), Kind::all_gather, 4.0 * static_cast<double>(forward_.size())));
  }

  /// Each duration is rounded once.
  static Time time(double us) { return sim::from_us(us); }

  // Section 2.

  double p() const { return static_cast<double>(workers_); }

  double rounds() const {
    double lg = 0;
    for (std::int64_t reached = 1; reached < workers_; reached *= 2) ++lg;
    return lg;
  }

  double closed_us(const planner::Transfer& transfer, Kind kind, double bytes) const {
    const core::Link& link = *scene_.network.link;
    double startup = 0;
    double carried = 0;
    double summed = 0;
    if (transfer.all_reduce.name == "ring") {
      startup = 2 * (p() - 1) * link.alpha_us;
      carried = 2 * (p() - 1) / p() * link.beta_us_per_byte;
      summed = (p() - 1) / p() * link.gamma_us_per_byte;
    } else {  // recursive doubling, or twice as much both ways through a tree
      const double times = transfer.all_reduce.name == "binary_tree" ? 2 : 1;
      startup = times * rounds() * link.alpha_us;
      carried = times * rounds() * link.beta_us_per_byte;
      summed = rounds() * link.gamma_us_per_byte;
    }
    switch (kind) {
      case Kind::all_reduce: return startup + (carried + summed) * bytes;
      case Kind::reduce_scatter: return startup / 2 + (carried / 2 + summed) * bytes;
      case Kind::all_gather: return startup / 2 + carried / 2 * bytes;
    }
    return 0;
  }

  /// Straight lines between points; the last one is continued, but not below 0, and the first value holds
  /// before the first point.
  static double between(const std::vector<std::pair<double, double>>& points, double bytes) {
    if (points.size() == 1 || bytes <= points.front().first) return points.front().second;
    std::size_t at = 0;
    while (at + 2 < points.size() && points[at + 1].first <= bytes) ++at;
    const auto& [x0, y0] = points[at];
    const auto& [x1, y1] = points[at + 1];
    return std::max(0.0, y0 + (y1 - y0) / (x1 - x0) * (bytes - x0));
  }

  const core::Measured* measured_of(const planner::Transfer& transfer, Kind kind) const {
    for (const core::Measured& measured : scene_.network.measured)
      if (measured.collective == kind && measured.workers == workers_ &&
          (!measured.algorithm || *measured.algorithm == transfer.all_reduce.name))
        return &measured;
    return nullptr;
  }

  double collective_us(const planner::Transfer& transfer, Kind kind, double bytes) const {
    const core::Measured* measured = measured_of(transfer, kind);
    return measured != nullptr ? between(measured->curve.points(), bytes) : closed_us(transfer, kind, bytes);
  }

  /// An all-gather by itself: by the formula, a tree's is the ring's, and doubling takes all of its rounds.
  double gather_us(const planner::Transfer& transfer, double bytes) const {
    const core::Measured* measured = measured_of(transfer, Kind::all_gather);
    if (measured != nullptr) return between(measured->curve.points(), bytes);
    const core::Link& link = *scene_.network.link;
    const double startups = transfer.all_reduce.name == "recursive_doubling" ? rounds() : p() - 1;
    return startups * link.alpha_us + (p() - 1) / p() * link.beta_us_per_byte * bytes;
  }

  // Compression (sections 3 and 4).

  static double code_us(const planner::CodeCost& cost, double bytes) {
    if (cost.curve) return between(cost.curve->points(), bytes);
    return std::max(cost.floor_us, cost.startup_us + bytes * cost.us_per_byte);
  }

  static bool comes(std::int64_t iteration, std::int64_t every) { return iteration % every == 0; }

  /// An index is sent with each value.
  static double kept(double density) { return 2 * density; }

  double filled(double density) const {
    double none = 1;
    for (std::int64_t worker = 0; worker < workers_; ++worker) none *= 1 - density;
    return 1 - none;
  }

  double topk_dsa_us(double density, double bytes) const {
    const core::Link& link = *scene_.network.link;
    const auto part = [](double share) { return 3 * share > 2 ? 1 : kept(share); };
    const double sums = 3 * density > 2 ? link.gamma_us_per_byte : 0;
    return 2 * (p() - 1) * (link.alpha_us + 4 * link.beta_us_per_byte) +
           (p() - 1) / p() * bytes * ((part(density) + part(filled(density))) * link.beta_us_per_byte + sums);
  }

  /// The time of one iteration.
  double ok_topk_us(const planner::SparseOptions& options, double density, double bytes,
                    std::int64_t iteration) const {
    const core::Link& link = *scene_.network.link;
    const double gathered = comes(iteration, options.recompute_every) ? filled(density) : density;
    double sent = 4 * (p() - 1) + (p() - 1) / p() * bytes * (kept(density) + kept(gathered));
    double messages = p() - 1 + 2 * rounds();
    if (comes(iteration, options.repartition_every)) {
      messages += 2 * (p() - 1);
      sent += 16 * (p() - 1) * (p() - 1) / p();
    }
    return messages * link.alpha_us + sent * link.beta_us_per_byte;
  }

  /// The mean over a number of iterations that holds whole periods (powers of two up to 64).
  template <typename Us>
  static double mean_us(Us us) {
    constexpr std::int64_t kIterations = 64;
    double sum = 0;
    for (std::int64_t i = 0; i < kIterations; ++i) sum += us(i);
    return sum / kIterations;
  }

  double sparse_us(const planner::Compressor& compressor, double bytes) const {
    const double density = compressor.ratio / 2;
    const core::Link& link = *scene_.network.link;
    if (compressor.name == "gtopk")
      return 2 * rounds() * (link.alpha_us + kept(density) * bytes * link.beta_us_per_byte);
    if (compressor.name == "topk-dsa") return topk_dsa_us(density, bytes);
    return mean_us([&](std::int64_t i) { return ok_topk_us(*compressor.sparse, density, bytes, i); });
  }

  static double encoding_us(const planner::Compressor& compressor, double bytes) {
    if (compressor.name != "ok-topk") return code_us(compressor.encode, bytes);
    return mean_us([&](std::int64_t i) {
      return code_us(comes(i, compressor.sparse->recompute_every) ? compressor.sparse->recompute_selection
                                                                  : compressor.encode,
                     bytes);
    });
  }

  /// All-gathers carry the contributions of all workers, everything else that of one.
  double encoded_us(const planner::Transfer& transfer, Kind kind, double bytes) const {
    const double further = kind == Kind::all_reduce ? code_us(transfer.compressor.in_transit, bytes) : 0;
    return messages_us(transfer, kind, bytes) + further;
  }

  double messages_us(const planner::Transfer& transfer, Kind kind, double bytes) const {
    if (transfer.compressor.sparse && transfer.compressor.name != "topk-a")
      return sparse_us(transfer.compressor, bytes);
    const double contribution = transfer.compressor.ratio * bytes;
    if (kind == Kind::all_reduce && transfer.compressor.collective == Kind::all_gather)
      return gather_us(transfer, p() * contribution);
    return collective_us(transfer, kind, contribution);
  }

  GroupCost cost_of(const planner::Transfer& transfer, double bytes) const {
    if (workers_ == 1) return {};
    const double encode = slowdown_ * encoding_us(transfer.compressor, bytes);
    const double decode = slowdown_ * code_us(transfer.compressor.decode, bytes);
    const double dense = collective_us(transfer, Kind::all_reduce, bytes);
    const bool compresses =
        transfer.compressor.name != "none" &&
        (!transfer.selective || encode + encoded_us(transfer, Kind::all_reduce, bytes) + decode < dense);
    if (!compresses)
      return {.encode = {},
              .all_reduce = time(dense),
              .reduce_scatter = time(collective_us(transfer, Kind::reduce_scatter, bytes)),
              .all_gather = time(collective_us(transfer, Kind::all_gather, bytes)),
              .decode = {}};
    return {.encode = time(encode),
            .all_reduce = time(encoded_us(transfer, Kind::all_reduce, bytes)),
            .reduce_scatter = time(encoded_us(transfer, Kind::reduce_scatter, bytes)),
            .all_gather = time(encoded_us(transfer, Kind::all_gather, bytes)),
            .decode = time(decode)};
  }

  std::size_t place(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer) const {
    return (std::size_t{transfer} * count() + begin) * (count() + 1) + end;
  }

  void add_costs(std::uint32_t transfer) {
    costs_.resize(place(0, 0, transfer + 1));
    for (std::uint32_t begin = 0; begin < count(); ++begin) {
      std::int64_t bytes = 0;
      for (std::uint32_t end = begin + 1; end <= count(); ++end) {
        bytes += gradients_[end - 1].bytes;
        costs_[place(begin, end, transfer)] = cost_of(transfers_[transfer], static_cast<double>(bytes));
      }
    }
  }

  const GroupCost& cost(const planner::Group& group) const {
    return costs_[place(group.begin, group.end, group.transfer)];
  }

  // Section 3.

  /// Parts of the update are proportional to bytes, and rounded so that they add up to the whole update. This
  /// is the only inexact division, so it is done as in the planner.
  Time update_of(const planner::Group& group) const {
    const auto of_first = [&](std::uint32_t gradients) {
      return time(sim::to_us(update_) * (bytes_before(gradients) / bytes_before(count())));
    };
    return of_first(group.end) - of_first(group.begin);
  }

  double bytes_before(std::uint32_t gradient) const {
    std::int64_t out = 0;
    for (std::uint32_t i = 0; i < gradient; ++i) out += gradients_[i].bytes;
    return static_cast<double>(out);
  }

  Time value_of_one_phase(const planner::Groups& groups) const {
    Time encoded{};
    Time channel{};
    std::vector<Time> arrived;
    for (const planner::Group& group : groups) {
      encoded += cost(group).encode;
      const Time ready = pipeline_ == "wfbp" ? gradients_[group.end - 1].ready : backward_;
      channel = std::max(channel, ready + encoded) + cost(group).all_reduce;
      arrived.push_back(channel);
    }
    Time compute = backward_ + encoded;
    for (std::size_t g = 0; g < groups.size(); ++g)
      compute = std::max(compute, arrived[g]) + cost(groups[g]).decode;
    return read_ + forward_total() + compute + lars_ + lars_gather_ + update_;
  }

  /// Returns when backward and all reduce-scatters have ended.
  Time drained(const planner::Groups& groups) const {
    Time encoded{};
    Time channel{};
    for (const planner::Group& group : groups) {
      encoded += cost(group).encode;
      channel = std::max(channel, gradients_[group.end - 1].ready + encoded) + cost(group).reduce_scatter;
    }
    return std::max(backward_ + encoded, channel);
  }

  Time value_of_overlapped_gathers(const planner::Groups& groups) const {
    const Time start = drained(groups) + lars_;
    Time channel = start + lars_gather_;
    Time compute = start + read_;
    std::size_t next = groups.size();
    for (std::size_t layer = 0; layer < forward_.size(); ++layer) {
      // A group's first layer is that of its last gradient.
      while (next > 0 && gradients_[groups[next - 1].end - 1].layer == layer) {
        const planner::Group& group = groups[--next];
        channel += cost(group).all_gather;
        compute = std::max(compute, channel) + cost(group).decode + update_of(group);
      }
      compute += forward_[layer];
    }
    return compute;
  }

  Time value_of_gathers_before_forward(const planner::Groups& groups) const {
    Time channel = drained(groups) + lars_ + lars_gather_ + update_;
    Time compute = channel;
    for (std::size_t g = groups.size(); g-- > 0;) {
      channel += cost(groups[g]).all_gather;
      compute = std::max(compute, channel) + cost(groups[g]).decode;
    }
    return compute + read_ + forward_total();
  }

  Time forward_total() const {
    Time out{};
    for (const Time layer : forward_) out += layer;
    return out;
  }

  const Scene& scene_;
  std::string_view pipeline_;
  bool overlap_gather_;
  std::vector<planner::Transfer> transfers_;
  std::int64_t workers_;
  double slowdown_;
  std::vector<Time> forward_;  // indexed by layer
  Time backward_{};
  std::vector<ReferenceGradient> gradients_;  // in backward order
  Time read_{};
  Time update_{};
  Time lars_{};
  Time lars_gather_{};
  std::vector<GroupCost> costs_;
};

// ---- small instances

/// Pipelines with their options, as keys of a schedule.
struct PipelineCase {
  const char* name;
  bool overlap_gather;
  bool halves;  ///< cuts an all-reduce in two, so that encoded gradients must be summable
  std::string keys() const {
    return fmt::format(R"("pipeline": "{}"{})", name, overlap_gather ? "" : R"(, "overlap_gather": false)");
  }
};

inline const std::vector<PipelineCase>& pipeline_cases() {
  static const std::vector<PipelineCase> all = {{"after_backward", true, false},
                                                {"wfbp", true, false},
                                                {"dear", true, true},
                                                {"zero", true, true},
                                                {"zero", false, true}};
  return all;
}

inline double eighths(Random& random, std::uint32_t max) {
  return static_cast<double>(random.below(max)) / 8;
}

/// Returns up to `max` tensors of 4 to 48 bytes in layers of none to three, some layers with parts.
inline core::Profile small_profile(Random& random, std::uint32_t max_tensors) {
  std::uint32_t left = 1 + random.below(max_tensors);
  // All equal, so that there are many ties.
  const std::uint32_t max_us = random.one_in(4) ? 1 : random.one_in(3) ? 16 : 80;
  std::vector<LayerSpec> layers = {{.forward_us = 1}};
  while (left > 0) {
    LayerSpec layer = {.forward_us = eighths(random, max_us)};
    const std::uint32_t tensors = std::min(left, random.below(4));
    left -= tensors;
    const bool in_parts = random.one_in(2);
    for (std::uint32_t i = 0; i < tensors; ++i) {
      layer.elements.push_back(random.between(1, 12));
      if (in_parts) layer.parts_us.push_back(eighths(random, max_us));
      if (in_parts) layer.backward_us += layer.parts_us.back();
    }
    if (!in_parts || tensors == 0) layer.backward_us = eighths(random, max_us);
    layers.push_back(std::move(layer));
  }
  return profile_of(layers);
}

/// Adds parameters that are not trained to some layers, and puts layers into one of two modules.
inline void add_frozen(Random& random, core::Profile& profile) {
  for (core::ProfileLayer& layer : profile.layers) {
    if (random.one_in(2)) layer.frozen_elements = random.between(1, 30);
    layer.module = fmt::format("{}.{}", random.one_in(2) ? "a" : "b", layer.name);
  }
}

/// Up to six points at powers of two.
inline core::CostCurve random_curve(Random& random, bool rises, bool falls_at_end) {
  std::vector<std::pair<double, double>> points;
  double bytes = 4;
  double us = 0;
  for (std::uint32_t i = 1 + random.below(6); i-- > 0;) {
    us = rises ? us + eighths(random, 160) : eighths(random, 400);
    points.emplace_back(bytes, us);
    bytes += 1U << random.below(7);
  }
  if (falls_at_end) points.emplace_back(bytes, us / 2);
  return core::CostCurve::through(points);
}

constexpr const char* kAlgorithms[] = {"ring", "binary_tree", "recursive_doubling"};

enum class NetworkKind : std::uint32_t { affine, no_startup, no_slope, coarse, rising, jagged, falling };
constexpr std::uint32_t kNetworkKinds = 7;

/// Returns a link and, unless `kind` is affine, curves for some or all collectives and algorithms on this
/// number of workers.
inline core::Network small_network(Random& random, NetworkKind kind, std::int64_t workers) {
  if (kind == NetworkKind::no_startup) return link_of(0, eighths(random, 20), eighths(random, 4));
  if (kind == NetworkKind::no_slope) return link_of(eighths(random, 200), 0);
  if (kind == NetworkKind::coarse) return link_of(random.below(4), random.below(2));
  core::Network network = link_of(eighths(random, 100), eighths(random, 20), eighths(random, 4));
  if (kind == NetworkKind::affine || workers == 1) return network;
  const bool each_its_own = random.one_in(3);
  for (const auto collective : {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
                                core::CollectiveKind::all_gather})
    for (const char* algorithm : kAlgorithms) {
      if (random.one_in(5)) continue;
      network.measured.push_back(
          {.collective = collective,
           .workers = workers,
           .curve = random_curve(random, kind == NetworkKind::rising, kind == NetworkKind::falling)});
      if (each_its_own) network.measured.back().algorithm = algorithm;
    }
  return network;
}

/// Like random_conditions(), in numbers that add up exactly.
inline planner::Conditions small_conditions(Random& random) {
  planner::Conditions out;
  if (random.one_in(2)) return out;
  out.read_us = eighths(random, 80);
  out.read_is_overlapped = random.one_in(2);
  if (random.one_in(2)) out.optimizer_us = eighths(random, 200);
  if (random.one_in(2)) out.lars_us = eighths(random, 200);
  out.parallel_tensor_operator = random.one_in(2);
  if (random.one_in(3)) out.stragglers = {{.worker = random.between(0, 3), .slowdown = 1.5}};
  return out;
}

inline planner::CodeCost random_code(Random& random) {
  if (random.one_in(3)) return {};
  return {.startup_us = random.one_in(2) ? 0 : eighths(random, 100),
          .us_per_byte = random.one_in(3) ? 0 : eighths(random, 4),
          .floor_us = random.one_in(2) ? 0 : eighths(random, 200)};
}

/// With a ratio of 0 to 2.
inline planner::Compressor random_compressor(Random& random, std::string name, bool summable) {
  planner::Compressor out = {.name = std::move(name),
                             .ratio = eighths(random, 17),
                             .encode = random_code(random),
                             .decode = random_code(random),
                             .collective = core::CollectiveKind::all_reduce};
  if (!summable && random.one_in(2)) out.collective = core::CollectiveKind::all_gather;
  return out;
}

inline std::string json_of(const planner::CodeCost& cost) {
  if (cost.curve) return planner::code_cost_json(cost).dump();
  return fmt::format(R"({{"startup_us": {}, "us_per_byte": {}, "floor_us": {}}})", cost.startup_us,
                     cost.us_per_byte, cost.floor_us);
}

inline std::string json_of(const planner::Compressor& compressor) {
  if (compressor.is_none()) return R"("none")";
  if (compressor.name == "fp16") return R"("fp16")";
  if (compressor.sparse || compressor.low_rank) return planner::compressor_json(compressor).dump();
  return fmt::format(R"({{"name": "{}", "ratio": {}, "encode": {}, "decode": {}, "collective": "{}"}})",
                     compressor.name, compressor.ratio, json_of(compressor.encode),
                     json_of(compressor.decode), core::name(compressor.collective));
}

/// A scene on 1, 2, 4 or 8 workers, where closed forms have no thirds.
inline std::unique_ptr<Scene> small_scene(Random& random, std::uint32_t max_tensors, NetworkKind kind,
                                          planner::Overlap overlap = {}) {
  const std::int64_t workers = random.one_in(20) ? 1 : std::int64_t{2} << random.below(3);
  core::Profile profile = small_profile(random, max_tensors);
  core::Network network = small_network(random, kind, workers);
  planner::Conditions conditions = small_conditions(random);
  conditions.overlap = overlap;
  return std::make_unique<Scene>(std::move(profile), std::move(network), workers, conditions);
}

/// The transfers of a schedule: its own all-reduce and compressor, and those that groups may choose instead.
struct Offer {
  planner::Compressor compressor;
  bool selective = false;
  std::vector<std::string> algorithms = {};
  std::vector<planner::Compressor> compressors = {};
  std::string constraints = {};  ///< as an object, or empty

  /// Returns each pair once; only the schedule's own compressor is selective.
  std::vector<planner::Transfer> transfers() const {
    std::vector<planner::Transfer> out;
    std::vector<std::string> all_reduces = {"ring"};
    all_reduces.insert(all_reduces.end(), algorithms.begin(), algorithms.end());
    for (const std::string& all_reduce : all_reduces) {
      add({.all_reduce = {.name = all_reduce}, .compressor = compressor, .selective = selective}, out);
      for (const planner::Compressor& other : compressors)
        add({.all_reduce = {.name = all_reduce}, .compressor = other}, out);
    }
    return out;
  }

  std::string json(const PipelineCase& pipeline) const {
    std::string fusion = R"("kind": "optimal")";
    if (!algorithms.empty() || !compressors.empty()) fusion += R"(, "choices": {)" + choices() + "}";
    if (!constraints.empty()) fusion += R"(, "constraints": )" + constraints;
    return fmt::format(R"({{{}, "fusion": {{{}}}, "compression": {}, "selective": {}}})", pipeline.keys(),
                       fusion, json_of(compressor), selective);
  }

 private:
  static void add(const planner::Transfer& transfer, std::vector<planner::Transfer>& out) {
    if (std::find(out.begin(), out.end(), transfer) == out.end()) out.push_back(transfer);
  }

  std::string choices() const {
    std::string out;
    if (!algorithms.empty()) out = fmt::format(R"("all_reduce": ["{}"])", fmt::join(algorithms, R"(", ")"));
    std::vector<std::string> items;
    for (const planner::Compressor& each : compressors) items.push_back(json_of(each));
    if (!items.empty())
      out += fmt::format(R"({}"compression": [{}])", out.empty() ? "" : ", ", fmt::join(items, ", "));
    return out;
  }
};

// ---- the comparison

/// Returns the rules that an offer's constraints give; none without constraints.
inline planner::GroupRules rules_of(const Offer& offer, const planner::Workload& workload) {
  if (offer.constraints.empty()) return {};
  return planner::read_constraints(core::Field::parse(offer.constraints, "c.json"))(workload);
}

/// Converts the transfers in groups of a request to the numbers of the reference.
inline planner::Groups as_referred(planner::Groups groups, const planner::FusionRequest& request,
                                   const Reference& reference) {
  for (planner::Group& group : groups) {
    const auto& transfers = reference.transfers();
    const auto at =
        std::find(transfers.begin(), transfers.end(), request.transfers.at(group.transfer).transfer());
    REQUIRE(at != transfers.end());
    group.transfer = static_cast<std::uint32_t>(at - transfers.begin());
  }
  return groups;
}

/// Checks that planner, simulator and reference give these groups the same value.
inline void check_value(const planner::FusionRequest& request, const Reference& reference,
                        const planner::Groups& groups) {
  CAPTURE(shown(groups));
  const sim::Time value = reference.value(as_referred(groups, request, reference));
  CHECK(planner::simulate_iteration(request, groups) == value);
  CHECK(request.model().value(groups) == value);
}

/// Checks that the planner finds the best of all groupings that `is_allowed` accepts, and proves it.
template <typename IsAllowed>
void check_optimal(const Scene& scene, const PipelineCase& pipeline, const Offer& offer,
                   IsAllowed is_allowed) {
  const std::string json = offer.json(pipeline);
  CAPTURE(json);
  const planner::Schedule schedule = schedule_of(json);
  const planner::FusionRequest request = planner::request_of(scene.setting, schedule);
  const Reference reference(scene, pipeline.name, pipeline.overlap_gather, offer.transfers());
  REQUIRE(request.transfers.size() == reference.transfer_count());

  const planner::OptimalGroups found = request.model().optimal(rules_of(offer, scene.setting.workload));
  CAPTURE(shown(found.groups));
  REQUIRE(covers(found.groups, scene.setting.workload));
  CHECK(is_allowed(found.groups));
  CHECK(rank(found.groups, found.value) == reference.best(is_allowed));
  CHECK(found.optimality_gap == sim::Time::zero());
  CHECK(request.model().lower_bound() <= found.value);
  check_value(request, reference, found.groups);
  const planner::Grouping fused = schedule.fusion.fuse(request);
  CHECK(fused.groups == found.groups);
  CHECK(fused.proof.value().optimality_gap == sim::Time::zero());
}

}  // namespace support
