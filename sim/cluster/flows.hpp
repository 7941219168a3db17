// Messages in flight on a topology: what each gets of the links that it shares with others.

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/topology.hpp"
#include "sim/time.hpp"

namespace cluster {

/// What a message's time is multiplied with, one after the other: its links carry it as a message of so many
/// times its bytes.
struct Factors {
  double slowdown = 1;
  double draw = 1;
};

/// At most one message for each slot of an event queue. Startup and latency pass first, then the bytes flow
/// at the max-min fair share: no message can get more but at the cost of one that has no more than it. A
/// message that gets all it can take from first to last ends at the time of it alone, rounded once.
class Flows {
 public:
  explicit Flows(Topology topology);

  void grow(std::size_t slots) { flows_.resize(slots); }
  const Topology& topology() const { return topology_; }

  struct Begun {
    sim::Time at;
    bool joins = false;  ///< at `at` its bytes begin to flow; else it ends then, having met no link
  };
  Begun begin(std::uint32_t slot, std::pair<std::uint32_t, std::uint32_t> transfer, std::int64_t bytes,
              const Factors& factors, sim::Time at);
  /// Its bytes begin to flow. Returns when they end, unless settle() changes it.
  sim::Time join(std::uint32_t slot);
  /// It has ended; nothing to do where it has not joined.
  void leave(std::uint32_t slot);

  bool settled() const { return dirty_.empty(); }
  /// Shares the links anew after all that began and ended at `now`; moves the ends in the queue.
  void settle(sim::Time now, EventQueue& queue);

  /// Bytes per microsecond on a link, since the last settle(). A message counts as its bytes x factors.
  double carried(std::uint32_t link) const;

  /// By link: how long what it has carried to the end would have taken it at full speed. A message counts as
  /// its bytes x factors.
  std::span<const double> busy_us() const { return busy_us_; }

 private:
  struct Hop {
    std::uint32_t link = 0;
    std::uint32_t index = 0;  // of the flow among the link's
  };
  struct Flow {
    std::uint32_t from = UINT32_MAX;
    std::uint32_t to = UINT32_MAX;
    std::vector<Hop> hops;  // of the way from `from` to `to`, links that are never in the way left out
    double latency_us = 0;
    double us_per_byte = 0;
    double alone = 0;  // bytes per us: 1 / us_per_byte
    sim::Time since{};
    double left_us = 0;  // at `since`, of the time alone
    double bytes = 0;    // x factors
    double speed = 1;    // of what it has alone
    std::uint32_t seen = 0;
    bool flows = false;   // between join() and leave()
    bool shared = false;  // has its share of this settle()
  };
  struct Member {
    std::uint32_t slot = 0;
    std::uint32_t hop = 0;  // that the link is of the flow's
  };
  struct Carrier {
    double capacity = 0;  // bytes per us
    double wanted = 0;    // by its flows, each as if alone
    std::vector<Member> flows;
    std::uint32_t seen = 0;
    bool is_dirty = false;
    double left = 0;             // of the capacity, for flows without a share
    std::uint32_t unshared = 0;  // flows without one
  };
  struct Share {
    double rate = 0;
    std::uint32_t link = 0;
  };

  void find_transfer(Flow& flow, std::uint32_t from, std::uint32_t to) const;
  void mark(std::uint32_t link);
  void find_component();
  void add_flows_of(const Carrier& carrier);
  void fill(sim::Time now, EventQueue& queue);
  std::uint32_t narrowest(double min);
  void give(std::uint32_t slot, double rate, sim::Time now, EventQueue& queue);
  static void change(Flow& flow, double speed, sim::Time now);

  Topology topology_;
  std::vector<Flow> flows_;        // by slot
  std::vector<Carrier> carriers_;  // by link
  std::vector<double> busy_us_;    // by link
  std::vector<std::uint32_t> dirty_;
  // of a settle(), kept for their room
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> component_;  // slots
  std::vector<std::uint32_t> narrow_;     // links
  std::vector<Share> shares_;             // a heap, the least first; some are out of date
};

}  // namespace cluster
