#include "cluster/steps.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <variant>
#include <vector>

namespace cluster {
namespace {

using sim::Time;

/// When the messages of a round are out, by sender.
void send(const Links& links, MessageKey key, const std::vector<Exchange>& round, std::vector<Time>& ends) {
  for (; key.from < round.size(); ++key.from) {
    const Exchange& own = round[key.from];
    if (own.to != Exchange::kNobody) ends[key.from] += message_time(links, key, own.to, own.bytes_out);
  }
}

}  // namespace

void run_steps(const Collective& how, const Links& links, std::uint64_t collective, std::span<Time> times) {
  if (const auto* pattern = std::get_if<std::unique_ptr<const BytePattern>>(&how))
    run_steps(**pattern, links, collective, times);
  else
    run_steps(std::get<DoubleBinaryTree>(how), links, collective, times);
}

void run_steps(const Pattern& pattern, const Links& links, std::uint64_t collective, std::span<Time> times) {
  if (const auto* rings = dynamic_cast<const Rings*>(&pattern))
    run_rings(*rings, links, collective, times);
  else
    run_rounds(pattern, links, collective, times);
}

void run_rounds(const Pattern& pattern, const Links& links, std::uint64_t collective, std::span<Time> times) {
  assert(times.size() == pattern.ranks());
  std::vector<Exchange> exchanges(times.size());
  std::vector<Time> ends(times.size());
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    for (std::uint32_t rank = 0; rank < times.size(); ++rank) exchanges[rank] = pattern.exchange(rank, round);
    std::ranges::copy(times, ends.begin());
    send(links, {.collective = collective, .round = round, .from = 0}, exchanges, ends);
    for (std::uint32_t rank = 0; rank < times.size(); ++rank) {
      const Exchange& own = exchanges[rank];
      times[rank] = ends[rank];
      if (own.from != Exchange::kNobody) times[rank] = std::max(times[rank], ends[own.from]);
      if (own.sums) times[rank] += sum_time(links, own.bytes_in);
    }
  }
}

}  // namespace cluster
