// Whether compressing gradients pays on a network and a number of workers: every compressor with the best
// groups it can have, weighed by the iterations it needs more, and the bandwidths at which it pays.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/compressor.hpp"
#include "planner/cost/setting.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

/// How many times as many iterations a compressor needs to the same loss.
struct ExtraIterations {
  std::string compressor;
  std::optional<double> density;  ///< where it keeps this share of the elements; none: wherever not said
  double factor = 1;
};

/// How long to look for the best groups that may travel compressed or not, in steps of the search: after
/// `some` only compressors that may be the best are still planned exactly, after `most` none.
struct ChoiceEffort {
  double some = 1e6;
  double max = 1.5e7;  ///< seconds
};

struct ConsiderOptions {
  /// Shares of the elements that sparse compressors keep, each over 0 and at most 1.
  std::vector<double> densities = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1};
  std::vector<ExtraIterations> extra = {};
  /// Besides the built-in ones and the sparse all-reduces, as they are; those that are none or equal to a
  /// built-in are passed over.
  std::vector<Compressor> offered = {};
  ChoiceEffort effort = {};
};

/// Bandwidths as factors of what the network has.
struct BandwidthRange {
  double from = 1;
  double to = 1;
};

/// The bandwidths that are looked at.
constexpr BandwidthRange kBandwidths = {.from = 1.0 / 64, .to = 64};

/// A compressor with its best groups.
struct Candidate {
  std::string compressor = "none";
  std::optional<double> density;     ///< of a sparse one
  bool is_per_group = false;         ///< a group may also travel uncompressed
  Schedule schedule;                 ///< that has these groups
  std::int64_t groups = 0;           ///< of them all
  std::int64_t encoded_groups = 0;   ///< of those that are compressed
  double optimality_gap_us = 0;       ///< above 0: other groups may be better by so much
  double iteration_us = 0;           ///< mean, the input's max included
  double extra_iterations = 1;       ///< 1 where nothing is encoded
  double weighed_us = 0;             ///< iteration times extra iterations
  double bytes_sent_per_worker = 0;  ///< in an iteration, mean over workers
};

/// Where a compressor, at its best density here, takes less time to the same loss than the best plan
/// without it on the same network; with groups that may travel uncompressed, by the best that a quick look
/// finds.
struct BreakEven {
  std::string compressor;
  std::optional<double> density;
  bool is_per_group = false;
  /// Growing and apart, each end to 2e-4; ends at those of kBandwidths have not been looked beyond.
  std::vector<BandwidthRange> pays;
  double looked_from = kBandwidths.from;  ///< more where slower networks take longer than can be simulated

  bool never() const { return pays.empty(); }
  bool always() const {
    return pays.size() == 1 && pays[0].from <= looked_from && pays[0].to >= kBandwidths.to;
  }
  /// Whether it pays below one bandwidth and not above it.
  bool is_monotone() const { return pays.empty() || (pays.size() == 1 && pays.front().from <= looked_from); }
};

struct LeftOut {
  std::string compressor;
  std::string why;
};

struct Consideration {
  std::string model;
  std::int64_t workers = 0;
  std::string network;
  std::optional<double> line_rate_gbps;
  std::string pipeline;
  /// None first; each compressor and sparse all-reduce at each density and, at its best one, per group. The
  /// schedule's optimal fusion made the groups; but those per group are slow to find where compute and
  /// channel are about as busy, so that of many only the most promising are planned so, and the others with
  /// the groups of none or of all compressed.
  std::vector<Candidate> candidates;
  std::size_t best = 0;  ///< of them; 0 unless another is sooner by a millionth
  /// Of each compressor of all groups, in the order of candidates, and then of the best if it is per group.
  std::vector<BreakEven> break_even;
  std::vector<LeftOut> left_out;        ///< compressors, each once
  std::vector<std::string> unweighed;   ///< compressors without ExtraIterations
  std::vector<std::string> taken_away;  ///< conditions of the scenario that are not looked at
  std::vector<Warning> warnings;        ///< about the costs of the best and of none

  bool pays() const { return best > 0; }
};

/// `NAME=FACTOR` or `NAME@DENSITY=FACTOR`, of one of `known`; throws InputError.
ExtraIterations read_extra_iterations(std::string_view text, const std::vector<std::string>& known);

/// The names that extra iterations may be given for: the built-in compressors, the sparse all-reduces and the
/// offered ones.
std::vector<std::string> considered_names(std::span<const Compressor> offered);

/// Pipeline, options, collectives and constraints of optimal fusion are the schedule's, its compressor is
/// not. Jitter, failures and other fidelities than closed are left out. Throws Unsupported where even the
/// uncompressed gradients have none, and InputError where extra iterations are given for a density that is
/// not looked at.
Consideration consider(const Setting& setting, const Schedule& schedule, const ConsiderOptions& options = {});

/// "fp16 pays: 38.9 % less time to the same loss than no compression", or "nothing pays".
std::string answer(const Consideration& all);

std::string consideration_text(const Consideration& all);
std::string consideration_json(const Consideration& all);

}  // namespace planner
