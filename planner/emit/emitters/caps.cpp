#include "planner/emit/emitters/caps.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace planner {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kMaxGradientsTried = 4'000'000;
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

std::int64_t aligned(std::int64_t position, std::int64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

std::int64_t or_zero(std::int64_t next_cap) { return next_cap == kNone ? 0 : next_cap; }

/// The largest number of MiB with this many decimals that is below `bytes`.
std::string mib_under(std::int64_t bytes, int decimals) {
  std::int64_t scale = 1;
  for (int i = 0; i < decimals; ++i) scale *= 10;
  const std::int64_t units = bytes / kMiB * scale + (bytes % kMiB * scale + kMiB - 1) / kMiB - 1;
  if (decimals == 0) return fmt::format("{}", units);
  return fmt::format("{}.{:0{}}", units / scale, units % scale, decimals);
}

}  // namespace

Capped close_at(const Sizes& sizes, std::int64_t cap, const Sizes& first_caps, std::int64_t alignment) {
  Capped out;
  std::int64_t next = kNone;
  std::uint32_t begin = 0;
  std::int64_t filled = 0;
  const auto count = static_cast<std::uint32_t>(sizes.size());
  for (std::uint32_t end = 1; end <= count; ++end) {
    filled = aligned(filled, alignment) + sizes[end - 1];
    const bool is_first = out.groups.size() < first_caps.size();
    const bool is_full = filled >= (is_first ? first_caps[out.groups.size()] : cap);
    if (!is_full && end < count) continue;
    if (!is_first && end < count) next = std::min(next, filled + 1);
    out.groups.push_back({.begin = begin, .end = end});
    begin = end;
    filled = 0;
  }
  out.next_cap = or_zero(next);
  return out;
}

Capped add_within(const Sizes& sizes, std::int64_t cap, const std::vector<sim::Time>& ticks) {
  Capped out;
  std::int64_t next = kNone;
  std::int64_t filled = 0;
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    const sim::Time tick = ticks.empty() ? sim::Time::zero() : ticks[i];
    const bool same_tick = !out.groups.empty() && out.groups.back().tick == tick;
    if (same_tick && filled + sizes[i] <= cap) {
      out.groups.back().end = i + 1;
      filled += sizes[i];
      continue;
    }
    if (same_tick) next = std::min(next, filled + sizes[i]);
    out.groups.push_back({.begin = i, .end = i + 1, .tick = tick});
    filled = sizes[i];
  }
  out.next_cap = or_zero(next);
  return out;
}

BestCap best_cap(const CapRule& rule, const std::function<double(const Groups&)>& iteration_us) {
  BestCap best;
  for (std::int64_t cap = 1; cap > 0; ++best.tried) {
    Capped capped = rule(cap);
    const double us = iteration_us(capped.groups);
    const std::int64_t next_cap = capped.next_cap;
    const std::int64_t gradients = capped.groups.back().end;
    const bool is_better = best.tried == 0 || us < best.iteration_us ||
                           (us <= best.iteration_us && capped.groups.size() < best.groups.size());
    if (is_better) {
      best.min = cap;
      best.max = std::max<std::int64_t>(0, next_cap - 1);
      best.groups = std::move(capped.groups);
      best.iteration_us = us;
    }
    const bool is_long = best.tried * gradients >= kMaxGradientsTried;
    const bool jumps = is_long && next_cap > 0 && next_cap < cap + cap / 20;
    if (jumps) best.is_every = false;
    cap = jumps ? cap + cap / 20 : next_cap;
  }
  return best;
}

std::int64_t roundest(std::int64_t min, std::int64_t max, std::int64_t base) {
  std::int64_t step = 1;
  while (step <= max / base) step *= base;
  while (aligned(min, step) > max) step /= base;
  return aligned(min, step);
}

std::int64_t bytes_of_mib(const std::string& mb) {
  double value = 0;
  std::from_chars(mb.data(), mb.data() + mb.size(), value);
  return static_cast<std::int64_t>(value * static_cast<double>(kMiB));
}

std::string mib_text(std::int64_t min, std::int64_t max) {
  constexpr int kMaxDecimals = 7;  // finer than a byte
  for (int decimals = 0; decimals <= kMaxDecimals; ++decimals) {
    std::string mb = mib_under(max + 1, decimals);  // truncated, so at most `max`
    const std::int64_t bytes = bytes_of_mib(mb);
    if (bytes >= min && bytes <= max) return mb;
  }
  return fmt::format("{}", static_cast<double>(max) / static_cast<double>(kMiB));  // exact, as MiB is a power
                                                                                   // of two
}

}  // namespace planner
