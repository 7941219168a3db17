// The steps of rings. The recurrence is over the times at which messages have been sent: a rank forwards in
// each round what it received in the one before, so one number per rank covers both the sum and the next
// message of that part.

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <vector>

#include "sim/cluster/steps.hpp"
#include "sim/draws.hpp"

// Both variants give the same numbers; this one is faster on processors with wider instructions.
#if defined(__x86_64__) && defined(__GNUC__)
#define FUSEWISE_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FUSEWISE_WIDE
#endif

namespace cluster {
namespace {

/// ends[i] = max(ends[i], ends[i + 1]) + then[i]; ends[count] must exist.
FUSEWISE_WIDE void advance(double* ends, const double* then, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) ends[i] = std::max(ends[i], ends[i + 1]) + then[i];
}

FUSEWISE_WIDE void advance(std::int64_t* ends, const std::int64_t* then, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) ends[i] = std::max(ends[i], ends[i + 1]) + then[i];
}

/// One value for parts of the smaller size, one for parts that are one byte larger.
template <typename T>
using BySize = std::array<T, 2>;

/// A range of places in a ring whose members send parts of the same size.
struct Segment {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t larger = 0;  ///< index in a BySize
};

/// Runs the rings of one phase, one after the other, in units of 1 / `scale` picoseconds, whatever the number
/// type. A ring is stored with its last member first: the sender to place i is at place i + 1, so the times
/// can be updated in place.
template <typename Picoseconds>
class RingRun {
 public:
  RingRun(const Links& links, std::uint64_t collective, const RingPhase& phase, std::uint32_t first_round,
          unsigned shift)
      : links_(links),
        collective_(collective),
        phase_(phase),
        first_round_(first_round),
        scale_(static_cast<Picoseconds>(std::int64_t{1} << shift)) {}

  /// Runs the ring that begins at rank `first` and works on `shared`.
  void run(std::uint32_t first, const Stretch& shared, std::span<sim::Time> times);

 private:
  std::uint32_t rank(std::size_t place) const {
    return first_ + static_cast<std::uint32_t>(phase_.size - 1 - place) * phase_.stride;
  }
  void prepare(const Stretch& shared);
  std::array<Segment, 3> segments(std::uint32_t round) const;
  const Picoseconds* then(std::uint32_t next, bool sums, const Segment& segment);
  void draw(std::uint32_t round, Picoseconds sum, const Segment& segment);
  Picoseconds scaled(sim::Time time) const { return static_cast<Picoseconds>(time.count()) * scale_; }

  const Links& links_;
  std::uint64_t collective_;
  RingPhase phase_;
  std::uint32_t first_round_;
  Picoseconds scale_;

  std::uint32_t first_ = 0;
  std::size_t larger_parts_ = 0;
  BySize<Picoseconds> sum_ = {};
  BySize<std::vector<double>> message_us_;  ///< indexed by place; before the random factor
  BySize<std::vector<Picoseconds>> message_;
  BySize<std::vector<Picoseconds>> sum_and_message_;
  BySize<std::vector<Picoseconds>> last_;  ///< time after the last message
  std::vector<std::uint64_t> bits_;
  std::vector<double> factors_;
  std::vector<Picoseconds> sampled_;
  std::vector<Picoseconds>
      /// Times at which messages have been sent, indexed by place; the first place is repeated at the end.
      ends_;
};

template <typename Picoseconds>
void RingRun<Picoseconds>::run(std::uint32_t first, const Stretch& shared, std::span<sim::Time> times) {
  first_ = first;
  prepare(shared);
  for (std::size_t i = 0; i < phase_.size; ++i) ends_[i] = static_cast<Picoseconds>(times[rank(i)].count());
  for (const Segment& segment : segments(0)) {
    const Picoseconds* const message = then(0, false, segment);
    for (std::size_t i = segment.begin; i < segment.end; ++i) ends_[i] += message[i];
  }
  for (std::uint32_t round = 0; round < phase_.rounds(); ++round) {
    ends_[phase_.size] = ends_[0];
    for (const Segment& segment : segments(round + 1)) {
      const Picoseconds* const more = then(round + 1, round < phase_.reducing, segment);
      advance(ends_.data() + segment.begin, more + segment.begin, segment.end - segment.begin);
    }
  }
  for (std::size_t i = 0; i < phase_.size; ++i)
    times[rank(i)] = sim::Time(static_cast<std::int64_t>(ends_[i]));
}

template <typename Picoseconds>
void RingRun<Picoseconds>::prepare(const Stretch& shared) {
  const std::size_t size = phase_.size;
  larger_parts_ = static_cast<std::size_t>(shared.size() % phase_.size);
  ends_.resize(size + 1);
  sampled_.resize(size);
  for (std::size_t larger = 0; larger < 2; ++larger) {
    const std::int64_t bytes = shared.size() / phase_.size + static_cast<std::int64_t>(larger);
    sum_[larger] = scaled(sum_time(links_, bytes));
    message_us_[larger].resize(size);
    message_[larger].resize(size);
    sum_and_message_[larger].resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint32_t to = rank(i == 0 ? size - 1 : i - 1);
      const double us = unsampled_us(links_, rank(i), to, bytes);
      message_us_[larger][i] = us;
      message_[larger][i] = scaled(sim::from_us(us));
      sum_and_message_[larger][i] = sum_[larger] + message_[larger][i];
    }
    last_[larger].assign(size, phase_.gathering > 0 ? 0 : sum_[larger]);
  }
}

/// Divides the places by the size of what they send in this round. Parts decrease as places increase, so
/// those that send larger parts lie between two ranges of the others, or the other way round.
template <typename Picoseconds>
std::array<Segment, 3> RingRun<Picoseconds>::segments(std::uint32_t round) const {
  const std::size_t size = phase_.size;
  const std::size_t end = phase_.part_sent(phase_.size - 1, round) + 1;  // after the place that sends part 0
  if (end >= larger_parts_)
    return {{{0, end - larger_parts_, 0}, {end - larger_parts_, end, 1}, {end, size, 0}}};
  const std::size_t begin = end + size - larger_parts_;
  return {{{0, end, 1}, {end, begin, 0}, {begin, size, 1}}};
}

/// The time from the arrival of a message to the end of sending in round `next`, indexed by place within this
/// segment.
template <typename Picoseconds>
const Picoseconds* RingRun<Picoseconds>::then(std::uint32_t next, bool sums, const Segment& segment) {
  const std::size_t larger = segment.larger;
  if (next == phase_.rounds()) return last_[larger].data();
  if (links_.sigma > 0) {
    draw(next, sums ? sum_[larger] : 0, segment);
    return sampled_.data();
  }
  return (sums ? sum_and_message_ : message_)[larger].data();
}

template <typename Picoseconds>
void RingRun<Picoseconds>::draw(std::uint32_t round, Picoseconds sum, const Segment& segment) {
  const std::vector<double>& us = message_us_[segment.larger];
  const std::size_t count = segment.end - segment.begin;
  const std::uint64_t state = collective_bits(links_, collective_);
  bits_.resize(count);
  factors_.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    bits_[i] = message_bits(state, first_round_ + round, rank(segment.begin + i));
  sim::lognormal_mean_one(bits_, links_.sigma, factors_);
  for (std::size_t i = 0; i < count; ++i) {
    sampled_[segment.begin + i] = sum + scaled(sim::from_us(us[segment.begin + i] * factors_[i]));
  }
}

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

template <typename Picoseconds>
void run_phases(const Rings& rings, const Links& links, std::uint64_t collective, std::span<sim::Time> times,
                unsigned shift) {
  std::uint32_t first_round = 0;
  for (const RingPhase& phase : rings.phases()) {
    RingRun<Picoseconds> run(links, collective, phase, first_round, shift);
    if (phase.rounds() > 0)
      for (std::uint32_t rank = 0; rank < rings.ranks(); ++rank)
        if (phase.member(rank) == 0) run.run(rank, rings.shared(phase, rank), times);
    first_round += phase.rounds();
  }
}

}  // namespace

void run_rings(const Rings& rings, const Links& links, std::uint64_t collective, std::span<sim::Time> times,
               unsigned shift) {
  assert(times.size() == rings.ranks());
  constexpr double kMaxInDoubles = 9e9;  // us; 2^53 ps, above which doubles cannot hold whole numbers
  const double max = max_us(rings, links, times, shift);
  if (max < kMaxInDoubles)
    run_phases<double>(rings, links, collective, times, shift);
  else if (max <= sim::kMaxUs)
    run_phases<std::int64_t>(rings, links, collective, times, shift);
  else
    run_rounds(rings, links, collective, times, shift);  // checks each sum
}

}  // namespace cluster
