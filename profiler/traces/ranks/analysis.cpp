#include "profiler/traces/ranks/analysis.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "core/limits.hpp"
#include "core/statistics.hpp"

namespace ranks {
namespace {

constexpr double kNsPerUs = 1000;
constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min() / 4;
constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max() / 4;

double us(std::int64_t ns) { return static_cast<double>(ns) / kNsPerUs; }

/// Answers how much of an interval disjoint, ordered spans cover.
class Coverage {
 public:
  explicit Coverage(const Spans& spans) : spans_(spans) {
    before_.reserve(spans.size() + 1);
    before_.push_back(0);
    for (const Span& span : spans) before_.push_back(before_.back() + span.second - span.first);
  }

  std::int64_t free(std::int64_t from, std::int64_t to) const {
    return from < to ? to - from - (until(to) - until(from)) : 0;
  }

 private:
  std::int64_t until(std::int64_t time) const {
    const auto after = std::partition_point(spans_.begin(), spans_.end(),
                                            [time](const Span& span) { return span.second <= time; });
    const auto whole = before_[static_cast<std::size_t>(after - spans_.begin())];
    return after != spans_.end() && after->first < time ? whole + time - after->first : whole;
  }

  const Spans& spans_;
  std::vector<std::int64_t> before_;
};

/// Exchanges are not exposed while something computes, or while the host has nothing launched.
Spans hiding(const RankTrace& trace) {
  Spans out = trace.compute;
  out.insert(out.end(), trace.waits.begin(), trace.waits.end());
  return kineto::united(std::move(out));
}

Spans exchange_spans(const RankTrace& trace) {
  Spans out;
  for (const Exchange& exchange : trace.exchanges) out.push_back(exchange.ran);
  return kineto::united(std::move(out));
}

}  // namespace

std::vector<Exposed> exposed_times(const RankTrace& trace, const std::vector<std::int64_t>& last_start_ns) {
  const Spans hides = hiding(trace);
  const Spans in_passes = kineto::without(trace.in_passes, hides);
  Spans hides_others = hides;
  hides_others.insert(hides_others.end(), in_passes.begin(), in_passes.end());
  hides_others = kineto::united(std::move(hides_others));
  const Spans hides_passes = kineto::without({{kFirst, kLast}}, in_passes);
  const Coverage passes(hides_passes);
  const Coverage others(hides_others);
  std::vector<Exposed> out;
  std::int64_t covered = kFirst;
  std::int64_t covered_by_passes = kFirst;
  for (std::size_t i = 0; i < trace.exchanges.size(); ++i) {
    const Span& ran = trace.exchanges[i].ran;
    const bool is_in_pass = trace.exchanges[i].is_in_pass;
    const Coverage& free = is_in_pass ? passes : others;
    std::int64_t& until = is_in_pass ? covered_by_passes : covered;
    const std::int64_t from = std::max(ran.first, until);
    const std::int64_t came = std::clamp(last_start_ns[i], from, std::max(from, ran.second));
    out.push_back(
        {.waiting_ns = free.free(from, std::min(came, ran.second)),
         .transfer_ns = free.free(came, ran.second) + (is_in_pass ? free.free(until, ran.first) : 0)});
    until = std::max(until, ran.second);
  }
  return out;
}

std::vector<std::vector<Exposed>> exposed_times(const Job& job) {
  std::vector<std::vector<std::int64_t>> last_start(job.ranks.size());
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    for (const Exchange& exchange : job.ranks[rank].exchanges) last_start[rank].push_back(exchange.ran.first);
  for (const Meeting& meeting : job.meetings) {
    const std::int64_t last = arrival_of(job, meeting).last_start_ns;
    for (const Member& member : meeting.members) last_start[member.rank][member.exchange] = last;
  }
  std::vector<std::vector<Exposed>> out;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    out.push_back(exposed_times(job.ranks[rank], last_start[rank]));
  return out;
}

namespace {

/// Collects what statistics() returns for one group.
struct Sums {
  struct Size {
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    std::vector<double> transfer_us;
    std::vector<double> waited_us;
    double exposed_us = 0;
    std::int64_t members = 0;
  };
  std::map<std::pair<Kind, std::int64_t>, Size> sizes;
  std::map<std::size_t, double> kernel_us;
  std::map<std::size_t, Exposed> exposed;
  std::map<std::size_t, Latecomer> late;
  std::int64_t inconsistent = 0;
  std::int64_t without_size = 0;
};

void add(const Job& job, const Meeting& meeting, const std::vector<std::vector<Exposed>>& exposed,
         Sums& sums) {
  const Arrival arrival = arrival_of(job, meeting);
  Sums::Size& size = sums.sizes[{meeting.kind, meeting.bytes}];
  size.first_ns = std::min(size.first_ns, arrival.first_start_ns);
  if (arrival.transfer_ns() > 0)
    size.transfer_us.push_back(us(arrival.transfer_ns()));
  else
    ++sums.inconsistent;
  if (meeting.bytes <= 0) ++sums.without_size;
  size.waited_us.push_back(us(arrival.last_start_ns - arrival.first_start_ns));
  for (const Member& member : meeting.members) {
    const Span& ran = job.ranks[member.rank].exchanges[member.exchange].ran;
    const Exposed& alone = exposed[member.rank][member.exchange];
    size.exposed_us += us(alone.ns());
    ++size.members;
    sums.kernel_us[member.rank] += us(ran.second - ran.first);
    sums.exposed[member.rank].waiting_ns += alone.waiting_ns;
    sums.exposed[member.rank].transfer_ns += alone.transfer_ns;
  }
  if (meeting.members.size() < 2) return;
  Latecomer& late = sums.late[arrival.last];
  late.rank = job.ranks[arrival.last].rank;
  ++late.times;
  late.kept_waiting_us += us(arrival.last_start_ns - arrival.second_last_start_ns);
}

GroupStatistics summed(std::size_t group, const Sums& sums) {
  GroupStatistics out = {
      .group = group, .without_size = sums.without_size, .inconsistent = sums.inconsistent};
  for (const auto& [key, size] : sums.sizes) {
    const auto count = static_cast<std::int64_t>(size.waited_us.size());
    SizeStatistics each = {.kind = key.first,
                           .bytes = key.second,
                           .count = count,
                           .first_ns = size.first_ns,
                           .waited_us = core::quantile(size.waited_us, 0.5),
                           .exposed_us = size.exposed_us / static_cast<double>(size.members)};
    if (!size.transfer_us.empty()) {
      const core::Statistics transfers = core::statistics(size.transfer_us);
      // A rank alone: the shortest kernel waited least for the others.
      const bool is_alone = sums.exposed.size() == 1;
      each.transfer_us =
          is_alone ? *std::min_element(size.transfer_us.begin(), size.transfer_us.end()) : transfers.median;
      each.spread_us = transfers.spread;
    }
    for (const double transfer : size.transfer_us) out.transfer_us += transfer;
    out.collectives += count;
    out.sizes.push_back(each);
  }
  std::stable_sort(out.sizes.begin(), out.sizes.end(),
                   [](const SizeStatistics& a, const SizeStatistics& b) { return a.first_ns < b.first_ns; });
  out.min_kernel_us = std::numeric_limits<double>::max();
  for (const auto& [rank, kernel] : sums.kernel_us) {
    out.min_kernel_us = std::min(out.min_kernel_us, kernel);
    out.max_kernel_us = std::max(out.max_kernel_us, kernel);
  }
  const auto members = static_cast<double>(sums.exposed.size());
  for (const auto& [rank, exposed] : sums.exposed) {
    out.exposed_us += us(exposed.ns()) / members;
    out.exposed_waiting_us += us(exposed.waiting_ns) / members;
  }
  for (const auto& [rank, late] : sums.late) out.latecomers.push_back(late);
  std::stable_sort(out.latecomers.begin(), out.latecomers.end(), [](const Latecomer& a, const Latecomer& b) {
    return a.kept_waiting_us > b.kept_waiting_us;
  });
  return out;
}

}  // namespace

std::vector<GroupStatistics> statistics(const Job& job, const std::vector<std::vector<Exposed>>& exposed) {
  std::map<std::size_t, Sums> sums;
  for (const Meeting& meeting : job.meetings) add(job, meeting, exposed, sums[meeting.group]);
  std::vector<GroupStatistics> out;
  for (const auto& [group, each] : sums) out.push_back(summed(group, each));
  return out;
}

std::vector<traces::Series> curves(const Job& job, const GroupStatistics& group) {
  std::map<Kind, traces::Series> found;
  const std::int64_t workers = job.groups[group.group].size;
  if (workers < 2 || workers > core::kMaxWorkers) return {};
  std::vector<SizeStatistics> sizes = group.sizes;
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const SizeStatistics& a, const SizeStatistics& b) { return a.bytes < b.bytes; });
  for (const SizeStatistics& size : sizes) {
    if (!has_curve(size.kind) || size.bytes <= 0 || size.bytes > core::kMaxBytes || size.transfer_us <= 0)
      continue;
    traces::Series& series = found[size.kind];
    series.path = job.ranks[job.groups[group.group].traced.front()].path;
    series.collective = collective_of(size.kind);
    series.workers = workers;
    series.is_continued = true;
    series.points.emplace_back(static_cast<double>(size.bytes), size.transfer_us);
    series.spread_us.push_back(size.spread_us);
  }
  std::vector<traces::Series> out;
  for (auto& [kind, series] : found) out.push_back(std::move(series));
  return out;
}

RankTimes times_of(const RankTrace& trace) {
  const Spans exchanges = exchange_spans(trace);
  const Spans exposed = kineto::without(exchanges, hiding(trace));
  Spans busy = trace.compute;
  busy.insert(busy.end(), exposed.begin(), exposed.end());
  busy = kineto::united(std::move(busy));
  Spans all = trace.compute;
  for (const Spans* more : {&exchanges, &trace.copies}) all.insert(all.end(), more->begin(), more->end());
  all = kineto::united(std::move(all));
  if (all.empty()) return {};
  RankTimes out = {.whole_us = us(all.back().second - all.front().first),
                   .compute_us = us(kineto::length_ns(trace.compute)),
                   .communication_us = us(kineto::length_ns(exchanges)),
                   .exposed_us = us(kineto::length_ns(exposed)),
                   .copies_us = us(kineto::length_ns(kineto::without(trace.copies, busy)))};
  out.idle_us = out.whole_us - out.compute_us - out.exposed_us - out.copies_us;
  return out;
}

}  // namespace ranks
