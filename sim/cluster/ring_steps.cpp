// The steps of rings. Without random factors they follow from the messages of one round. With them, the
// recurrence is over the times at which messages have been sent: a rank forwards in each round what it
// received in the one before, so one number per rank covers both the sum and the next message of that part.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <vector>

#include "sim/cluster/ring_recurrence.hpp"
#include "sim/cluster/steps.hpp"
#include "sim/draws.hpp"
#include "sim/wide.hpp"

namespace cluster {
namespace {

/// ends[i] = max(ends[i], ends[i + 1]) + then[i]; ends[count] must exist.
FUSEWISE_WIDE void advance(double* ends, const double* then, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) ends[i] = std::max(ends[i], ends[i + 1]) + then[i];
}

FUSEWISE_WIDE void advance(std::int64_t* ends, const std::int64_t* then, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) ends[i] = std::max(ends[i], ends[i + 1]) + then[i];
}

/// Runs the rings of one phase, one after the other, with a random factor for every message. A ring is stored
/// with its last member first: the sender to place i is at place i + 1, so the times can be updated in place.
/// Times are in units of 1 / `scale` picoseconds, whatever the number type.
template <typename Picoseconds>
class SampledRings {
 public:
  SampledRings(const Links& links, std::uint64_t collective, const RingPhase& phase,
               std::uint32_t first_round, unsigned shift)
      : links_(links),
        bits_of_collective_(collective_bits(links, collective)),
        phase_(phase),
        first_round_(first_round),
        scale_(static_cast<Picoseconds>(std::int64_t{1} << shift)),
        message_us_(phase.size),
        bits_(phase.size),
        factors_(phase.size),
        then_(phase.size),
        ends_(std::size_t{phase.size} + 1) {}

  /// Runs the ring that begins at rank `first`, whose messages have `bytes` bytes.
  void run(std::uint32_t first, std::int64_t bytes, std::span<sim::Time> times) {
    const std::size_t size = phase_.size;
    const auto rank = [&](std::size_t place) {
      return first + static_cast<std::uint32_t>(size - 1 - place) * phase_.stride;
    };
    for (std::size_t i = 0; i < size; ++i)
      message_us_[i] = unsampled_us(links_, rank(i), rank(i == 0 ? size - 1 : i - 1), bytes);
    const Picoseconds sum = scaled(sum_time(links_, bytes));
    draw(0, 0, rank);
    for (std::size_t i = 0; i < size; ++i)
      ends_[i] = static_cast<Picoseconds>(times[rank(i)].count()) + then_[i];
    for (std::uint32_t round = 0; round < phase_.rounds(); ++round) {
      ends_[size] = ends_[0];
      const Picoseconds summed = round < phase_.reducing ? sum : 0;
      if (round + 1 < phase_.rounds())
        draw(round + 1, summed, rank);
      else
        std::ranges::fill(then_, summed);
      advance(ends_.data(), then_.data(), size);
    }
    for (std::size_t i = 0; i < size; ++i) times[rank(i)] = sim::Time(static_cast<std::int64_t>(ends_[i]));
  }

 private:
  /// Sets then_: the time from the arrival of a message to the end of sending in this round.
  template <typename Rank>
  void draw(std::uint32_t round, Picoseconds sum, const Rank& rank) {
    for (std::size_t i = 0; i < bits_.size(); ++i)
      bits_[i] = message_bits(bits_of_collective_, first_round_ + round, rank(i));
    sim::lognormal_mean_one(bits_, links_.sigma, factors_);
    for (std::size_t i = 0; i < bits_.size(); ++i)
      then_[i] = sum + scaled(sim::from_us(message_us_[i] * factors_[i]));
  }
  Picoseconds scaled(sim::Time time) const { return static_cast<Picoseconds>(time.count()) * scale_; }

  const Links& links_;
  std::uint64_t bits_of_collective_;
  RingPhase phase_;
  std::uint32_t first_round_;
  Picoseconds scale_;

  // indexed by place
  std::vector<double> message_us_;  ///< before the random factor
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
  std::vector<Picoseconds> then_;
  std::vector<Picoseconds> ends_;  ///< when messages have been sent; the first place is repeated at the end
};

/// Runs the rings of one phase, one after the other, without random factors.
class ConstantRings {
 public:
  ConstantRings(const Links& links, const RingPhase& phase, unsigned shift)
      : links_(links), phase_(phase), shift_(shift), message_(phase.size), times_(phase.size) {}

  void run(std::uint32_t first, std::int64_t bytes, std::span<sim::Time> times) {
    const auto rank = [&](std::size_t member) {
      return first + static_cast<std::uint32_t>(member) * phase_.stride;
    };
    for (std::size_t i = 0; i < message_.size(); ++i) {
      const std::uint32_t to = rank(i + 1 < message_.size() ? i + 1 : 0);
      message_[i] = scaled(sim::from_us(unsampled_us(links_, rank(i), to, bytes)), shift_).count();
      times_[i] = times[rank(i)].count();
    }
    advance_ring(message_, phase_.rounds(), times_);
    const sim::Time summing = scaled(sum_time(links_, bytes), shift_) * std::int64_t{phase_.reducing};
    for (std::size_t i = 0; i < message_.size(); ++i) times[rank(i)] = sim::Time(times_[i]) + summing;
  }

 private:
  const Links& links_;
  RingPhase phase_;
  unsigned shift_;
  std::vector<std::int64_t> message_;
  std::vector<std::int64_t> times_;
};

/// members[i] = max(ends[i], ends[i + 1]), with the origin that belongs to the larger; of equals, to
/// the second. `ends` and `from` have one element more than there are members: that of the last member comes
/// first.
FUSEWISE_WIDE void advance(const std::int64_t* ends, const std::int64_t* from, std::int64_t* members,
                           std::int64_t* origins, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_received_last = ends[i] > ends[i + 1];
    members[i] = is_received_last ? ends[i] : ends[i + 1];
    origins[i] = is_received_last ? from[i] : from[i + 1];
  }
}

/// Runs the rings of one phase round by round, and tracks origins.
class TrackedRings {
 public:
  TrackedRings(const Links& links, std::uint64_t collective, const RingPhase& phase,
               std::uint32_t first_round, std::span<std::uint32_t> origins)
      : links_(links),
        bits_of_collective_(collective_bits(links, collective)),
        phase_(phase),
        first_round_(first_round),
        all_origins_(origins),
        message_us_(phase.size),
        bits_(phase.size),
        factors_(phase.size, 1.0),
        times_(phase.size),
        origins_(phase.size),
        ends_(std::size_t{phase.size} + 1),
        from_(std::size_t{phase.size} + 1) {}

  void run(std::uint32_t first, std::int64_t bytes, std::span<sim::Time> times) {
    const std::size_t size = phase_.size;
    const auto rank = [&](std::size_t member) {
      return first + static_cast<std::uint32_t>(member) * phase_.stride;
    };
    for (std::size_t i = 0; i < size; ++i) {
      message_us_[i] = unsampled_us(links_, rank(i), rank(i + 1 < size ? i + 1 : 0), bytes);
      times_[i] = times[rank(i)].count();
      origins_[i] = all_origins_[rank(i)];
    }
    const sim::Time sum = sum_time(links_, bytes);
    for (std::uint32_t round = 0; round < phase_.rounds(); ++round) {
      send(round, rank);
      advance(ends_.data(), from_.data(), times_.data(), origins_.data(), size);
      if (ends_[0] == ends_[1]) origins_[0] = from_[0];  // the last member has the higher rank
      if (round < phase_.reducing && sum > sim::Time::zero())
        for (std::int64_t& time : times_) time = sim::after(sim::Time(time), sum).count();
    }
    for (std::size_t i = 0; i < size; ++i) {
      times[rank(i)] = sim::Time(times_[i]);
      all_origins_[rank(i)] = static_cast<std::uint32_t>(origins_[i]);
    }
  }

 private:
  template <typename Rank>
  void send(std::uint32_t round, const Rank& rank) {
    if (links_.sigma > 0) {
      for (std::size_t i = 0; i < bits_.size(); ++i)
        bits_[i] = message_bits(bits_of_collective_, first_round_ + round, rank(i));
      sim::lognormal_mean_one(bits_, links_.sigma, factors_);
    }
    for (std::size_t i = 0; i < times_.size(); ++i) {
      ends_[i + 1] = sim::after(sim::Time(times_[i]), message_us_[i] * factors_[i]).count();
      from_[i + 1] = origins_[i];
    }
    ends_.front() = ends_.back();
    from_.front() = from_.back();
  }

  const Links& links_;
  std::uint64_t bits_of_collective_;
  RingPhase phase_;
  std::uint32_t first_round_;
  std::span<std::uint32_t> all_origins_;  // indexed by rank

  // indexed by member
  std::vector<double> message_us_;  ///< before the random factor
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
  std::vector<std::int64_t> times_;
  std::vector<std::int64_t> origins_;
  // indexed by member + 1
  std::vector<std::int64_t> ends_;  ///< of messages
  std::vector<std::int64_t> from_;  ///< their origins
};

/// An upper bound of all times, for all random factors, in microseconds x 2^shift.
double max_us(const Rings& rings, const Links& links, std::span<const sim::Time> starts, unsigned shift) {
  const double slowdown = links.slowdown.empty() ? 1 : *std::ranges::max_element(links.slowdown);
  const double factor = std::max(1.0, slowdown) * sim::longest_lognormal(links.sigma);
  const auto scale = static_cast<double>(std::int64_t{1} << shift);
  double us = sim::to_us(*std::ranges::max_element(starts)) / scale;
  for (const RingPhase& phase : rings.phases()) {
    const std::int64_t max = rings.bytes() / phase.stride / phase.size + 2;  // in a message
    const auto bytes = static_cast<double>(max);
    double message_us = 0;
    for (const Level& level : links.levels)
      message_us = std::max(message_us, level.link.startup_us + bytes * level.link.us_per_byte);
    us += phase.rounds() * (message_us * factor + bytes * links.sum_us_per_byte + 1);
  }
  return us * scale;
}

/// `make`: the runner of a phase that begins at a round.
template <typename Make>
void run_phases(const Rings& rings, std::span<sim::Time> times, const Make& make) {
  std::uint32_t first_round = 0;
  for (const RingPhase& phase : rings.phases()) {
    auto runner = make(phase, first_round);
    if (phase.rounds() > 0)
      for (std::uint32_t first = 0; first < rings.ranks(); first += phase.size * phase.stride)
        for (std::uint32_t rank = first; rank < first + phase.stride; ++rank)
          runner.run(rank, rings.message_bytes(phase, rank), times);
    first_round += phase.rounds();
  }
}

}  // namespace

void run_rings(const Rings& rings, const Links& links, std::uint64_t collective, std::span<sim::Time> times,
               unsigned shift) {
  assert(times.size() == rings.ranks());
  constexpr double kMaxInDoubles = 9e9;  // us; 2^53 ps, above which doubles cannot hold whole numbers
  const double max = max_us(rings, links, times, shift);
  const auto sampled = [&]<typename Picoseconds>(Picoseconds /*unit*/) {
    run_phases(rings, times, [&](const RingPhase& phase, std::uint32_t first_round) {
      return SampledRings<Picoseconds>(links, collective, phase, first_round, shift);
    });
  };
  if (links.sigma == 0 && max <= kMaxRingUs)
    run_phases(rings, times, [&](const RingPhase& phase, std::uint32_t /*first_round*/) {
      return ConstantRings(links, phase, shift);
    });
  else if (links.sigma > 0 && max < kMaxInDoubles)
    sampled(0.0);
  else if (links.sigma > 0 && max <= sim::kMaxUs)
    sampled(std::int64_t{0});
  else
    run_rounds(rings, links, collective, times, shift);  // checks each sum
}

void run_rings_in_event_order(const Rings& rings, const Links& links, std::uint64_t collective,
                              std::span<sim::Time> times, std::span<std::uint32_t> origins) {
  assert(times.size() == rings.ranks() && origins.size() == times.size());
  std::iota(origins.begin(), origins.end(), 0U);
  run_phases(rings, times, [&](const RingPhase& phase, std::uint32_t first_round) {
    return TrackedRings(links, collective, phase, first_round, origins);
  });
}

}  // namespace cluster
