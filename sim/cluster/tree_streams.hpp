// Simulates the double binary tree message by message: each edge carries a stream up and one down. See
// Messages for the rules, which are those of run_steps() if no links are shared.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/flows.hpp"
#include "sim/cluster/links.hpp"
#include "sim/cluster/patterns/trees.hpp"
#include "sim/cluster/tree_edges.hpp"
#include "sim/time.hpp"

namespace cluster {

/// One run of the collective. The times of a rank's first and last bytes are computed as soon as all their
/// inputs are known, which is never later than the time itself. Events are the start of a flow on shared
/// links, the last bytes of each message, and ranks that leave.
class TreeStreams {
 public:
  /// Number of consecutive queue slots that it uses. The first `ranks` are also those at which ranks leave.
  static std::uint32_t slots(std::uint32_t ranks) { return 4 * ranks; }

  /// The queue (slots from `first_slot` on) and the flows that it uses. No flows: every message is alone on
  /// its link.
  struct Net {
    EventQueue& queue;
    Flows* flows = nullptr;
    std::uint32_t first_slot = 0;
  };

  /// `draws_from`: collective_bits() of the run.
  TreeStreams(std::shared_ptr<const DoubleBinaryTree> trees, const Links& links, std::uint64_t draws_from,
              const Flows* flows);

  /// To be called once for each rank, at a time that is not in the past.
  void enter(const Net& net, std::uint32_t rank, sim::Time at);

  enum class Event : std::uint8_t { none, arrived, left };
  /// Handles the event at `place` among its slots: a message has arrived, a rank leaves, or neither.
  Event handle_event(const Net& net, std::uint32_t place, sim::Time now);

  /// The rank whose entry decided when `rank` leaves, once that is known.
  std::uint32_t origin(std::uint32_t rank) const { return ranks_[rank].leaves.origin; }

  struct Wait {
    std::uint32_t round = 0;  ///< the round in the key of its random factor
    std::uint32_t from = 0;
  };
  /// The message for which a rank waits, if it is inside and has no message in flight, neither its own nor
  /// one for it.
  std::optional<Wait> waits(std::uint32_t rank) const;

 private:
  /// A time, and the rank whose entry decided it.
  struct DecidedTime {
    sim::Time at{};
    std::uint32_t origin = 0;

    DecidedTime operator+(sim::Time more) const { return {.at = sim::after(at, more), .origin = origin}; }
  };
  static const DecidedTime& later(const DecidedTime& a, const DecidedTime& b) { return a.at < b.at ? b : a; }

  /// The times of a rank in one direction of one tree.
  struct Point {
    DecidedTime head;    // of the first bytes; the latest of those known
    DecidedTime tail;    // of the last bytes; the latest of those known
    DecidedTime bodies;  // when the last bytes had flowed in
    double port_us = 0;  // minimum time from the head to the tail, or from the last flow if there are flows
    std::uint8_t heads_missing = 0;
    std::uint8_t tails_missing = 0;
  };
  enum class State : std::uint8_t { flowing, flowed, arrived };
  /// The stream from a rank to its parent, or the other way.
  struct Stream {
    sim::Time first{};                              // alpha, or startup and latency
    DecidedTime tail = {.at = EventQueue::kNever};  // tail of the sender + first
    Factors factors{};
    State state = State::flowed;
  };
  struct Rank {
    DecidedTime leaves;
    std::uint8_t halves_missing = 2;  // its own and its children's
    bool is_inside = false;
  };

  std::uint32_t index(const TreePlace& place) const {
    return (2 * place.tree + (place.is_up ? 1 : 0)) * trees_->ranks() + place.rank;
  }
  TreePlace place_of(std::uint32_t index) const;
  Point& point(const TreePlace& place) { return points_[index(place)]; }
  Stream& stream(const TreePlace& place) { return streams_[index(place)]; }
  std::uint32_t parent(const TreePlace& place) const {
    return trees_->trees()[place.tree].parent[place.rank];
  }
  bool has_begun(const TreePlace& stream) const { return points_[index(stream)].heads_missing == 0; }

  void find_children();
  void find_costs(const Links& links, std::uint64_t draws_from, const Flows* flows);
  template <typename Do>
  void each_child(std::uint32_t tree, std::uint32_t rank, const Do& act) const;
  TreePlace receiver(const TreePlace& stream) const;
  const DecidedTime& sender_head(const TreePlace& stream) const;
  void receive_head(const Net& net, const TreePlace& place, const DecidedTime& when);
  void pass_head(const Net& net, const TreePlace& place);
  void send_head(const Net& net, const TreePlace& edge, const DecidedTime& when);
  void receive_tail(const Net& net, const TreePlace& place, const DecidedTime& when);
  void pass_tail(const Net& net, const TreePlace& place);
  void send_tail(const Net& net, const TreePlace& edge, const DecidedTime& when);
  void finish_half(const Net& net, std::uint32_t rank, const DecidedTime& when);

  std::shared_ptr<const DoubleBinaryTree> trees_;
  std::vector<std::array<std::uint32_t, 2>> children_;  // indexed by tree and rank; kRoot: none
  std::vector<Point> points_;                           // indexed like the slots
  std::vector<Stream> streams_;                         // indexed like the slots
  std::vector<Rank> ranks_;
};

}  // namespace cluster
