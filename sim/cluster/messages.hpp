// Collectives message by message: every message is an event, so those of different collectives, and those
// that share links, meet as they would. Runs beside another simulation (of what the ranks compute), step by
// step.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/cluster/event_queue.hpp"
#include "sim/cluster/flows.hpp"
#include "sim/cluster/links.hpp"
#include "sim/cluster/pattern.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/topology.hpp"
#include "sim/cluster/tree_streams.hpp"
#include "sim/time.hpp"

namespace cluster {

/// A rank begins a round by sending its message, which takes its link until it has arrived, whether or not
/// the receiver has come so far; it leaves the round when its own message and the one that it gets have
/// arrived and what came in is summed up. Only messages in flight, and which ones came early, are kept.
///
/// Through a double binary tree bytes stream. Without a topology heads and tails are those of run_steps().
/// With one, each edge, up and down, is a message that is sent when its sender has its head, and what comes
/// in at a rank is shared by the links alone: tail = max(own start, senders' tails + startup and latency,
/// head or the last byte that has flowed in, whichever is later, + what is summed x gamma).
class Messages {
 public:
  /// Without a topology a message takes message_time(), whatever others do. With one, startup, latency and
  /// bandwidth are the topology's, and links.levels are not looked at; slowdown, draws and summing are as
  /// without.
  /// `tracks_origins`: Left says whose entry decided, for 4 bytes more for each rank in a collective.
  Messages(Links links, std::optional<Topology> topology, bool tracks_origins = false);

  /// One run of a collective. `key`, unique among them, is what its draws are made from.
  std::uint32_t add(std::shared_ptr<const Pattern> pattern, std::uint64_t key);
  std::uint32_t add(cluster::Collective how, std::uint64_t key);

  /// A rank begins a collective, once, at now() or later. Ranks may be in several at once.
  void enter(std::uint32_t collective, std::uint32_t rank, sim::Time at);

  struct Left {
    std::uint32_t collective = 0;
    std::uint32_t rank = 0;
    sim::Time at{};
    /// Who would have had to enter sooner, other collectives aside; where that is tracked.
    std::uint32_t origin = Exchange::kNobody;
    bool operator==(const Left&) const = default;
  };
  /// Runs up to the next rank that leaves a collective, at `until` at the latest. Nobody has: now() is
  /// `until` and all that happens by then has happened; until == sim::Time::max() runs until nothing is
  /// pending and leaves now() at the last event. Who leaves at the same time comes in an order that is always
  /// the same.
  std::optional<Left> next(sim::Time until);

  sim::Time now() const { return now_; }
  /// Of the next event, whether or not a rank leaves then. None: whoever is inside waits for ranks that have
  /// not entered, or for ever.
  std::optional<sim::Time> next_time();

  /// A rank with nothing in flight that waits for a message; in a double binary tree with nothing in flight
  /// for it, either.
  struct Waiting {
    std::uint32_t collective = 0;
    std::uint32_t rank = 0;
    std::uint32_t round = 0;  ///< of a tree: 0 or 1 up, 2 or 3 down
    std::uint32_t from = 0;
    bool operator==(const Waiting&) const = default;
  };
  /// By collective and rank.
  std::vector<Waiting> waiting() const;

  /// Messages that have arrived.
  std::uint64_t delivered() const { return delivered_; }
  /// Bytes per microsecond on a link of the topology at now(); see Flows::carried().
  double carried(std::uint32_t link);
  /// By link of the topology; see Flows::busy_us(). Empty without one.
  std::span<const double> busy_us() const { return flows_ ? flows_->busy_us() : std::span<const double>(); }
  const Topology* topology() const { return flows_ ? &flows_->topology() : nullptr; }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kEarlyRounds = 25;
  static constexpr std::uint32_t kEarlyMask = (1U << kEarlyRounds) - 1;

  /// Of a rank in a collective; 24 bytes, as there is one for each pending event.
  struct Rank {
    double draw = 1;  // of its next message
    std::uint32_t collective = 0;
    std::uint32_t round = UINT32_MAX;  // one before the first until it enters
    std::uint32_t to = Exchange::kNobody;
    std::uint32_t early : kEarlyRounds = 0;  // bit i: the message of round + 1 + i is there
    std::uint32_t has_more_early : 1 = 0;    // or had
    std::uint32_t sums : 1 = 0;              // in this round
    std::uint32_t is_sending : 1 = 0;
    std::uint32_t is_receiving : 1 = 0;
    std::uint32_t joins : 1 = 0;    // the pending event: its bytes begin to flow
    std::uint32_t leaves : 1 = 0;   // the pending event: it leaves the collective
    std::uint32_t streams : 1 = 0;  // and with `leaves`: it is Collective::streams' to know what
  };
  struct Collective {
    std::shared_ptr<const Pattern> pattern;         // or
    std::shared_ptr<const DoubleBinaryTree> trees;  // until all have left
    std::unique_ptr<TreeStreams> streams;           // of the trees, while any rank is inside
    std::uint64_t draws_from = 0;                   // hash of seed and key
    std::uint32_t ranks = 0;
    std::uint32_t rounds = 0;
    std::uint32_t slots_at = kNowhere;  // of its rank 0; while any rank is inside
    std::uint32_t left = 0;

    std::uint32_t slots() const { return trees ? TreeStreams::slots(ranks) : ranks; }
  };
  struct Block {
    std::uint32_t at = 0;
    std::uint32_t slots = 0;
  };

  std::uint32_t add(Collective collective);
  void take_slots(std::uint32_t collective);
  void release_slots(Collective& collective);
  void begin_round(std::uint32_t slot, sim::Time at);
  void send(std::uint32_t slot, const Exchange& exchange, sim::Time at);
  double draw_of(const Rank& rank, std::uint32_t slot, std::uint32_t round) const;
  void pass_on(std::uint32_t slot);
  void arrive(std::uint32_t slot);
  void deliver(std::uint32_t sender, std::uint32_t slot, std::uint32_t round);
  bool take_early(std::uint32_t slot);
  bool stream(std::uint32_t slot);
  TreeStreams::Net net(const Collective& collective) {
    return {.queue = queue_, .flows = flows_ ? &*flows_ : nullptr, .first_slot = collective.slots_at};
  }
  Left leave(std::uint32_t slot);
  void settle() {
    if (flows_ && !flows_->settled()) flows_->settle(now_, queue_);
  }

  Links links_;
  std::optional<Flows> flows_;
  sim::Time now_{};
  std::uint64_t delivered_ = 0;
  EventQueue queue_;
  std::vector<Rank> ranks_;  // by slot
  bool tracks_origins_;
  std::vector<std::uint32_t> origins_;  // by slot, where they are tracked
  std::vector<Collective> collectives_;
  std::vector<Block> free_;
  // slot and round of messages that Rank::early does not reach
  std::set<std::pair<std::uint32_t, std::uint32_t>> very_early_;
};

}  // namespace cluster
