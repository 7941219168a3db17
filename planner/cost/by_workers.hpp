// How the time of a collective depends on the number of workers: startups, and passes of the message over the
// link. docs/networks.md has the formulas and their errors.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/network.hpp"
#include "planner/cost/collectives.hpp"

namespace planner {

/// Curves of one collective on several numbers of workers, in increasing order, each at least 2.
struct MeasuredOn {
  std::int64_t workers = 2;
  const core::CostCurve* curve = nullptr;
  bool is_stated = false;  ///< whether the measurement says by which algorithm it was made
};

/// Their numbers of workers.
std::vector<std::int64_t> workers_of(const std::vector<MeasuredOn>& measured);

/// What an algorithm pays on a number of workers: startups in multiples of those of two workers, and passes
/// of the message over the link.
struct Factors {
  double startups = 1;
  double passes = 1;
};

/// The factors of an algorithm; those of a ring for one that is defined on levels only.
Factors factors(const Algorithm& algorithm, std::int64_t workers);

/// How startups grow with the workers. A library that is free to choose sums small messages of many workers
/// along trees.
enum class Growth {
  algorithm,  ///< by the algorithm's number of startups
  library,    ///< a ring's up to 8 workers; beyond them each doubling adds what that from 4 to 8 does
  logarithm   ///< each doubling adds as much
};

/// The number of startups on these workers, in multiples of those of two.
double startups(Growth growth, const Algorithm& algorithm, std::int64_t workers);

/// A startup is fixed + a part for each of the algorithm's startups. Only the ratio of the two is needed.
struct StartupShare {
  Growth growth = Growth::algorithm;
  double fixed = 0;
  double each = 1;
  /// Whether a startup is paid in full by messages of any size, as on a link with alpha and beta.
  bool adds = false;
  /// What a worker copies for itself while it receives the others' parts, as a part of one of these.
  double copied = 0;

  double at(const Algorithm& algorithm, std::int64_t workers) const {
    return fixed + each * startups(growth, algorithm, workers);
  }
};

/// The curve nearest to a number of workers, and the one by which to tell how times change with the workers:
/// that on the other side, or the next nearest.
struct Neighbours {
  MeasuredOn near;
  std::optional<MeasuredOn> far;
};

Neighbours neighbours(const std::vector<MeasuredOn>& measured, std::int64_t workers);

/// Distance between two numbers of workers: the logarithm of their ratio.
double distance(std::int64_t a, std::int64_t b);

/// How startups grow, and with one number of workers what is fixed of them: as on machines that were
/// measured. An all-reduce whose algorithm is not stated is a library's, unless its curves say otherwise:
/// three startups tell how they grow, and two curves whether each is a link with alpha and beta.
StartupShare startup_share(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                           const Algorithm& algorithm, core::CollectiveKind kind);

/// The time of a message on `workers` by one curve alone. Large messages grow with the passes, which keeps
/// the bus bandwidth; the share of the time that is startup grows with the startups. Squared, because a
/// startup overlaps with the first bytes of a longer message. No message takes less than the startup alone,
/// which with many more workers the square would let it.
class ScaledCurve {
 public:
  ScaledCurve(const MeasuredOn& from, std::int64_t workers, const Algorithm& algorithm,
              const StartupShare& share);
  double us(double bytes) const;

 private:
  const core::CostCurve* curve_;
  double startup_us_;
  double by_passes_;
  double by_startups_;
  bool adds_;
};

}  // namespace planner
