// Finds the bandwidths at which a candidate pays.

#pragma once

#include <map>
#include <memory>

#include "core/network.hpp"
#include "planner/advise/consider/candidates.hpp"

namespace planner::considered {

/// A setting on another network, with the best uncompressed plan there.
struct Elsewhere {
  core::Network network;
  Setting setting;
  Planned dense;

  Elsewhere(const Setting& like, double bandwidth, const Schedule& dense_schedule);
};

/// The setting with its bandwidth scaled by a factor; each scaled setting is built once and cached.
class Bandwidths {
 public:
  Bandwidths(const Setting& setting, const Schedule& dense) : setting_(setting), dense_(dense) {}

  const Schedule& dense() const { return dense_; }

  /// Throws Unsupported if a time exceeds what can be simulated.
  const Elsewhere& at(double bandwidth) {
    std::unique_ptr<Elsewhere>& known = made_[bandwidth];
    if (!known) known = std::make_unique<Elsewhere>(setting_, bandwidth, dense_);
    return *known;
  }

 private:
  const Setting& setting_;
  const Schedule& dense_;
  std::map<double, std::unique_ptr<Elsewhere>> made_;
};

/// Evaluates every doubling of the bandwidth, then bisects between neighbours that differ. `extra` is the
/// factor by which the number of iterations grows.
BreakEven break_even(Bandwidths& bandwidths, const Candidate& candidate, double extra);

}  // namespace planner::considered
