// Decides whether compressing gradients pays on a network and a number of workers. Each compressor is planned
// with its best groups and weighed by the additional iterations that it needs; break-even bandwidths are
// reported too.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/compressor.hpp"
#include "planner/cost/setting.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

/// The factor by which a compressor multiplies the number of iterations to the same loss.
struct ExtraIterations {
  std::string compressor;
  std::optional<double> density;  ///< applies to this share of elements; if absent, to every density not
                                  ///< listed
  double factor = 1;
};

/// Limits, in search steps, of the exact search for groups that may be compressed or not: beyond `some` steps
/// it plans only compressors that may be the best; beyond `max`, none.
struct ChoiceEffort {
  double some = 1e6;
  double max = 1.5e7;  ///< takes some seconds
};

struct ConsiderOptions {
  /// Shares of the elements that sparse compressors keep; each is above 0 and at most 1.
  std::vector<double> densities = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1};
  std::vector<ExtraIterations> extra = {};
  /// Compressors to consider in addition to the built-in ones and the sparse all-reduces. Entries that
  /// compress nothing or equal a built-in one are skipped.
  std::vector<Compressor> offered = {};
  ChoiceEffort effort = {};
  /// Called before each compressor, and before the best choices for each group; `total` is how often.
  std::function<void(std::size_t total, const std::string& what)> progress = {};
};

/// A range of bandwidths, as factors of the network's own bandwidth.
struct BandwidthRange {
  double from = 1;
  double to = 1;
};

/// The range of bandwidths that is searched for break-even points.
constexpr BandwidthRange kBandwidths = {.from = 1.0 / 64, .to = 64};

/// A compressor with its best groups.
struct Candidate {
  std::string compressor = "none";
  std::optional<double> density;     ///< share of elements that a sparse compressor keeps
  bool is_per_group = false;         ///< a group may also be sent uncompressed
  Schedule schedule;                 ///< the schedule with these groups
  std::int64_t groups = 0;           ///< number of groups
  std::int64_t encoded_groups = 0;   ///< number of compressed groups
  double optimality_gap_us = 0;      ///< above 0: other groups may be better by at most this time
  double iteration_us = 0;           ///< mean, including the input's maximum
  double extra_iterations = 1;       ///< 1 if no group is encoded
  double weighed_us = 0;             ///< iteration times extra iterations
  double bytes_sent_per_worker = 0;  ///< per iteration, mean over workers
};

/// Bandwidths at which a compressor, at its best density here, reaches the same loss in less time than the
/// best uncompressed plan on the same network. If groups may be sent uncompressed, a heuristic search chooses
/// them.
struct BreakEven {
  std::string compressor;
  std::optional<double> density;
  bool is_per_group = false;
  /// Ascending, disjoint ranges; each end is exact to 2e-4. The search stops at the ends of kBandwidths.
  std::vector<BandwidthRange> pays;
  double looked_from = kBandwidths.from;  ///< above kBandwidths.from if slower networks exceed the time that
                                          ///< can be simulated

  bool never() const { return pays.empty(); }
  bool always() const {
    return pays.size() == 1 && pays[0].from <= looked_from && pays[0].to >= kBandwidths.to;
  }
  /// Whether the compressor pays below one bandwidth and never above it.
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
  /// The uncompressed candidate first, then each compressor and sparse all-reduce at each density, and at its
  /// best density per group. The schedule's optimal fusion chooses the groups. Optimal per-group choices are
  /// slow to find when compute and channel are equally busy; if there are many, only the most promising are
  /// planned optimally, and the others use the uncompressed or the fully compressed groups.
  std::vector<Candidate> candidates;
  std::size_t best = 0;  ///< index into candidates; 0 unless another is faster by more than one millionth
  /// One entry per compressor that encodes all groups, in the order of candidates; then one for the best
  /// candidate if it chooses per group.
  std::vector<BreakEven> break_even;
  std::vector<LeftOut> left_out;        ///< each compressor once
  std::vector<std::string> unweighed;   ///< compressors without ExtraIterations
  std::vector<std::string> taken_away;  ///< conditions of the scenario that are ignored
  std::vector<Warning> warnings;        ///< about the costs of the best and of the uncompressed candidate

  bool pays() const { return best > 0; }
};

/// Parses `NAME=FACTOR` or `NAME@DENSITY=FACTOR`, where NAME is one of `known`; throws InputError.
ExtraIterations read_extra_iterations(std::string_view text, const std::vector<std::string>& known);

/// The names that extra iterations can be given for: built-in compressors, sparse all-reduces and the offered
/// compressors.
std::vector<std::string> considered_names(std::span<const Compressor> offered);

/// Uses the pipeline, options, collectives and optimal-fusion constraints of the schedule, but not its
/// compressor. Jitter, failures and fidelities other than `closed` are ignored. Throws Unsupported if
/// uncompressed gradients cannot be simulated, and InputError if extra iterations name a density that is not
/// considered.
Consideration consider(const Setting& setting, const Schedule& schedule, const ConsiderOptions& options = {});

/// The conclusion in one phrase, such as "fp16 pays: 38.9 % less time to the same loss than no compression"
/// or "nothing pays".
std::string answer(const Consideration& all);

std::string consideration_text(const Consideration& all, std::size_t width = 0);
std::string consideration_json(const Consideration& all);

}  // namespace planner
