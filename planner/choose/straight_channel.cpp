// On one straight piece a group from cut c to cut e takes a + b (S(e) - S(c)), where S counts bytes. The
// recurrence of the earliest ends is f(e) = min over c < e of max(f(c), ready(e)) + time(c, e).
//
// f never falls: from a grouping of the gradients before e + 1 leave out the last one, and no group takes
// longer. So the cuts with f(c) <= ready(e) are the first ones, and the last of these is the best of them, as
// its group has the fewest bytes. For the others f(c) + a + b (S(e) - S(c)) is to be minimised, hence the key
// f(c) - b S(c). These cuts, and those whose group is on this piece, are a window of which both ends only
// move forward as e grows, so a queue of the keys that are below all later ones gives the minimum.
//
// A duration is rounded to whole picoseconds, but f(c) is whole, so f(c) + round(x) = round(f(c) + x): the
// least key has the least rounded end. The durations as computed in floating point are off by at most
// `error`, however. A cut is therefore only believed if no key of the window can round to less; otherwise,
// rarely, each cut of the window whose key is as good up to `error` is computed. What is returned is always
// the minimum over the durations as computed. Keys are doubles, or finer where their `error` would be so
// large that this is not rare: without startup all keys are nearly equal, and each cut would be computed each
// time.
//
// Backwards, L(k, c) is the latest time at which the channel may become free at cut c so that k more groups
// end in time: the maximum over e of L(k - 1, e) - time(c, e), where that is at least ready(e). For each e
// this holds for the cuts from some cut on, as longer groups take longer. A heap of the keys
// L(k - 1, e) - b S(e), from which these leave for good as c falls, gives the maximum. A cut that the channel
// cannot reach so soon, or that fewer groups may leave as late, is dropped.

#include "planner/choose/straight_channel.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace planner {
namespace {

using sim::Time;

/// The line startup + slope * (bytes before rounding) of the groups of [from, to) bytes on the wire. `Key` is
/// a floating-point type for picoseconds.
template <typename Key>
struct Piece {
  double from = 0;
  double to = std::numeric_limits<double>::infinity();
  Key startup = 0;
  Key slope = 0;  ///< for each byte of a gradient
  Key error = 0;  ///< bound of the difference between a duration or key as computed and the exact one
};

/// The sizes at which pieces of the curve begin, in order, from 0.
std::vector<double> breaks(const core::CostCurve& curve) {
  std::vector<double> out = {0};
  const auto add = [&](double bytes) {
    if (bytes > out.back()) out.push_back(bytes);
  };
  for (const auto& [bytes, us] : curve.points()) add(bytes);
  for (const core::CostCurve::Segment& segment : curve.segments()) add(segment.from_bytes);
  return out;
}

/// The line through both ends of a piece, up to the bytes of all gradients, for keys of times up to `latest`.
/// Between the ends it is as close to the exact line as the computed ends are.
template <typename Key>
Piece<Key> line_of(const StraightChannel& channel, double from, double to, Time latest) {
  constexpr Key kPicosecondsPerUs = 1e6;
  const double all = channel.wire_bytes(0, channel.count());
  const double last = std::min(std::nextafter(to, 0.0), all);
  const Key begin_us = channel.curve.us(from);
  const Key end_us = channel.curve.us(last);
  const Key slope = last > from ? (end_us - begin_us) / (Key(last) - Key(from)) : 0;
  Piece<Key> out = {.from = from,
                    .to = to,
                    .startup = (begin_us - slope * from) * kPicosecondsPerUs,
                    .slope = slope * channel.wire * kPicosecondsPerUs};
  // Rounded are the bytes, what they exceed `from` by, its product with the slope, the sum, and picoseconds.
  const bool is_exact = channel.wire == 1 && all < 0x1p53;
  const Key us = 2 * Key(channel.curve.us(all)) + (is_exact ? 0 : slope * all);
  const Key greatest = Key(latest.count()) + std::abs(out.startup) + 2 * slope * all * kPicosecondsPerUs;
  out.error = 2 * us * kPicosecondsPerUs * std::numeric_limits<double>::epsilon() +
              8 * greatest * std::numeric_limits<Key>::epsilon();
  return out;
}

template <typename Key>
std::vector<Piece<Key>> pieces_of(const StraightChannel& channel, Time latest) {
  const std::vector<double> from = breaks(channel.curve);
  std::vector<Piece<Key>> out;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] > channel.wire_bytes(0, channel.count())) break;
    const bool is_last = i + 1 == from.size();
    out.push_back(line_of<Key>(channel, from[i],
                               is_last ? std::numeric_limits<double>::infinity() : from[i + 1], latest));
  }
  return out;
}

/// Whether keys of this type are exact enough for all pieces.
template <typename Key>
bool are_exact(const std::vector<Piece<Key>>& pieces) {
  constexpr Key kMaxError = 1.0 / 64;  // ps: about one end in 32 lies so near to where rounding changes
  return std::ranges::all_of(pieces, [](const Piece<Key>& piece) { return piece.error <= kMaxError; });
}

template <typename Key>
Key bytes_at(const StraightChannel& channel, std::uint32_t cut) {
  return static_cast<Key>(channel.bytes_before[cut]);
}

/// The least end to which an exact end may be rounded as computed.
template <typename Key>
Time least_rounded(Key exact, Key error) {
  const Key least = exact - error + Key(0.5);
  const auto whole = static_cast<std::int64_t>(least);  // truncates; far cheaper than floor
  return Time(whole - (static_cast<Key>(whole) > least ? 1 : 0));
}

/// The cuts at which a group that ends at the present cut may begin, of one piece, while the channel is busy.
template <typename Key>
class Window {
 public:
  Window(const StraightChannel& channel, const Piece<Key>& piece, const std::vector<Time>& ends)
      : channel_(channel), piece_(piece), ends_(ends) {
    queue_.reserve(ends.size());
  }

  /// Moves to groups that end at `end` and begin after cut `idle`; lowers `best` to their least end.
  void improve(std::uint32_t end, std::uint32_t idle, Time& best) {
    for (; to_ < end && channel_.wire_bytes(to_, end) >= piece_.from; ++to_) add(to_);
    while (from_ < to_ && (from_ <= idle || channel_.wire_bytes(from_, end) >= piece_.to)) ++from_;
    while (head_ < queue_.size() && queue_[head_].cut < from_) ++head_;
    if (head_ == queue_.size()) return;
    const Key rest = piece_.startup + piece_.slope * bytes_at<Key>(channel_, end);
    const Time least = least_rounded(queue_[head_].key + rest, piece_.error);
    if (least >= best) return;
    best = std::min(best, end_after(queue_[head_].cut, end));
    for (std::uint32_t cut = from_; cut < to_ && best > least; ++cut) {
      const Key good = static_cast<Key>(best.count()) - Key(0.5) - rest + piece_.error;
      if (least_of_block_[cut / kBlock] > good)
        cut |= kBlock - 1;
      else if (key(cut) <= good)
        best = std::min(best, end_after(cut, end));
    }
  }

 private:
  static constexpr std::uint32_t kBlock = 256;

  struct Entry {
    Key key = 0;
    std::uint32_t cut = 0;
  };

  Key key(std::uint32_t cut) const {
    return static_cast<Key>(ends_[cut].count()) - piece_.slope * bytes_at<Key>(channel_, cut);
  }
  Time end_after(std::uint32_t cut, std::uint32_t end) const { return ends_[cut] + channel_.time(cut, end); }

  void add(std::uint32_t cut) {
    const Entry entry = {.key = key(cut), .cut = cut};
    while (queue_.size() > head_ && queue_.back().key >= entry.key) queue_.pop_back();
    queue_.push_back(entry);
    if (cut % kBlock == 0) least_of_block_.push_back(entry.key);
    least_of_block_.back() = std::min(least_of_block_.back(), entry.key);
  }

  const StraightChannel& channel_;
  const Piece<Key>& piece_;
  const std::vector<Time>& ends_;
  std::uint32_t from_ = 0;  // the window is from_ to to_ - 1
  std::uint32_t to_ = 0;
  std::vector<Entry> queue_;  // from head_ on: keys that grow
  std::size_t head_ = 0;
  std::vector<Key> least_of_block_;  // by cut / kBlock
};

/// The channel may become free at `cut` as late as `latest`. The next group ends there.
struct Ending {
  std::uint32_t cut = 0;
  Time latest{};
};

constexpr Time kNever = Time::min();

/// The latest time at which the channel may become free at `begin` before a group to this ending; kNever if
/// the gradients of that group are not ready so soon. That is so for all cuts before some cut.
Time latest_start(const StraightChannel& channel, std::uint32_t begin, const Ending& ending) {
  const Time start = ending.latest - channel.time(begin, ending.cut);
  return start >= channel.ready[ending.cut - 1] ? start : kNever;
}

/// The endings to which a group of one piece from the present cut may lead.
template <typename Key>
class Heap {
 public:
  Heap(const StraightChannel& channel, const Piece<Key>& piece, const std::vector<Ending>& endings)
      : channel_(channel), piece_(piece), endings_(endings) {}

  /// Moves to groups that begin at `begin`, which is lower than any before.
  void move_to(std::uint32_t begin) {
    for (; next_ < endings_.size() && endings_[next_].cut > begin &&
           channel_.wire_bytes(begin, endings_[next_].cut) >= piece_.from;
         ++next_) {
      const Ending& ending = endings_[next_];
      heap_.push_back({.key = static_cast<Key>(ending.latest.count()) -
                              piece_.slope * bytes_at<Key>(channel_, ending.cut),
                       .ending = static_cast<std::uint32_t>(next_)});
      std::push_heap(heap_.begin(), heap_.end(), has_lower_key);
    }
    while (!heap_.empty() && start_of(heap_.front(), begin) == kNever) pop();
  }

  bool is_empty() const { return heap_.empty(); }
  std::size_t next() const { return next_; }

  /// Raises `best` to the latest time at which the channel may become free at `begin`.
  void improve(std::uint32_t begin, Time& best) {
    if (heap_.empty()) return;
    const Key rest = piece_.slope * bytes_at<Key>(channel_, begin) - piece_.startup;
    const auto latest_rounded = [&](Key key) { return -least_rounded(-(key + rest), piece_.error); };
    const Time latest = latest_rounded(heap_.front().key);
    if (latest <= best) return;
    best = std::max(best, start_of(heap_.front(), begin));
    if (best == latest) return;
    aside_.clear();
    while (!heap_.empty() && latest_rounded(heap_.front().key) > best) {
      const Time start = start_of(heap_.front(), begin);
      best = std::max(best, start);
      if (start != kNever) aside_.push_back(heap_.front());
      pop();
    }
    for (const Entry& entry : aside_) push(entry);
  }

 private:
  struct Entry {
    Key key = 0;
    std::uint32_t ending = 0;
  };
  static bool has_lower_key(const Entry& a, const Entry& b) { return a.key < b.key; }

  void push(const Entry& entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), has_lower_key);
  }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), has_lower_key);
    heap_.pop_back();
  }

  /// kNever if a group from `begin` is too long for the piece, or cannot end in time.
  Time start_of(const Entry& entry, std::uint32_t begin) const {
    const Ending& ending = endings_[entry.ending];
    if (channel_.wire_bytes(begin, ending.cut) >= piece_.to) return kNever;
    return latest_start(channel_, begin, ending);
  }

  const StraightChannel& channel_;
  const Piece<Key>& piece_;
  const std::vector<Ending>& endings_;  // by falling cut
  std::size_t next_ = 0;
  std::vector<Entry> heap_;
  std::vector<Entry> aside_;  // looked at for one cut
};

/// Finds endings with more and more groups.
template <typename Key>
class Backward {
 public:
  Backward(const StraightChannel& channel, std::vector<Piece<Key>> pieces, const std::vector<Time>& ends,
           Time by)
      : channel_(channel), ends_(ends), pieces_(std::move(pieces)), latest_(ends.size(), Time::min()) {
    keep(levels_.emplace_back(), channel.count(), by);
  }

  Groups run() {
    while (!first_end()) add_level();
    Groups out = {{.begin = 0, .end = *first_end()}};
    for (std::size_t left = levels_.size() - 1; left-- > 0;)
      out.push_back({.begin = out.back().end, .end = next_end(out.back().end, left)});
    return out;
  }

 private:
  void keep(std::vector<Ending>& endings, std::uint32_t cut, Time latest) {
    latest_[cut] = latest;
    const Ending ending = {.cut = cut, .latest = latest};
    if (latest_start(channel_, cut - 1, ending) != kNever) endings.push_back(ending);
  }

  /// The end of the shortest first group that leads to the last level; none if no group does.
  std::optional<std::uint32_t> first_end() const {
    const std::vector<Ending>& last = levels_.back();
    const auto found = std::find_if(last.rbegin(), last.rend(), [&](const Ending& ending) {
      return latest_start(channel_, 0, ending) != kNever;
    });
    return found == last.rend() ? std::nullopt : std::optional(found->cut);
  }

  void add_level() {
    std::vector<Ending> found;
    const std::vector<Ending>& endings = levels_.back();
    assert(!endings.empty());
    std::vector<Heap<Key>> heaps;
    for (const Piece<Key>& piece : pieces_) heaps.emplace_back(channel_, piece, endings);
    for (std::uint32_t begin = endings.front().cut; begin-- > 1;) {
      bool all_empty = true;
      for (Heap<Key>& heap : heaps) {
        heap.move_to(begin);
        all_empty = all_empty && heap.is_empty();
      }
      if (all_empty) {  // an ending leaves one piece as it enters the next, so none is on its way
        const std::size_t next = heaps.front().next();
        if (next == endings.size()) break;
        begin = endings[next].cut;
        continue;
      }
      Time best = std::max(latest_[begin], ends_[begin] - Time(1));
      const Time least = best;
      for (Heap<Key>& heap : heaps) heap.improve(begin, best);
      if (best > least) keep(found, begin, best);
    }
    levels_.push_back(std::move(found));
  }

  /// The end of the group from `begin` that leaves `left` groups after it.
  std::uint32_t next_end(std::uint32_t begin, std::size_t left) const {
    const Time latest = latest_at(begin, left + 1);
    const auto is_next = [&](const Ending& ending) {
      return ending.cut > begin && latest_start(channel_, begin, ending) == latest;
    };
    const auto found = std::ranges::find_if(levels_[left], is_next);
    assert(found != levels_[left].end());
    return found->cut;
  }

  Time latest_at(std::uint32_t cut, std::size_t left) const {
    const auto found =
        std::lower_bound(levels_[left].begin(), levels_[left].end(), cut,
                         [](const Ending& ending, std::uint32_t at) { return ending.cut > at; });
    return found->latest;
  }

  const StraightChannel& channel_;
  const std::vector<Time>& ends_;
  std::vector<Piece<Key>> pieces_;
  std::vector<Time> latest_;                 // by cut: with any number of groups so far
  std::vector<std::vector<Ending>> levels_;  // by number of groups to the end
};

template <typename Key>
std::vector<Time> earliest_ends_with(const StraightChannel& channel, const std::vector<Piece<Key>>& pieces) {
  std::vector<Time> ends(channel.ready.size() + 1);
  std::vector<Window<Key>> windows;
  for (const Piece<Key>& piece : pieces) windows.emplace_back(channel, piece, ends);
  std::uint32_t idle = 0;  // the last cut that the channel may leave before the gradient is ready
  for (std::uint32_t end = 1; end <= channel.count(); ++end) {
    const Time ready = channel.ready[end - 1];
    while (idle + 1 < end && ends[idle + 1] <= ready) ++idle;
    Time best = ready + channel.time(idle, end);
    for (Window<Key>& window : windows) window.improve(end, idle, best);
    ends[end] = best;
  }
  return ends;
}

template <typename Key>
std::vector<Time> latest_starts_with(const StraightChannel& channel, const std::vector<Piece<Key>>& pieces,
                                     const std::vector<Time>& ends, Time by) {
  std::vector<Time> out(ends.size(), kNever);
  std::vector<Ending> endings = {{.cut = channel.count(), .latest = by}};
  out.back() = by;
  std::vector<Heap<Key>> heaps;
  for (const Piece<Key>& piece : pieces) heaps.emplace_back(channel, piece, endings);
  for (std::uint32_t begin = channel.count(); begin-- > 0;) {
    const Time too_soon = ends[begin] - Time(1);
    Time best = too_soon;
    for (Heap<Key>& heap : heaps) {
      heap.move_to(begin);
      heap.improve(begin, best);
    }
    if (best == too_soon) continue;
    out[begin] = best;
    endings.push_back({.cut = begin, .latest = best});
  }
  return out;
}

}  // namespace

std::vector<Time> earliest_ends(const StraightChannel& channel) {
  const Time together = channel.ready.back() + channel.time(0, channel.count());
  const auto pieces = pieces_of<double>(channel, together);
  return are_exact(pieces) ? earliest_ends_with(channel, pieces)
                           : earliest_ends_with(channel, pieces_of<long double>(channel, together));
}

std::vector<Time> latest_starts(const StraightChannel& channel, const std::vector<Time>& ends, Time by) {
  const auto pieces = pieces_of<double>(channel, by);
  return are_exact(pieces) ? latest_starts_with(channel, pieces, ends, by)
                           : latest_starts_with(channel, pieces_of<long double>(channel, by), ends, by);
}

Groups simplest_groups(const StraightChannel& channel, const std::vector<Time>& ends, Time by) {
  auto pieces = pieces_of<double>(channel, by);
  return are_exact(pieces)
             ? Backward<double>(channel, std::move(pieces), ends, by).run()
             : Backward<long double>(channel, pieces_of<long double>(channel, by), ends, by).run();
}

}  // namespace planner
