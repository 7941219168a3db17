#include "sim/cluster/steps.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <variant>
#include <vector>

#include "sim/cluster/ring_recurrence.hpp"

namespace cluster {
namespace {

using sim::Time;

/// Computes when the messages of a round have been sent, indexed by sender.
void send(const Links& links, MessageKey key, const std::vector<Exchange>& round, std::vector<Time>& ends,
          unsigned shift) {
  for (; key.from < round.size(); ++key.from) {
    const Exchange& own = round[key.from];
    if (own.to != Exchange::kNobody)
      ends[key.from] =
          sim::after(ends[key.from], scaled(message_time(links, key, own.to, own.bytes_out), shift));
  }
}

/// An upper bound of the time of any collective, for all random factors.
double max_us(const Collective& how, const Links& links) {
  double startup_us = 0;
  double us_per_byte = links.sum_us_per_byte;
  for (const Level& level : links.levels) {
    startup_us = std::max(startup_us, level.link.startup_us);
    us_per_byte = std::max(us_per_byte, level.link.us_per_byte + links.sum_us_per_byte);
  }
  const double slowdown = links.slowdown.empty() ? 1 : *std::ranges::max_element(links.slowdown);
  double startups = 0;
  double bytes = 0;
  if (const auto* trees = std::get_if<DoubleBinaryTree>(&how)) {  // a parent has at most two children
    startups = 2.0 * std::bit_width(trees->ranks());
    bytes = 4 * static_cast<double>(trees->bytes());
  } else {
    const BytePattern& pattern = *std::get<std::unique_ptr<const BytePattern>>(how);
    startups = pattern.rounds();
    bytes = startups * static_cast<double>(pattern.bytes());
    if (const auto* rings = dynamic_cast<const Rings*>(&pattern)) {
      bytes = 0;
      for (const RingPhase& phase : rings->phases())
        bytes += phase.rounds() * (static_cast<double>(rings->bytes() / phase.stride / phase.size) + 2);
    }
  }
  return (startups * (startup_us + 1) + bytes * us_per_byte) * std::max(1.0, slowdown) *
         sim::longest_lognormal(links.sigma);
}

}  // namespace

void run_steps(const Collective& how, const Links& links, std::uint64_t collective, std::span<Time> times,
               unsigned shift) {
  if (const auto* pattern = std::get_if<std::unique_ptr<const BytePattern>>(&how))
    run_steps(**pattern, links, collective, times, shift);
  else
    run_steps(std::get<DoubleBinaryTree>(how), links, collective, times, shift);
}

double steps_work(const Collective& how, const Links& links) {
  const auto* pattern = std::get_if<std::unique_ptr<const BytePattern>>(&how);
  const auto* rings = pattern == nullptr ? nullptr : dynamic_cast<const Rings*>(pattern->get());
  constexpr double kRank = 50;  // of a ring, in all rounds together
  if (rings != nullptr && links.sigma == 0)
    return kRank * rings->ranks() * static_cast<double>(rings->phases().size());
  return (rings != nullptr ? 15 : 40) * static_cast<double>(message_count(how));
}

void run_steps(const Pattern& pattern, const Links& links, std::uint64_t collective, std::span<Time> times,
               unsigned shift) {
  if (const auto* rings = dynamic_cast<const Rings*>(&pattern))
    run_rings(*rings, links, collective, times, shift);
  else
    run_rounds(pattern, links, collective, times, shift);
}

/// The rank that decided is stored in the low bits of the times, which only maxima and sums touch.
void run_steps(const Collective& how, const Links& links, std::uint64_t collective, std::span<Time> times,
               std::span<std::uint32_t> origins) {
  const auto [first, last] = std::ranges::minmax(times);
  const auto shift = static_cast<unsigned>(std::bit_width(times.size() - 1));
  const double max = sim::to_us(last - first) + max_us(how, links);
  if (max * static_cast<double>(std::int64_t{1} << shift) > kMaxRingUs) {
    std::ranges::fill(origins, Exchange::kNobody);
    return run_steps(how, links, collective, times);
  }
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    times[rank] = scaled(times[rank] - first, shift) + Time(static_cast<std::int64_t>(rank));
  run_steps(how, links, collective, times, shift);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::int64_t both = times[rank].count();
    origins[rank] = static_cast<std::uint32_t>(both & ((std::int64_t{1} << shift) - 1));
    times[rank] = first + Time(both >> shift);
  }
}

void run_rounds(const Pattern& pattern, const Links& links, std::uint64_t collective, std::span<Time> times,
                unsigned shift) {
  assert(times.size() == pattern.ranks());
  std::vector<Exchange> exchanges(times.size());
  std::vector<Time> ends(times.size());
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    for (std::uint32_t rank = 0; rank < times.size(); ++rank) exchanges[rank] = pattern.exchange(rank, round);
    std::ranges::copy(times, ends.begin());
    send(links, {.collective = collective, .round = round, .from = 0}, exchanges, ends, shift);
    for (std::uint32_t rank = 0; rank < times.size(); ++rank) {
      const Exchange& own = exchanges[rank];
      times[rank] = ends[rank];
      if (own.from != Exchange::kNobody) times[rank] = std::max(times[rank], ends[own.from]);
      if (own.sums) times[rank] = sim::after(times[rank], scaled(sum_time(links, own.bytes_in), shift));
    }
  }
}

}  // namespace cluster
