#include "sim/cluster/deciding.hpp"

#include <algorithm>
#include <cassert>

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

}  // namespace

std::vector<DecidingMessage> deciding_messages(const Pattern& pattern, const Links& links,
                                               std::uint64_t collective, std::span<const Time> begins,
                                               std::uint32_t rank) {
  return Deciding(pattern, links, collective, begins).back_from(rank);
}

}  // namespace cluster
