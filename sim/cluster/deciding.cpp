#include "sim/cluster/deciding.hpp"

#include <algorithm>
#include <cassert>
#include <optional>

#include "sim/cluster/patterns/rings.hpp"

namespace cluster {
namespace {

using sim::Time;

class Deciding {
 public:
  Deciding(const Pattern& pattern, const Links& links, std::uint64_t collective, std::span<const Time> begins)
      : pattern_(pattern), links_(links), collective_(collective), ranks_(pattern.ranks()) {
    assert(begins.size() == ranks_);
    left_.reserve(std::size_t{ranks_} * (pattern.rounds() + 1));
    const auto* rings = dynamic_cast<const Rings*>(&pattern);
    if (rings != nullptr && links.sigma == 0) {
      go_round(*rings, begins);
      return;
    }
    left_.assign(begins.begin(), begins.end());
    std::vector<Time> out(ranks_);
    for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) out[rank] = is_out(rank, round);
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const Exchange own = pattern.exchange(rank, round);
        Time left = out[rank];
        if (own.from != Exchange::kNobody) left = std::max(left, out[own.from]);
        left_.push_back(left + (own.sums ? sum_time(links, own.bytes_in) : Time::zero()));
      }
    }
  }

  std::vector<DecidingMessage> back_from(std::uint32_t rank) const {
    std::vector<DecidingMessage> found;
    for (std::uint32_t round = pattern_.rounds(); round-- > 0;) {
      const Exchange own = pattern_.exchange(rank, round);
      const bool is_sent_to = own.from != Exchange::kNobody && is_out(own.from, round) > is_out(rank, round);
      if (is_sent_to) rank = own.from;
      if (is_sent_to || own.to != Exchange::kNobody)
        found.push_back({.round = round, .from = rank, .duration = is_out(rank, round) - left(rank, round)});
    }
    return found;
  }

 private:
  /// The messages of a phase are alike in each of its rounds.
  void go_round(const Rings& rings, std::span<const Time> begins) {
    left_.resize(std::size_t{ranks_} * (rings.rounds() + 1));
    std::ranges::copy(begins, left_.begin());
    std::vector<std::uint32_t> from(ranks_);
    std::vector<Time> message(ranks_);
    std::vector<Time> sum(ranks_);
    std::vector<Time> out(ranks_);
    std::uint32_t round = 0;
    for (const RingPhase& phase : rings.phases()) {
      if (phase.rounds() == 0) continue;
      for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const Exchange own = rings.exchange(rank, round);
        from[rank] = own.from;
        message[rank] = message_time(links_, {.collective = collective_, .round = round, .from = rank},
                                     own.to, own.bytes_out);
        sum[rank] = sum_time(links_, own.bytes_in);
      }
      for (std::uint32_t i = 0; i < phase.rounds(); ++i, ++round) {
        const Time* const left = left_.data() + std::size_t{round} * ranks_;
        Time* const next = left_.data() + (std::size_t{round} + 1) * ranks_;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) out[rank] = left[rank] + message[rank];
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) next[rank] = std::max(out[rank], out[from[rank]]);
        for (std::uint32_t rank = 0; i < phase.reducing && rank < ranks_; ++rank) next[rank] += sum[rank];
      }
    }
  }

  /// Returns when `rank` has left its first `rounds` rounds.
  Time left(std::uint32_t rank, std::uint32_t rounds) const {
    return left_[std::size_t{rounds} * ranks_ + rank];
  }
  /// Returns when the message that `rank` sends in `round` has arrived.
  Time is_out(std::uint32_t rank, std::uint32_t round) const {
    const Exchange own = pattern_.exchange(rank, round);
    const MessageKey key = {.collective = collective_, .round = round, .from = rank};
    return left(rank, round) +
           (own.to == Exchange::kNobody ? Time::zero() : message_time(links_, key, own.to, own.bytes_out));
  }

  const Pattern& pattern_;
  const Links& links_;
  std::uint64_t collective_;
  std::uint32_t ranks_;
  std::vector<Time> left_;  // indexed by round, then rank
};

/// Returns whether all ranks form one ring, without random factors.
bool is_one_ring(const Pattern& pattern, const Links& links) {
  const auto* rings = dynamic_cast<const Rings*>(&pattern);
  if (rings == nullptr || links.sigma != 0) return false;
  const auto has_rounds = [](const RingPhase& phase) { return phase.rounds() > 0; };
  const auto phase = std::ranges::find_if(rings->phases(), has_rounds);
  return phase != rings->phases().end() && phase->rounds() == pattern.rounds() &&
         phase->size == pattern.ranks();
}

/// In a ring a chain of messages to the last round of `rank` moves k times to the next rank and stays on one
/// for the other rounds. The longest one decides: with the messages c of each rank and R rounds it takes
/// begin[rank - k] + c[rank - k] + ... + c[rank - 1] + (R - k) max(c[rank - k], ..., c[rank]), as
/// ring_recurrence.cpp has it, and stays on a rank with that maximum. Of several, Deciding finds the one that
/// stays as late as it can: the one with the fewest moves, on the slowest rank that is the last to be
/// reached.
std::vector<DecidingMessage> longest_chain(const Pattern& ring, const Links& links, std::uint64_t collective,
                                           std::span<const Time> begins, std::uint32_t rank) {
  const std::uint32_t ranks = ring.ranks();
  const std::uint32_t rounds = ring.rounds();
  const auto before = [&](std::uint32_t to) { return to == 0 ? ranks - 1 : to - 1; };
  const auto bytes = ring.exchange(0, 0).bytes_out;  // parts are padded, so that all ranks send as much
  std::vector<Time> message(ranks);
  for (std::uint32_t from = 0; from < ranks; ++from)
    message[from] = message_time(links, {.collective = collective, .round = 0, .from = from},
                                 from + 1 == ranks ? 0 : from + 1, bytes);
  struct Chain {
    sim::TotalTime length;
    std::uint32_t moves = 0;
    std::uint32_t slowest = 0;  // the rank with the longest message
  };
  std::optional<Chain> longest;
  Time moving{};
  std::uint32_t first = rank;
  std::uint32_t slowest = rank;
  for (std::uint32_t moves = 0; moves <= rounds; ++moves) {
    if (moves > 0) {
      first = before(first);
      moving += message[first];
      if (message[first] > message[slowest]) slowest = first;
    }
    const std::uint32_t stays = rounds - moves;
    sim::TotalTime length;
    length += begins[first];
    length += moving;
    length.add(message[slowest], stays);
    if (!longest || length > longest->length)
      longest = {.length = length, .moves = moves, .slowest = slowest};
  }
  std::vector<DecidingMessage> found;
  found.reserve(rounds);
  std::uint32_t stays = rounds - longest->moves;
  for (std::uint32_t round = rounds; round-- > 0;) {
    if (stays > 0 && rank == longest->slowest)
      --stays;
    else
      rank = before(rank);
    found.push_back({.round = round, .from = rank, .duration = message[rank]});
  }
  return found;
}

}  // namespace

std::uint64_t deciding_work(const Pattern& pattern, const Links& links) {
  return is_one_ring(pattern, links) ? pattern.rounds() : std::uint64_t{pattern.ranks()} * pattern.rounds();
}

std::vector<DecidingMessage> deciding_messages(const Pattern& pattern, const Links& links,
                                               std::uint64_t collective, std::span<const Time> begins,
                                               std::uint32_t rank) {
  if (is_one_ring(pattern, links)) return longest_chain(pattern, links, collective, begins, rank);
  return Deciding(pattern, links, collective, begins).back_from(rank);
}

}  // namespace cluster
