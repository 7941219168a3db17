// After S rounds the time at place b is the maximum over all windows that end there, a = b - k, of
//
//   start[a] + message[a] + ... + message[b - 1] + (S - k) x the longest message in a..b,   0 <= k <= S:
//
// a path through the rounds moves k times to the next place and stays S - k times, best where that takes
// longest. Windows with the longest message of the ring are settled by a running maximum. The others lie in
// the chain of places between it and itself. There a path may stay at any place p of its window, for no other
// choice is better than the longest message. So with `sum` over the messages of the chain before a place
//
//   time[b] = sum[b] + max over p <= b of (F(p) + (S - b) message[p]),
//   F(p)    = max over a <= p of (start[a] - sum[a] + a message[p]).
//
// Both maxima are over lines. The starts are lines over the message; their upper envelope grows at its end,
// as slopes are places. The places p are lines over the rounds S - b that are left, of which there are ever
// fewer. If message[q] > message[p] for a later place q, then F(q) >= F(p), so that q is better from there
// on: the upper envelope of the places is a stack whose slopes fall. Most places are no match for it, and
// this is seen from a bound of F(p): then F(p) is not worked out.

#include "sim/cluster/ring_recurrence.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

namespace cluster {
namespace {

__extension__ using Int128 = __int128;

struct Line {
  std::int64_t slope = 0;
  std::int64_t constant = 0;
  std::int64_t at(std::int64_t x) const { return constant + slope * x; }
};

/// Whether the middle one of three lines is nowhere better than both others; slopes rise or fall. `Wide`
/// holds products of times with places or messages.
template <typename Wide>
bool is_useless(const Line& first, const Line& middle, const Line& last) {
  const bool rises = first.slope < last.slope;
  const Line& flat = rises ? first : last;
  const Line& steep = rises ? last : first;
  return static_cast<Wide>(flat.constant - steep.constant) * static_cast<Wide>(steep.slope - middle.slope) >=
         static_cast<Wide>(middle.constant - steep.constant) * static_cast<Wide>(steep.slope - flat.slope);
}

/// The upper envelope of the starts a = 0, 1, ... as lines origin[a] + a x message, over the messages from
/// `shortest` to `longest`.
template <typename Wide>
class Starts {
 public:
  Starts(std::int64_t shortest, std::int64_t longest) : shortest_(shortest), longest_(longest) {}

  /// Adds the next start; those that one before it or after it is as good as for all messages are left out.
  void add(const Line& start) {
    if (start.at(longest_) <= greatest_) return;
    greatest_ = start.at(longest_);
    while (!lines_.empty() && lines_.back().at(shortest_) <= start.at(shortest_)) lines_.pop_back();
    while (lines_.size() > 1 && is_useless<Wide>(lines_[lines_.size() - 2], lines_.back(), start))
      lines_.pop_back();
    lines_.push_back(start);
  }

  /// Returns the best for the longest message, which is the greatest for any.
  std::int64_t greatest() const { return greatest_; }

  std::int64_t best(std::int64_t message) const {
    std::size_t low = 0;
    for (std::size_t high = lines_.size() - 1; low < high;) {
      const std::size_t middle = (low + high) / 2;
      if (lines_[middle].at(message) >= lines_[middle + 1].at(message))
        high = middle;
      else
        low = middle + 1;
    }
    return lines_[low].at(message);
  }

 private:
  std::int64_t shortest_;
  std::int64_t longest_;
  std::int64_t greatest_ = std::numeric_limits<std::int64_t>::min();
  std::vector<Line> lines_;
};

/// The upper envelope of lines over x that only falls, down to `least_x`; the slopes of its lines fall.
template <typename Wide>
class Places {
 public:
  Places(const Line& first, std::int64_t least_x) : least_x_(least_x), lines_{first} {}

  /// Whether a line may be on the envelope. A line that is steeper than the last one, which is the best at
  /// `least_x`, must be as good as all that are not steeper.
  bool has_room_for(const Line& line) const {
    return line.slope > lines_.back().slope || line.at(least_x_) > lines_.back().at(least_x_);
  }

  /// Adds a line for which there is room.
  void add(const Line& line) {
    while (lines_.size() > best_ && lines_.back().slope <= line.slope) lines_.pop_back();
    while (lines_.size() > best_ + 1 && is_useless<Wide>(lines_[lines_.size() - 2], lines_.back(), line))
      lines_.pop_back();
    lines_.push_back(line);
  }

  /// x never grows.
  std::int64_t best_at(std::int64_t x) {
    std::int64_t best = lines_[best_].at(x);
    for (; best_ + 1 < lines_.size(); ++best_) {
      const std::int64_t next = lines_[best_ + 1].at(x);
      if (next < best) break;
      best = next;
    }
    return best;
  }

 private:
  std::int64_t least_x_;
  std::vector<Line> lines_;
  std::size_t best_ = 0;  // no line before is better, for good
};

/// Counts times from `zero`; none is later than `last_start` after it. `longest` has the longest message.
template <typename Wide>
void advance(std::span<const std::int64_t> message, std::uint32_t rounds, std::span<std::int64_t> times,
             std::size_t longest, std::int64_t zero, std::int64_t last_start) {
  const std::size_t size = message.size();
  const std::int64_t max = message[longest];
  const auto all = static_cast<std::int64_t>(rounds);
  // The chain begins after the longest message, which is its last place.
  const auto memory = std::make_unique_for_overwrite<std::int64_t[]>(5 * size);
  const auto array = [&](std::size_t index) { return std::span(memory.get() + index * size, size); };
  const std::span<std::int64_t> chain = array(0);
  const std::span<std::int64_t> sum = array(1);
  const std::span<std::int64_t> origin = array(2);
  const std::span<std::int64_t> passing = array(3);
  const std::span<std::int64_t> end = array(4);
  const auto first_of_chain = static_cast<std::ptrdiff_t>(longest + 1);
  std::rotate_copy(message.begin(), message.begin() + first_of_chain, message.end(), chain.begin());
  std::rotate_copy(times.begin(), times.begin() + first_of_chain, times.end(), origin.begin());
  std::exclusive_scan(chain.begin(), chain.end(), sum.begin(), std::int64_t{0});
  for (std::size_t i = 0; i < size; ++i) origin[i] -= sum[i] + zero;
  // Paths that pass the longest message: those that begin k places before the chain are worth passing[k].
  const std::int64_t whole_sum = sum[size - 1] + max;
  std::int64_t best = std::numeric_limits<std::int64_t>::min();
  for (std::size_t k = 0; k < size; ++k) {
    best = std::max(best, origin[size - 1 - k] + whole_sum - static_cast<std::int64_t>(k + 1) * max);
    passing[k] = best;
  }
  for (std::size_t i = 0; i + 1 < size; ++i) {
    const std::size_t longest_path = std::min<std::size_t>(rounds - i, size) - 1;
    end[i] = sum[i] + passing[longest_path] + (all - static_cast<std::int64_t>(i)) * max;
  }
  if (size > 1) {
    // A window ends at most `rounds` x its longest message after the last start. No end so far is sooner than
    // the last one: each place takes away as much as the longest message exceeds the place's own.
    const std::int64_t spare = end[size - 2] - last_start;
    const std::int64_t ignored = spare < 0 ? -1 : spare / all;
    const std::int64_t least_left = all - static_cast<std::int64_t>(size - 2);
    Starts<Wide> starts(ignored, max);
    Places<Wide> places({max, end[size - 2] - sum[size - 2] - least_left * max}, least_left);
    for (std::size_t i = 0; i + 1 < size; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      starts.add({place, origin[i]});
      const std::int64_t own = chain[i];
      if (own > ignored &&
          places.has_room_for({own, std::min(starts.greatest(), last_start - sum[i] + place * own)})) {
        const Line line = {own, starts.best(own)};
        if (places.has_room_for(line)) places.add(line);
      }
      end[i] = std::max(end[i], sum[i] + places.best_at(all - place));
    }
  }
  end[size - 1] = passing[size - 1] - whole_sum + sum[size - 1] + (all + 1) * max;
  for (std::int64_t& each : end) each += zero;
  std::rotate_copy(end.begin(), end.end() - first_of_chain, end.end(), times.begin());
}

}  // namespace

void advance_ring(std::span<const std::int64_t> message, std::uint32_t rounds,
                  std::span<std::int64_t> times) {
  assert(message.size() == times.size() && rounds + 1 >= message.size());
  if (rounds == 0) return;
  const auto longest = static_cast<std::size_t>(std::ranges::max_element(message) - message.begin());
  const auto [first, last] = std::ranges::minmax(times);
  const std::int64_t range = (last - first) + static_cast<std::int64_t>(rounds) * message[longest];
  // Differences of times are multiplied with differences of places or of messages.
  const double factor = std::max<double>(rounds, static_cast<double>(message[longest]));
  constexpr double kMaxProduct = 1e18;
  if (4 * static_cast<double>(range) * factor < kMaxProduct)
    advance<std::int64_t>(message, rounds, times, longest, first, last - first);
  else
    advance<Int128>(message, rounds, times, longest, first, last - first);
}

}  // namespace cluster
