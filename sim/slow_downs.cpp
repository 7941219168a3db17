#include "sim/slow_downs.hpp"

#include <cmath>

namespace sim {
namespace {

/// Rounds to the nearest picosecond, halves up.
Time rounded(double picoseconds) {
  if (!(picoseconds <= static_cast<double>(kMaxTime.count()))) too_long(picoseconds / 1e6);
  return Time(static_cast<std::int64_t>(std::floor(picoseconds + 0.5)));
}

}  // namespace

SlowDowns::SlowDowns(const TaskGraph& graph)
    : streams_(graph.streams().size()), row_starts_(graph.streams().size() + 1) {
  // A counting sort by the slowing stream, as for the graph's edges by the earlier task.
  for (const Interference& rule : graph.interferences()) {
    if (!matters(rule)) continue;
    streams_[index(rule.stream)].factor = rule.factor;
    for (const StreamId slower : rule.by) ++row_starts_[index(slower)];
  }
  for (std::size_t i = 1; i < row_starts_.size(); ++i) row_starts_[i] += row_starts_[i - 1];
  slows_.resize(row_starts_.back());
  for (const Interference& rule : graph.interferences())
    if (matters(rule))
      for (const StreamId slower : rule.by) slows_[--row_starts_[index(slower)]] = rule.stream;
}

std::span<const SlowDowns::NewEnd> SlowDowns::settle(Time now) {
  new_ends_.clear();
  for (const StreamId id : changed_) count(id);
  for (const StreamId id : crossed_) change_rate(id, now);
  crossed_.clear();
  for (const StreamId id : changed_) {
    Stream& stream = streams_[index(id)];
    stream.in_changed = false;
    if (stream.running == Running::fresh) set_off(stream, now);
  }
  changed_.clear();
  return new_ends_;
}

/// Updates the streams that this one slows when it becomes busy or idle.
void SlowDowns::count(StreamId id) {
  Stream& stream = streams_[index(id)];
  const bool busy = stream.running != Running::nothing;
  if (std::exchange(stream.counted, busy) == busy) return;
  for (std::uint32_t i = row_starts_[index(id)]; i < row_starts_[index(id) + 1]; ++i) {
    Stream& slowed = streams_[index(slows_[i])];
    slowed.busy_slowers += busy ? 1U : UINT32_MAX;  // that is, minus 1
    if (slowed.busy_slowers == (busy ? 1U : 0U) && !std::exchange(slowed.in_crossed, true))
      crossed_.push_back(slows_[i]);
  }
}

void SlowDowns::change_rate(StreamId id, Time now) {
  Stream& stream = streams_[index(id)];
  stream.in_crossed = false;
  const bool was_slowed = std::exchange(stream.slowed, stream.busy_slowers > 0);
  if (was_slowed == stream.slowed || stream.running != Running::settled) return;
  if (was_slowed)
    stream.slowed_for += now - stream.since;
  else
    stream.left_at_full_speed -= now - stream.since;
  set_off(stream, now);
}

void SlowDowns::set_off(Stream& stream, Time now) {
  stream.running = Running::settled;
  stream.since = now;
  new_ends_.push_back({stream.task, end_of(stream)});
}

/// The remaining work is left_at_full_speed - slowed_for / factor. The unrounded part stays an integer: a
/// double cannot hold two and a half hours to the picosecond.
Time SlowDowns::end_of(const Stream& stream) {
  const auto left = static_cast<double>(stream.left_at_full_speed.count());
  const auto slowed_for = static_cast<double>(stream.slowed_for.count());
  const Time whole = stream.since + stream.left_at_full_speed;
  if (stream.slowed) return after(whole - stream.slowed_for, rounded(left * (stream.factor - 1)));
  return whole + rounded(-slowed_for / stream.factor);
}

}  // namespace sim
