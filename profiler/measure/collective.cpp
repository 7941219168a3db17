#include "profiler/measure/collective.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace measure {
namespace {

constexpr std::size_t kPeriod = 8191;

double twice_all_but_own(double ranks) { return 2 * (ranks - 1) / ranks; }
double all_but_own(double ranks) { return (ranks - 1) / ranks; }
double all(double /*ranks*/) { return 1; }

}  // namespace

std::span<const CollectiveEntry> collectives() {
  using core::CollectiveKind;
  static constexpr std::array<CollectiveEntry, 5> kAll = {
      {{Collective::all_reduce, "all_reduce", CollectiveKind::all_reduce, twice_all_but_own},
       {Collective::reduce_scatter, "reduce_scatter", CollectiveKind::reduce_scatter, all_but_own},
       {Collective::all_gather, "all_gather", CollectiveKind::all_gather, all_but_own},
       {Collective::broadcast, "broadcast", {}, all},
       {Collective::send_receive, "send_receive", {}, all}}};
  return kAll;
}

const CollectiveEntry& entry(Collective kind) { return collectives()[static_cast<std::size_t>(kind)]; }

Part own_part(std::size_t count, std::uint32_t ranks, std::uint32_t rank) {
  const cluster::Stretch part =
      cluster::part_of({.begin = 0, .end = static_cast<std::int64_t>(count)}, ranks, rank);
  return {.begin = static_cast<std::size_t>(part.begin), .end = static_cast<std::size_t>(part.end)};
}

TestData::TestData(std::uint32_t ranks) : ranks_(ranks), sums_(kPeriod) {
  for (std::size_t i = 0; i < kPeriod; ++i)
    for (std::uint32_t rank = 0; rank < ranks; ++rank) sums_[i] += value(rank, i);
}

float TestData::value(std::uint32_t rank, std::size_t index) const {
  return static_cast<float>((index % kPeriod * 37 + std::size_t{rank} * 101) % 2003) - 1001.0F;
}

void TestData::fill(std::uint32_t rank, std::span<float> values) const {
  const std::size_t first = std::min(values.size(), kPeriod);
  for (std::size_t i = 0; i < first; ++i) values[i] = value(rank, i);
  for (std::size_t i = first; i < values.size(); ++i) values[i] = values[i - kPeriod];
}

std::string TestData::fault(Collective kind, std::uint32_t rank, std::span<const float> values) const {
  const auto check = [&](Part part, const auto& expected) -> std::string {
    for (std::size_t i = part.begin; i < part.end; ++i)
      if (values[i] != expected(i))
        return fmt::format("value {} of {} must be {} and is {}", i, values.size(), expected(i), values[i]);
    return "";
  };
  const Part whole = {.begin = 0, .end = values.size()};
  const auto sum = [&](std::size_t i) { return sums_[i % kPeriod]; };
  const auto of = [&](std::uint32_t other) {
    return [this, other](std::size_t i) { return value(other, i); };
  };
  switch (kind) {
    case Collective::all_reduce: return check(whole, sum);
    case Collective::reduce_scatter: return check(own_part(values.size(), ranks_, rank), sum);
    case Collective::broadcast: return check(whole, of(0));
    case Collective::send_receive: return check(whole, of((rank + ranks_ - 1) % ranks_));
    case Collective::all_gather: break;
  }
  for (std::uint32_t other = 0; other < ranks_; ++other)
    if (std::string wrong = check(own_part(values.size(), ranks_, other), of(other)); !wrong.empty())
      return wrong;
  return "";
}

}  // namespace measure
