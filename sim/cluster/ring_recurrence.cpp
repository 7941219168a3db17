// After S rounds the time at place b is the maximum over all windows that end there, a = b - k, of
//
//   start[a] + message[a] + ... + message[b - 1] + (S - k) x the longest message in a..b,   0 <= k <= S:
//
// a path through the rounds moves k times to the next place and stays S - k times, best where that takes
// longest. Windows with the longest message of the ring are settled by a running maximum. The others lie in
// the chain of places between it and itself, and share their longest message p: their starts are lines over
// message[p], their ends are lines' arguments. Both are kept as upper envelopes while places are added one
// after the other.

#include "sim/cluster/ring_recurrence.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <limits>
#include <vector>

namespace cluster {
namespace {

using Index = std::uint32_t;
__extension__ using Int128 = __int128;
constexpr Index kNone = std::numeric_limits<Index>::max();

/// The part of a ring without its longest message. `Wide` holds products of times and places.
template <typename Wide>
class Chain {
 public:
  /// The three spans are indexed by place in the chain. `origin` is the start minus the sum of the messages
  /// before, so that origin[a] + a x m is what a path from a is worth at a place with sum 0 and longest
  /// message m.
  Chain(std::span<const std::int64_t> message, std::span<const std::int64_t> origin)
      : message_(message), origin_(origin), next_(message.size(), kNone), before_(message.size(), kNone) {
    open_.reserve(message.size());
    envelope_.resize(message.size());
  }

  /// Adds the next place. Returns the maximum of origin[a] + a x m + (rounds - place) x m over all windows
  /// a..place with longest message m.
  std::int64_t add(Index place, std::int64_t rounds) {
    open(place);
    return best_at(rounds - place);
  }

 private:
  /// A place that is the longest of the windows that begin in its range and end at the last place added.
  struct Open {
    std::int64_t message = 0;
    Index head = 0;          ///< start in its range that is best for its message
    Index tail = 0;          ///< last start of the envelope of its range
    std::size_t size = 0;    ///< of the envelope of open places before this one was added
    std::size_t at = 0;      ///< the place of the envelope that its line took
    std::int64_t slope = 0;  ///< what stood there
    std::int64_t constant = 0;
  };
  struct Line {
    std::int64_t slope = 0;
    std::int64_t constant = 0;
    std::int64_t at(std::int64_t x) const { return constant + slope * x; }
  };

  void open(Index place);
  void join(Open& into, const Open& left);
  void push_line(Open& open, const Line& line);
  std::int64_t best_at(std::int64_t x) const;

  std::int64_t start_value(Index start, std::int64_t message) const {
    return origin_[start] + static_cast<std::int64_t>(start) * message;
  }
  /// Whether no message makes the middle one of three starts better than both others.
  bool is_useless(Index left, Index middle, Index right) const {
    return static_cast<Wide>(origin_[left] - origin_[right]) * static_cast<Wide>(middle - left) <=
           static_cast<Wide>(origin_[left] - origin_[middle]) * static_cast<Wide>(right - left);
  }
  static bool is_useless(const Line& steep, const Line& middle, const Line& flat) {
    return static_cast<Wide>(flat.constant - steep.constant) *
               static_cast<Wide>(steep.slope - middle.slope) >=
           static_cast<Wide>(middle.constant - steep.constant) * static_cast<Wide>(steep.slope - flat.slope);
  }

  std::span<const std::int64_t> message_;
  std::span<const std::int64_t> origin_;
  std::vector<Index> next_;     ///< in the envelope of a range of starts
  std::vector<Index> before_;   ///< likewise
  std::vector<Open> open_;      ///< messages decrease
  std::vector<Line> envelope_;  ///< of the open places' lines over the rounds that are left; slopes decrease
  std::size_t size_ = 0;
};

/// Later ranges are only asked for longer messages: a start that a later one has caught up with is dropped.
template <typename Wide>
void Chain<Wide>::open(Index place) {
  Open added = {.message = message_[place], .head = place, .tail = place};
  while (!open_.empty() && open_.back().message <= added.message) {
    const Open& left = open_.back();
    envelope_[left.at] = {left.slope, left.constant};
    size_ = left.size;
    join(added, left);
    open_.pop_back();
  }
  while (added.head != added.tail &&
         start_value(next_[added.head], added.message) >= start_value(added.head, added.message))
    added.head = next_[added.head];
  push_line(added, {added.message, start_value(added.head, added.message)});
  open_.push_back(added);
}

template <typename Wide>
void Chain<Wide>::join(Open& into, const Open& left) {
  Index last = left.tail;
  Index first = into.head;
  for (bool changed = true; changed;) {
    changed = false;
    if (last != left.head && is_useless(before_[last], last, first)) {
      last = before_[last];
      changed = true;
    }
    if (first != into.tail && is_useless(last, first, next_[first])) {
      first = next_[first];
      changed = true;
    }
  }
  next_[last] = first;
  before_[first] = last;
  into.head = left.head;
}

/// Replaces the first line of the envelope that the new one makes useless, which hides those after it. The
/// replaced line returns when the new one goes, and with it the others.
template <typename Wide>
void Chain<Wide>::push_line(Open& open, const Line& line) {
  std::size_t low = size_ == 0 ? 0 : 1;
  std::size_t high = size_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (is_useless(envelope_[middle - 1], envelope_[middle], line))
      high = middle;
    else
      low = middle + 1;
  }
  open.size = size_;
  open.at = low;
  open.slope = envelope_[low].slope;
  open.constant = envelope_[low].constant;
  envelope_[low] = line;
  size_ = low + 1;
}

template <typename Wide>
std::int64_t Chain<Wide>::best_at(std::int64_t x) const {
  std::size_t low = 0;
  std::size_t high = size_ - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (envelope_[middle].at(x) >= envelope_[middle + 1].at(x))
      high = middle;
    else
      low = middle + 1;
  }
  return envelope_[low].at(x);
}

template <typename Wide>
void advance(std::span<const std::int64_t> message, std::uint32_t rounds, std::span<std::int64_t> times) {
  const std::size_t size = message.size();
  const auto longest = static_cast<std::size_t>(std::ranges::max_element(message) - message.begin());
  const std::int64_t max = message[longest];
  // The chain begins after the longest message, which is its last place.
  std::vector<std::int64_t> chain(size);
  std::vector<std::int64_t> sum(size + 1);
  std::vector<std::int64_t> origin(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t place = longest + 1 + i < size ? longest + 1 + i : longest + 1 + i - size;
    chain[i] = message[place];
    origin[i] = times[place] - sum[i];
    sum[i + 1] = sum[i] + chain[i];
  }
  // Paths that pass the longest message: those that begin k places before the chain are worth passing[k].
  std::vector<std::int64_t> passing(size);
  std::int64_t best = std::numeric_limits<std::int64_t>::min();
  for (std::size_t k = 0; k < size; ++k) {
    const std::int64_t place = static_cast<std::int64_t>(size - 1 - k);
    best = std::max(best, origin[size - 1 - k] + sum[size] + (place - static_cast<std::int64_t>(size)) * max);
    passing[k] = best;
  }
  Chain<Wide> windows({chain.data(), size - 1}, {origin.data(), size - 1});
  const auto all = static_cast<std::int64_t>(rounds);
  for (std::size_t i = 0; i + 1 < size; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::size_t longest_path = std::min<std::size_t>(rounds - i, size) - 1;
    const std::int64_t within = windows.add(static_cast<Index>(i), all);
    const std::size_t place = longest + 1 + i < size ? longest + 1 + i : longest + 1 + i - size;
    times[place] = sum[i] + std::max(within, passing[longest_path] + (all - at) * max);
  }
  const std::int64_t whole = passing[size - 1] - sum[size] + static_cast<std::int64_t>(size) * max;
  times[longest] = whole + sum[size - 1] + (all - static_cast<std::int64_t>(size) + 1) * max;
}

}  // namespace

void advance_ring(std::span<const std::int64_t> message, std::uint32_t rounds,
                  std::span<std::int64_t> times) {
  assert(message.size() == times.size() && rounds + 1 >= message.size());
  if (rounds == 0) return;
  const auto [first, last] = std::ranges::minmax(times);
  const std::int64_t range = (last - first) + static_cast<std::int64_t>(rounds) * std::ranges::max(message);
  // Differences of times are multiplied with differences of places or of messages.
  const double factor = std::max<double>(rounds, static_cast<double>(std::ranges::max(message)));
  constexpr double kMaxProduct = 1e18;
  for (std::int64_t& time : times) time -= first;
  if (4 * static_cast<double>(range) * factor < kMaxProduct)
    advance<std::int64_t>(message, rounds, times);
  else
    advance<Int128>(message, rounds, times);
  for (std::int64_t& time : times) time += first;
}

}  // namespace cluster
