#include "sim/cluster/messages.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include <fmt/format.h>

#include "sim/draws.hpp"

namespace cluster {

Messages::Messages(Links links, std::optional<Topology> topology, bool tracks_origins)
    : links_(std::move(links)), tracks_origins_(tracks_origins) {
  if (topology) flows_.emplace(std::move(*topology));
}

std::uint32_t Messages::add(std::shared_ptr<const Pattern> pattern, std::uint64_t key) {
  const std::uint32_t ranks = pattern->ranks();
  const std::uint32_t rounds = pattern->rounds();
  return add(Collective{.pattern = std::move(pattern),
                        .draws_from = collective_bits(links_, key),
                        .ranks = ranks,
                        .rounds = rounds});
}

std::uint32_t Messages::add(cluster::Collective how, std::uint64_t key) {
  if (auto* pattern = std::get_if<std::unique_ptr<const BytePattern>>(&how))
    return add(std::shared_ptr<const Pattern>(std::move(*pattern)), key);
  auto trees = std::make_shared<const DoubleBinaryTree>(std::get<DoubleBinaryTree>(std::move(how)));
  const std::uint32_t ranks = trees->ranks();
  return add(
      Collective{.trees = std::move(trees), .draws_from = collective_bits(links_, key), .ranks = ranks});
}

std::uint32_t Messages::add(Collective collective) {
  if (flows_ && collective.ranks > flows_->topology().ranks)
    throw std::invalid_argument(fmt::format("a collective of {} ranks on a network of {}", collective.ranks,
                                            flows_->topology().ranks));
  collectives_.push_back(std::move(collective));
  return static_cast<std::uint32_t>(collectives_.size() - 1);
}

void Messages::enter(std::uint32_t collective, std::uint32_t rank, sim::Time at) {
  assert(at >= now_);
  const Collective& entered = collectives_[collective];
  assert(entered.left < entered.ranks);
  if (entered.slots_at == kNowhere) take_slots(collective);
  if (entered.streams) return entered.streams->enter(net(entered), rank, at);
  const std::uint32_t slot = entered.slots_at + rank;
  assert(ranks_[slot].round == UINT32_MAX);
  if (links_.sigma > 0) ask_for_draw(slot, 0);
  if (tracks_origins_) origins_[slot] = rank;
  begin_round(slot, at);
}

std::optional<Messages::Departure> Messages::next(sim::Time until) {
  assert(until >= now_);
  for (;;) {
    sim::Time at = queue_.first_time();
    if (at > now_) {
      settle();
      at = queue_.first_time();
    }
    if (at > until || at == EventQueue::kNever) break;
    now_ = at;
    const std::uint32_t slot = queue_.first();
    const Rank& rank = ranks_[slot];
    if (rank.leaves != 0) {
      if (rank.streams == 0 || stream(slot)) return leave(slot);
    } else if (!flows_ || flows_->handle_event(slot, queue_)) {
      arrive(slot);
    }
  }
  if (until != sim::Time::max()) now_ = std::max(now_, until);
  return std::nullopt;
}

std::optional<sim::Time> Messages::next_time() {
  settle();
  const sim::Time at = queue_.first_time();
  return at == EventQueue::kNever ? std::nullopt : std::optional(at);
}

double Messages::carried(std::uint32_t link) {
  settle();
  return flows_ ? flows_->carried(link, now_) : 0;
}

std::vector<Messages::Waiting> Messages::waiting() const {
  std::vector<Waiting> out;
  for (std::uint32_t i = 0; i < collectives_.size(); ++i) {
    const Collective& collective = collectives_[i];
    if (collective.slots_at == kNowhere) continue;
    for (std::uint32_t r = 0; r < collective.ranks; ++r) {
      if (collective.streams) {
        if (const auto wait = collective.streams->waits(r))
          out.push_back({.collective = i, .rank = r, .round = wait->round, .from = wait->from});
        continue;
      }
      const Rank& rank = ranks_[collective.slots_at + r];
      const bool is_inside = rank.round < collective.rounds;
      if (!is_inside || (rank.arrived & 1U) != 0 || queue_.at(collective.slots_at + r) != EventQueue::kNever)
        continue;
      const Exchange exchange = collective.pattern->exchange(r, rank.round);
      out.push_back({.collective = i, .rank = r, .round = rank.round, .from = exchange.from});
    }
  }
  return out;
}

void Messages::take_slots(std::uint32_t collective) {
  Collective& taker = collectives_[collective];
  const std::uint32_t slots = taker.slots();
  const auto block = std::ranges::find(free_, slots, &Block::slots);
  if (block != free_.end()) {
    taker.slots_at = block->at;
    free_.erase(block);
  } else {
    taker.slots_at = static_cast<std::uint32_t>(ranks_.size());
    ranks_.resize(ranks_.size() + slots);
    queue_.grow(ranks_.size());
    if (flows_) flows_->grow(ranks_.size());
    if (tracks_origins_) origins_.resize(ranks_.size());
  }
  std::fill_n(ranks_.begin() + taker.slots_at, slots,
              taker.trees ? Rank{.collective = collective, .leaves = 1, .streams = 1}
                          : Rank{.collective = collective});
  if (taker.trees)
    taker.streams =
        std::make_unique<TreeStreams>(taker.trees, links_, taker.draws_from, flows_ ? &*flows_ : nullptr);
}

/// Nothing is in flight any more once all ranks have left, because every message was waited for.
void Messages::release_slots(Collective& collective) {
  draw_all();  // what was asked for and not needed must not reach the next owner of the slots
  free_.push_back({.at = collective.slots_at, .slots = collective.slots()});
  collective.slots_at = kNowhere;
  collective.pattern = nullptr;
  collective.trees = nullptr;
  collective.streams = nullptr;
}

/// Begins the next round of a rank that has finished its last one at `at`. That may be later than now;
/// nothing that happens in between affects the rank.
void Messages::begin_round(std::uint32_t slot, sim::Time at) {
  Rank& rank = ranks_[slot];
  const Collective& collective = collectives_[rank.collective];
  advance_round(slot);
  if (rank.round == collective.rounds) {
    rank.leaves = 1;
    queue_.set(slot, at);
    return;
  }
  const Exchange exchange = collective.pattern->exchange(slot - collective.slots_at, rank.round);
  const bool receives = exchange.from != Exchange::kNobody;
  if (!receives) rank.arrived |= 1U;
  rank.sums = receives && exchange.sums ? 1 : 0;
  send(slot, exchange, at);
  if (links_.sigma > 0 && rank.round + 1 < collective.rounds) ask_for_draw(slot, rank.round + 1);
}

/// The factor of a message is asked for a round before it is needed, so that many are computed at once.
void Messages::ask_for_draw(std::uint32_t slot, std::uint32_t round) {
  if (asked_ == kMaxAsked) draw_all();
  Rank& rank = ranks_[slot];
  rank.is_asking = 1;
  const Collective& collective = collectives_[rank.collective];
  asking_[asked_] = slot;
  asked_bits_[asked_++] = message_bits(collective.draws_from, round, slot - collective.slots_at);
}

void Messages::draw_all() {
  std::array<double, kMaxAsked> draws;
  sim::lognormal_mean_one({asked_bits_.data(), asked_}, links_.sigma, {draws.data(), asked_});
  for (std::size_t i = 0; i < asked_; ++i) {
    ranks_[asking_[i]].draw = draws[i];
    ranks_[asking_[i]].is_asking = 0;
  }
  asked_ = 0;
}

/// A rank that sends nothing still gets an event for the time at which it begins to wait.
void Messages::send(std::uint32_t slot, const Exchange& exchange, sim::Time at) {
  Rank& rank = ranks_[slot];
  rank.to = exchange.to;
  rank.is_sending = 1;
  if (exchange.to == Exchange::kNobody) {
    queue_.set(slot, at);
    return;
  }
  const std::uint32_t from = slot - collectives_[rank.collective].slots_at;
  if (rank.is_asking != 0) draw_all();
  if (!flows_) {  // as message_time(), with the factor computed before
    const double us = unsampled_us(links_, from, exchange.to, exchange.bytes_out);
    queue_.set(slot, sim::after(at, us * rank.draw));
    return;
  }
  const Factors factors = {.slowdown = links_.slowdown.empty() ? 1 : links_.slowdown[from],
                           .draw = rank.draw};
  queue_.set(slot, flows_->begin(slot, {from, exchange.to}, exchange.bytes_out, factors, at));
}

/// The rank has finished its round, except for the sum.
void Messages::pass_on(std::uint32_t slot) {
  const Rank& rank = ranks_[slot];
  sim::Time at = now_;
  if (rank.sums != 0) {
    const Collective& collective = collectives_[rank.collective];
    const std::int64_t bytes = collective.pattern->exchange(slot - collective.slots_at, rank.round).bytes_in;
    at = sim::after(at, sum_time(links_, bytes));
  }
  begin_round(slot, at);
}

/// The message of a rank has arrived.
void Messages::arrive(std::uint32_t slot) {
  Rank& rank = ranks_[slot];
  const std::uint32_t to = rank.to;
  const std::uint32_t round = rank.round;
  const std::uint32_t slots_at = collectives_[rank.collective].slots_at;
  rank.is_sending = 0;
  if ((rank.arrived & 1U) != 0)
    pass_on(slot);
  else
    queue_.set(slot, EventQueue::kNever);
  if (to == Exchange::kNobody) return;
  ++delivered_;
  deliver(slot, slots_at + to, round);
}

/// The time is not stored if the receiver is in an earlier round: it begins this round later anyway.
void Messages::deliver(std::uint32_t sender, std::uint32_t slot, std::uint32_t round) {
  Rank& rank = ranks_[slot];
  const std::uint32_t ahead = round - rank.round;  // modulo 2^32, as before its first round
  if (ahead < kEarlyRounds) {
    rank.arrived = static_cast<std::uint16_t>(rank.arrived | 1U << ahead);
  } else {
    rank.has_very_early = 1;
    very_early_.insert({slot, round});
  }
  if (ahead != 0 || rank.is_sending != 0) return;
  if (tracks_origins_) origins_[slot] = origins_[sender];  // the receiver waited only for this message
  pass_on(slot);
}

/// Keeps Rank::arrived relative to the round.
void Messages::advance_round(std::uint32_t slot) {
  Rank& rank = ranks_[slot];
  ++rank.round;
  rank.arrived = static_cast<std::uint16_t>(rank.arrived >> 1U);
  if (rank.has_very_early != 0 && very_early_.erase({slot, rank.round + kEarlyRounds - 1}) != 0)
    rank.arrived |= 1U << (kEarlyRounds - 1);
}

/// Returns whether a rank leaves.
bool Messages::stream(std::uint32_t slot) {
  const Collective& collective = collectives_[ranks_[slot].collective];
  const TreeStreams::Event event =
      collective.streams->handle_event(net(collective), slot - collective.slots_at, now_);
  if (event == TreeStreams::Event::arrived) ++delivered_;
  return event == TreeStreams::Event::left;
}

Messages::Departure Messages::leave(std::uint32_t slot) {
  Rank& rank = ranks_[slot];
  Collective& collective = collectives_[rank.collective];
  const std::uint32_t place = slot - collective.slots_at;
  Departure left = {.collective = rank.collective, .rank = place, .at = now_};
  if (tracks_origins_) left.origin = collective.streams ? collective.streams->origin(place) : origins_[slot];
  rank.leaves = 0;
  queue_.set(slot, EventQueue::kNever);
  if (++collective.left == collective.ranks) release_slots(collective);
  return left;
}

}  // namespace cluster
