// Messages on shared links as a fluid: slow, but obviously correct, to compare cluster::Messages with.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cluster/links.hpp"
#include "sim/cluster/pattern.hpp"
#include "sim/cluster/topology.hpp"
#include "tests/sim/cluster/fluid.hpp"

namespace cluster {

/// Collectives on a topology, each with its own start times.
struct Case {
  Topology topology;
  Links links;
  std::vector<std::shared_ptr<const Pattern>> patterns;
  std::vector<std::vector<sim::Time>> starts;  // indexed by collective and rank
};
/// The factor on a message's time: the sender's slowdown x random factor.
inline double factor_of(const Links& links, const MessageKey& key) {
  Links alone = links;
  alone.levels = {{.ranks = 1U << 20U, .link = {1e6, 0}}};
  return sim::to_us(message_time(alone, key, key.from, 0)) / 1e6;
}

/// Fluid simulation in real numbers: everything is recomputed at every event.
class Fluid {
 public:
  static constexpr double kUsPerPs = 1e-6;

  explicit Fluid(const Case& of) : case_(of) {
    for (std::size_t i = 0; i < of.patterns.size(); ++i)
      for (std::uint32_t r = 0; r < of.topology.ranks; ++r)
        ranks_.push_back(
            {.collective = i, .rank = r, .begins = static_cast<Real>(of.starts[i][r].count()) * kUsPerPs});
  }

  /// Returns when each rank leaves each collective, in us.
  std::vector<Real> run() {
    while (settle()) share_and_step();
    std::vector<Real> out;
    for (const Rank& rank : ranks_) out.push_back(rank.begins);
    return out;
  }

 private:
  struct Rank {
    std::size_t collective = 0;
    std::uint32_t rank = 0;
    Real begins = 0;  // its round
    std::uint32_t round = 0;
    bool is_sent = false;         // has begun to send
    std::vector<Real> arrived{};  // end of what it sends, indexed by round; -1: not yet
  };
  struct Flow : FluidFlow {
    std::size_t sender = 0;  // in ranks_
  };

  const Rank& other(const Rank& rank, std::uint32_t number) const {
    return ranks_[rank.collective * case_.topology.ranks + number];
  }

  /// Handles everything that takes no time or whose end is known. Returns whether anything flows.
  bool settle() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < ranks_.size(); ++i) again = advance(i) || again;
    }
    return !flows_.empty();
  }

  bool advance(std::size_t i) {
    Rank& rank = ranks_[i];
    const Pattern& pattern = *case_.patterns[rank.collective];
    if (rank.round == pattern.rounds()) return false;
    const Exchange exchange = pattern.exchange(rank.rank, rank.round);
    bool changed = false;
    if (!rank.is_sent) {
      rank.is_sent = true;
      rank.arrived.push_back(exchange.to == Exchange::kNobody ? rank.begins : -1);
      if (exchange.to != Exchange::kNobody) send(i, exchange);
      changed = true;
    }
    Real leaves = rank.arrived[rank.round];
    if (leaves < 0) return changed;
    if (exchange.from != Exchange::kNobody) {
      const Rank& sender = other(rank, exchange.from);
      if (sender.arrived.size() <= rank.round || sender.arrived[rank.round] < 0) return changed;
      leaves = std::max(leaves, sender.arrived[rank.round]);
      if (exchange.sums) leaves += static_cast<Real>(exchange.bytes_in) * case_.links.sum_us_per_byte;
    }
    rank.begins = leaves;
    ++rank.round;
    rank.is_sent = false;
    return true;
  }

  void send(std::size_t i, const Exchange& exchange) {
    const Rank& rank = ranks_[i];
    const Route route = case_.topology.route(rank.rank, exchange.to);
    const Real factor = factor_of(case_.links, {rank.collective, rank.round, rank.rank});
    Flow flow;
    flow.sender = i;
    flow.joins = rank.begins + factor * (case_.topology.spec.startup_us + route.latency_us);
    flow.bytes = factor * static_cast<Real>(exchange.bytes_out);
    for (const std::uint32_t link : route.links)
      if (case_.topology.links[link].us_per_byte > 0) flow.links.push_back(link);
    if (flow.bytes == 0 || flow.links.empty())
      ranks_[i].arrived[rank.round] = flow.joins;
    else
      flows_.push_back(flow);
  }

  void share_and_step() {
    now_ = fluid_step(case_.topology, flows_, now_);
    for (std::size_t i = flows_.size(); i-- > 0;)
      if (flows_[i].has_ended(now_)) {
        Rank& sender = ranks_[flows_[i].sender];
        sender.arrived[sender.round] = now_;
        flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(i));
      }
  }

  const Case& case_;
  Real now_ = 0;
  std::vector<Rank> ranks_;
  std::vector<Flow> flows_;
};

}  // namespace cluster
