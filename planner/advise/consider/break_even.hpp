// At which bandwidths a candidate pays.

#pragma once

#include <map>
#include <memory>

#include "core/network.hpp"
#include "planner/advise/consider/candidates.hpp"

namespace planner::considered {

/// A setting on another network, and the best plan there without compression.
struct Elsewhere {
  core::Network network;
  Setting setting;
  Planned dense;

  Elsewhere(const Setting& like, double bandwidth, const Schedule& dense_schedule);
};

/// The setting on networks so many times as fast per byte, each made once.
class Bandwidths {
 public:
  Bandwidths(const Setting& setting, const Schedule& dense) : setting_(setting), dense_(dense) {}

  const Schedule& dense() const { return dense_; }

  /// Throws Unsupported where times are longer than can be simulated.
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

/// Looks at every doubling of the bandwidth, then for the edges between those that differ. `extra`: times as
/// many iterations.
BreakEven break_even(Bandwidths& bandwidths, const Candidate& candidate, double extra);

}  // namespace planner::considered
