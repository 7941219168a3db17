// After S rounds the time at place b is the maximum over all windows that end there, a = b - k, of
//
//   start[a] + message[a] + ... + message[b - 1] + (S - k) x the longest message in a..b,   0 <= k <= S:
//
// a path through the rounds moves k times to the next place and stays S - k times, best where that takes
// longest. Windows with the longest message of the ring are settled by a running maximum. The others lie in
// the chain of places between it and itself, and share their longest message p: their starts are lines over
// message[p], their ends are lines' arguments. Both are kept as upper envelopes while places are added one
// after the other. Windows whose longest message is too short to decide anything are left out.

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
  /// Both spans are indexed by place in the chain. `origin` is the start minus the sum of the messages
  /// before, so that origin[a] + a x m is what a path from a is worth at a place with sum 0 and longest
  /// message m. Windows whose longest message is at most `ignored` are left out.
  Chain(std::span<const std::int64_t> message, std::span<const std::int64_t> origin, std::int64_t ignored)
      : message_(message),
        origin_(origin),
        ignored_(ignored),
        next_(message.size()),
        before_(message.size()) {}

  /// Adds the next place. Returns the maximum of origin[a] + a x m + (rounds - place) x m over all windows
  /// a..place with longest message m; the least integer if there is none.
  std::int64_t add(Index place, std::int64_t rounds) {
    if (message_[place] <= ignored_)
      wait(place);
    else
      open(place);
    return open_.empty() ? std::numeric_limits<std::int64_t>::min() : best_at(rounds - place);
  }

 private:
  /// The envelope of a range of starts, linked by next_ and before_, over messages from some length on.
  struct Starts {
    Index head = kNone;  ///< the best for the shortest of these messages; none if the range is empty
    Index tail = kNone;
  };
  struct Line {
    std::int64_t slope = 0;
    std::int64_t constant = 0;
    std::int64_t at(std::int64_t x) const { return constant + slope * x; }
  };

  /// A place that has the longest message of all windows from its range of starts to the last place added.
  struct Open {
    std::int64_t message = 0;
    Starts starts;
    std::size_t size = 0;  ///< of the envelope of open places before this one was added
    std::size_t at = 0;    ///< the place in the envelope that its line took
    Line replaced;         ///< what stood there
  };

  void wait(Index place);
  void open(Index place);
  Starts join(const Starts& left, const Starts& right);
  void push_line(Open& open, const Line& line);
  std::int64_t best_at(std::int64_t x);

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
  std::int64_t ignored_;
  std::vector<Index> next_;
  std::vector<Index> before_;
  Starts waiting_;              ///< after the last open place
  std::vector<Open> open_;      ///< messages decrease
  std::vector<Line> envelope_;  ///< of the open places' lines over the rounds that are left; slopes decrease
  std::size_t size_ = 0;        ///< lines of the envelope that are in use
  std::size_t best_ = 0;        ///< no line before is better with as few rounds as last asked for
};

/// Adds a start for later places. None asks for a shorter message than `ignored_`.
template <typename Wide>
void Chain<Wide>::wait(Index place) {
  const std::int64_t value = start_value(place, ignored_);
  Starts& starts = waiting_;
  while (starts.head != kNone && start_value(starts.tail, ignored_) <= value) {
    if (starts.head == starts.tail) starts.head = kNone;
    starts.tail = before_[starts.tail];
  }
  waiting_ = join(starts, {place, place});
}

/// Later, ranges are only asked for longer messages: a start that a later one has caught up with is dropped.
template <typename Wide>
void Chain<Wide>::open(Index place) {
  Open added = {.message = message_[place], .starts = join(waiting_, {place, place}), .replaced = {}};
  waiting_ = {};
  while (!open_.empty() && open_.back().message <= added.message) {
    const Open& left = open_.back();
    envelope_[left.at] = left.replaced;
    size_ = left.size;
    added.starts = join(left.starts, added.starts);
    open_.pop_back();
  }
  Index& head = added.starts.head;
  while (head != added.starts.tail &&
         start_value(next_[head], added.message) >= start_value(head, added.message))
    head = next_[head];
  push_line(added, {added.message, start_value(head, added.message)});
  open_.push_back(added);
}

/// Links two neighbouring envelopes, without the starts at their border that have become useless.
template <typename Wide>
auto Chain<Wide>::join(const Starts& left, const Starts& right) -> Starts {
  if (left.head == kNone) return right;
  Index last = left.tail;
  Index first = right.head;
  for (bool changed = true; changed;) {
    changed = false;
    if (last != left.head && is_useless(before_[last], last, first)) {
      last = before_[last];
      changed = true;
    }
    if (first != right.tail && is_useless(last, first, next_[first])) {
      first = next_[first];
      changed = true;
    }
  }
  next_[last] = first;
  before_[first] = last;
  return {left.head, right.tail};
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
  if (low == envelope_.size()) envelope_.emplace_back();
  open.size = size_;
  open.at = low;
  open.replaced = envelope_[low];
  envelope_[low] = line;
  size_ = low + 1;
  best_ = 0;
}

template <typename Wide>
std::int64_t Chain<Wide>::best_at(std::int64_t x) {
  if (best_ == 0) {
    std::size_t high = size_ - 1;
    while (best_ < high) {
      const std::size_t middle = (best_ + high) / 2;
      if (envelope_[middle].at(x) >= envelope_[middle + 1].at(x))
        high = middle;
      else
        best_ = middle + 1;
    }
  }
  std::int64_t best = envelope_[best_].at(x);
  for (; best_ + 1 < size_; ++best_) {
    const std::int64_t next = envelope_[best_ + 1].at(x);
    if (next < best) break;
    best = next;
  }
  return best;
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
  const auto all = static_cast<std::int64_t>(rounds);
  std::vector<std::int64_t> end(size);
  std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i + 1 < size; ++i) {
    const std::size_t longest_path = std::min<std::size_t>(rounds - i, size) - 1;
    end[i] = sum[i] + passing[longest_path] + (all - static_cast<std::int64_t>(i)) * max;
    first_end = std::min(first_end, end[i]);
  }
  // A window ends at most `rounds` x its longest message after the last start.
  const std::int64_t spare = first_end - std::ranges::max(times);
  const std::int64_t ignored = spare < 0 ? -1 : spare / all;
  Chain<Wide> windows({chain.data(), size - 1}, {origin.data(), size - 1}, ignored);
  for (std::size_t i = 0; i + 1 < size; ++i) {
    const std::int64_t within = windows.add(static_cast<Index>(i), all);
    if (within > end[i] - sum[i]) end[i] = sum[i] + within;
  }
  for (std::size_t i = 0; i + 1 < size; ++i)
    times[longest + 1 + i < size ? longest + 1 + i : longest + 1 + i - size] = end[i];
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
