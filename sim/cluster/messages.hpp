// Simulates collectives message by message. Every message is an event, so different collectives, and messages
// on shared links, affect each other. Runs step by step beside another simulation that computes what the
// ranks do.

#pragma once

#include <array>
#include <cstddef>
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

/// A rank begins a round by sending its message, which occupies its link until it has arrived, whether or not
/// the receiver has reached that round. The rank leaves the round when its own message and the one for it
/// have arrived and the received data is summed up. Memory holds only the messages in flight and the set of
/// early ones.
///
/// Through a double binary tree bytes are streamed. Without a topology, heads and tails are those of
/// run_steps(). With one, each edge, up and down, is a message that is sent when its sender has its head, and
/// only the links limit what a rank receives: tail = max(own start, senders' tails + startup and latency,
/// later of the head and the last byte received + summed bytes x gamma).
class Messages {
 public:
  /// Without a topology a message takes message_time(), independent of other messages. With one, startup,
  /// latency and bandwidth come from the topology and links.levels is ignored; slowdown, random factors and
  /// summing are unchanged. `tracks_origins` fills Left::origin, at 4 more bytes for each rank in a
  /// collective.
  Messages(Links links, std::optional<Topology> topology, bool tracks_origins = false);

  /// Adds one run of a collective. `key` must be unique among them; it seeds the random factors.
  std::uint32_t add(std::shared_ptr<const Pattern> pattern, std::uint64_t key);
  std::uint32_t add(cluster::Collective how, std::uint64_t key);

  /// A rank enters a collective, once, at now() or later. Ranks may be in several collectives at once.
  void enter(std::uint32_t collective, std::uint32_t rank, sim::Time at);

  struct Departure {
    std::uint32_t collective = 0;
    std::uint32_t rank = 0;
    sim::Time at{};
    /// The rank that would have had to enter sooner, if tracked; other collectives are ignored.
    std::uint32_t origin = Exchange::kNobody;
    bool operator==(const Departure&) const = default;
  };
  /// Runs until the next rank leaves a collective, at most until `until`. If it returns nothing, now() is
  /// `until` and everything up to then has happened; until == sim::Time::max() runs until nothing is pending
  /// and leaves now() at the last event. Ranks that leave at the same time are returned in a deterministic
  /// order.
  std::optional<Departure> next(sim::Time until);

  sim::Time now() const { return now_; }
  /// Returns the time of the next event, whether or not a rank leaves then. Between events the bytes of a
  /// message may begin to flow on links that are not full. Nothing: the ranks inside wait for ranks that have
  /// not entered, or for ever.
  std::optional<sim::Time> next_time();

  /// A rank that waits for a message and has nothing in flight; in a double binary tree also nothing in
  /// flight towards it.
  struct Waiting {
    std::uint32_t collective = 0;
    std::uint32_t rank = 0;
    std::uint32_t round = 0;  ///< of a tree: 0 or 1 up, 2 or 3 down
    std::uint32_t from = 0;
    bool operator==(const Waiting&) const = default;
  };
  /// Sorted by collective and rank.
  std::vector<Waiting> waiting() const;

  /// Number of messages that have arrived.
  std::uint64_t delivered() const { return delivered_; }
  /// Bytes per microsecond on a link of the topology at now(); see Flows::carried().
  double carried(std::uint32_t link);
  /// Indexed by link of the topology; see Flows::busy_us(). Empty without a topology.
  std::vector<double> busy_us() const { return flows_ ? flows_->busy_us() : std::vector<double>(); }
  const Topology* topology() const { return flows_ ? &flows_->topology() : nullptr; }

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;
  static constexpr std::uint32_t kEarlyRounds = 16;

  /// State of a rank in a collective; 24 bytes, because there is one for each pending event.
  struct Rank {
    double draw = 1;  // random factor of its next message, unless it is still asked for
    std::uint32_t collective = 0;
    std::uint32_t round = UINT32_MAX;  // one before the first until it enters
    std::uint32_t to = Exchange::kNobody;
    // Not in one word with the flags: a load of the word just after a store of one flag would have to wait.
    std::uint16_t arrived = 0;            // bit i: there is no message of round + i to wait for
    std::uint8_t has_very_early : 1 = 0;  // in very_early_, now or before
    std::uint8_t is_asking : 1 = 0;       // its draw is asked for
    std::uint8_t sums : 1 = 0;            // in this round
    std::uint8_t is_sending : 1 = 0;
    std::uint8_t leaves : 1 = 0;   // the pending event: it leaves the collective
    std::uint8_t streams : 1 = 0;  // and with `leaves`: Collective::streams knows the event
  };
  struct Collective {
    std::shared_ptr<const Pattern> pattern;         // either this or `trees`
    std::shared_ptr<const DoubleBinaryTree> trees;  // until all have left
    std::unique_ptr<TreeStreams> streams;           // state of the trees, while any rank is inside
    std::uint64_t draws_from = 0;                   // hash of seed and key
    std::uint32_t ranks = 0;
    std::uint32_t rounds = 0;
    std::uint32_t slots_at = kNowhere;  // first slot (that of rank 0), while any rank is inside
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
  void ask_for_draw(std::uint32_t slot, std::uint32_t round);
  void draw_all();
  void pass_on(std::uint32_t slot);
  void arrive(std::uint32_t slot);
  void deliver(std::uint32_t sender, std::uint32_t slot, std::uint32_t round);
  void advance_round(std::uint32_t slot);
  bool stream(std::uint32_t slot);
  TreeStreams::Net net(const Collective& collective) {
    return {.queue = queue_, .flows = flows_ ? &*flows_ : nullptr, .first_slot = collective.slots_at};
  }
  Departure leave(std::uint32_t slot);
  void settle() {
    if (flows_ && !flows_->settled()) flows_->settle(now_, queue_);
  }

  Links links_;
  std::optional<Flows> flows_;
  sim::Time now_{};
  std::uint64_t delivered_ = 0;
  EventQueue queue_;
  std::vector<Rank> ranks_;  // indexed by slot
  bool tracks_origins_;
  std::vector<std::uint32_t> origins_;  // indexed by slot, if tracked
  std::vector<Collective> collectives_;
  std::vector<Block> free_;
  static constexpr std::size_t kMaxAsked = 256;
  std::array<std::uint32_t, kMaxAsked> asking_{};  // slots whose next draw is not computed yet
  std::array<std::uint64_t, kMaxAsked> asked_bits_{};
  std::size_t asked_ = 0;
  // Slot and round of messages that are too early for Rank::arrived.
  std::set<std::pair<std::uint32_t, std::uint32_t>> very_early_;
};

}  // namespace cluster
