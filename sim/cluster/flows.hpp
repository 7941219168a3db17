// Messages in flight on a topology: the bandwidth that each gets of the links that it shares with others.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/topology.hpp"
#include "sim/time.hpp"

namespace cluster {

/// Factors by which a message's time is multiplied, one after the other. Its links carry it like a message
/// with that many times its bytes.
struct Factors {
  double slowdown = 1;
  double draw = 1;
};

/// Holds at most one message per slot of an event queue. Startup and latency pass first, then the bytes flow
/// at the max-min fair share: no message can get more without taking from one that has no more than it. A
/// message that always gets its full speed ends exactly when it would end alone, rounded once.
///
/// The start of the flow is an event only where links may be full. As long as the flows of a link together
/// want no more than it can carry, a message joins them as soon as it begins, which changes no share, and its
/// only event is its end. When another flow makes such a link full, those whose bytes do not flow yet leave
/// the link again, and wait for the event.
///
/// A message that is alone on its links owns them: they are not touched again before another message comes,
/// so that messages which share nothing are simulated about as fast as without a topology.
class Flows {
 public:
  explicit Flows(Topology topology);

  void grow(std::size_t slots) { flows_.resize(slots); }
  const Topology& topology() const { return topology_; }

  /// Returns the time of the message's first event.
  sim::Time begin(std::uint32_t slot, std::pair<std::uint32_t, std::uint32_t> ranks, std::int64_t bytes,
                  const Factors& factors, sim::Time at);
  /// Handles the event of a message, which stands first in the queue. Returns whether the message has ended;
  /// otherwise its bytes begin to flow, and the queue knows its next event.
  bool handle_event(std::uint32_t slot, EventQueue& queue);

  bool settled() const { return dirty_.empty(); }
  /// Shares the links again after all messages that began or ended at `now`, and moves their ends in the
  /// queue.
  void settle(sim::Time now, EventQueue& queue);

  /// Returns the bytes per microsecond on a link at `now`, after settle(). A message counts as its bytes x
  /// factors.
  double carried(std::uint32_t link, sim::Time now) const;

  /// Indexed by link: the time that everything carried so far would take at full speed. A message counts as
  /// its bytes x factors.
  std::vector<double> busy_us() const;

 private:
  /// Relative rounding error allowed in sums of capacities.
  static constexpr double kSlack = 1e-9;

  struct Hop {
    std::uint32_t link = 0;
    std::uint32_t index = 0;  // position of the flow in the link's list
    double us_per_byte = 0;
    double busy_us = 0;  // of the link, while the flow owns it
  };
  /// What each message touches comes first, in one cache line.
  struct alignas(64) Flow {
    std::uint32_t from = UINT32_MAX;
    std::uint32_t to = UINT32_MAX;
    double latency_us = 0;
    double us_per_byte = 0;
    double bytes = 0;  // bytes x factors
    sim::Time since{};
    double left_us = 0;    // remaining time at `since`, at the speed when alone
    double before_us = 0;  // how much of it passes before the bytes flow
    bool in_flight = false;
    bool waits = false;  // its next event is the start of the flow
    bool owns = false;   // its links know it, and no other flow
    std::uint32_t seen = 0;
    bool shared = false;    // has received its share in this settle()
    std::vector<Hop> hops;  // the route from `from` to `to`, without links of unlimited bandwidth
    double alone = 0;       // speed when alone in bytes per us: 1 / us_per_byte
    double speed = 1;       // as a fraction of `alone`

    sim::Time flows_from() const { return sim::after(since, before_us); }
  };
  struct Member {
    std::uint32_t slot = 0;
    std::uint32_t hop = 0;  // position of the link among the flow's hops
  };
  /// What each message that begins or ends on a shared link touches, in one cache line.
  struct alignas(64) Carrier {
    double capacity = 0;  // in bytes per us
    double wanted = 0;    // sum of its flows' speeds when alone
    double us_per_byte = 0;
    double busy_us = 0;  // the time that everything carried so far would take at full speed
    std::uint32_t count = 0;
    Member first;  // the others follow it
    std::vector<Member> others;

    bool is_narrow() const { return is_narrow_for(wanted); }
    bool is_narrow_for(double rate) const { return rate > capacity * (1 + kSlack); }
    Member& at(std::uint32_t index) { return index == 0 ? first : others[index - 1]; }
    void add(const Member& member);
    /// The last one takes the place of the one that is removed, and is returned.
    Member remove(std::uint32_t index);
  };
  /// What only settle() needs of a link.
  struct Sharing {
    std::uint32_t seen = 0;
    std::uint32_t unshared = 0;  // number of flows without a share
    double left = 0;             // capacity left for flows without a share
    bool is_dirty = false;
  };
  struct Share {
    double rate = 0;
    std::uint32_t link = 0;
  };

  void find_route(std::uint32_t slot, std::uint32_t from, std::uint32_t to);
  void disown(std::uint32_t slot);
  void disown_links_of(const Flow& flow);
  bool fits(const Flow& flow) const;
  void join(std::uint32_t slot);
  void leave(std::uint32_t slot);
  void end(std::uint32_t slot);
  void make_early_wait(std::uint32_t link, sim::Time now, EventQueue& queue);
  void mark(std::uint32_t link);
  void find_component();
  void add_flows_of(std::uint32_t link);
  template <typename Visit>
  void each_member(std::uint32_t link, const Visit& visit) const;
  void fill(sim::Time now, EventQueue& queue);
  std::uint32_t narrowest(double min);
  void give(std::uint32_t slot, double rate, sim::Time now, EventQueue& queue);
  static void change(Flow& flow, double speed, sim::Time now);

  Topology topology_;
  std::vector<Flow> flows_;        // indexed by slot
  std::vector<Carrier> carriers_;  // indexed by link
  std::vector<Sharing> sharings_;  // indexed by link
  std::vector<std::uint32_t> dirty_;
  // Scratch data of settle(), kept to avoid allocations.
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> component_;  // slots
  std::vector<std::uint32_t> narrow_;     // links
  std::vector<Share> shares_;             // a min-heap; some entries are out of date
};

}  // namespace cluster
