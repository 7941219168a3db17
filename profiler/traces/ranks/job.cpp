#include "profiler/traces/ranks/job.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/limits.hpp"
#include "core/printable.hpp"
#include "core/statistics.hpp"

namespace ranks {
namespace {

using core::InputError;

void check(std::vector<RankTrace>& traces) {
  constexpr std::size_t kMaxRanks = 4096;
  if (traces.size() > kMaxRanks)
    throw InputError(fmt::format("{}: /: expected traces of at most {} ranks, got {}",
                                 core::one_line(traces.front().path), kMaxRanks, traces.size()));
  if (traces.size() == 1 && traces.front().rank < 0) traces.front().rank = 0;
  for (const RankTrace& trace : traces)
    if (trace.rank < 0)
      throw InputError(fmt::format(
          "{}: /distributedInfo/rank: expected the rank, here or in the file's name (rank3), got neither",
          core::one_line(trace.path)));
  std::stable_sort(traces.begin(), traces.end(),
                   [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  for (std::size_t i = 1; i < traces.size(); ++i)
    if (traces[i].rank == traces[i - 1].rank)
      throw InputError(
          fmt::format("{}: /distributedInfo/rank: expected each rank once, got rank {} again, after {}",
                      core::one_line(traces[i].path), traces[i].rank, core::one_line(traces[i - 1].path)));
}

std::int64_t world_size(const std::vector<RankTrace>& traces) {
  std::int64_t out = static_cast<std::int64_t>(traces.size());
  for (const RankTrace& trace : traces) out = std::max(out, trace.world_size);
  return out;
}

/// Finds the groups of the job: those of two ranks are the same if name and members agree.
class Groups {
 public:
  explicit Groups(Job& job) : job_(job), world_(world_size(job.ranks)) {}

  void find() {
    name_all();
    for (std::size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      job_.group_of.emplace_back();
      for (std::size_t i = 0; i < names_[rank].size(); ++i)
        job_.group_of.back().push_back(group(names_[rank][i], job_.ranks[rank].groups[i], rank));
    }
  }

 private:
  void name_all() {
    for (const RankTrace& trace : job_.ranks) {
      names_.emplace_back();
      std::int64_t unnamed = 0;
      for (const kineto::ProcessGroup& local : trace.groups)
        names_.back().push_back(local.name.empty() ? fmt::format("stream {}", unnamed++) : local.name);
    }
  }

  std::vector<std::int64_t> members_of(const std::string& name, const kineto::ProcessGroup& local) const {
    if (!local.members.empty()) return local.members;
    const bool is_world = local.size == world_ || (local.size <= 0 && job_.ranks.front().world_size > 0);
    if (is_world) return everybody();
    return local.size <= 0 ? users_of(name) : std::vector<std::int64_t>();
  }

  std::size_t group(const std::string& name, const kineto::ProcessGroup& local, std::size_t rank) {
    const std::vector<std::int64_t> members = members_of(name, local);
    // Without members, nobody can say which of several groups of this name a rank belongs to.
    const std::string alone = members.empty() ? fmt::to_string(job_.ranks[rank].rank) : "";
    const auto key = std::tuple(name, members, alone);
    const auto [found, is_new] = known_.try_emplace(key, job_.groups.size());
    constexpr std::size_t kMaxMembers = 10'000'000;  // in all groups
    if (is_new && (members_ += members.size()) > kMaxMembers)
      throw core::InputError(
          fmt::format("{}: /traceEvents: expected process groups of at most {} members in all, got more",
                      core::one_line(job_.ranks[rank].path), kMaxMembers));
    if (is_new)
      job_.groups.push_back({.name = name,
                             .description = local.description,
                             .members = members,
                             .size = local.size > 0 ? local.size : static_cast<std::int64_t>(members.size()),
                             .traced = {},
                             .is_matched = !members.empty()});
    std::vector<std::size_t>& traced = job_.groups[found->second].traced;
    if (traced.empty() || traced.back() != rank) traced.push_back(rank);
    return found->second;
  }

  /// The ranks whose traces have a group of this name: exports of Nsight Systems do not say more.
  std::vector<std::int64_t> users_of(const std::string& name) const {
    std::vector<std::int64_t> out;
    for (std::size_t rank = 0; rank < names_.size(); ++rank)
      if (std::find(names_[rank].begin(), names_[rank].end(), name) != names_[rank].end())
        out.push_back(job_.ranks[rank].rank);
    return out;
  }

  /// All ranks of the job, or those with a trace where nothing is known of others.
  std::vector<std::int64_t> everybody() const {
    std::vector<std::int64_t> out;
    constexpr std::int64_t kMax = 1 << 16;
    if (world_ > job_.ranks.back().rank && world_ <= kMax)
      for (std::int64_t rank = 0; rank < world_; ++rank) out.push_back(rank);
    else
      for (const RankTrace& trace : job_.ranks) out.push_back(trace.rank);
    return out;
  }

  Job& job_;
  std::int64_t world_;
  std::vector<std::vector<std::string>> names_;  ///< of the groups of each rank
  std::size_t members_ = 0;
  std::map<std::tuple<std::string, std::vector<std::int64_t>, std::string>, std::size_t> known_;
};

/// NCCL states what one rank gives to an all-gather and gets from a reduce-scatter.
void add_up_parts(Job& job) {
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    for (Exchange& exchange : job.ranks[rank].exchanges) {
      const bool is_part = exchange.kind == Kind::all_gather || exchange.kind == Kind::reduce_scatter;
      if (!is_part || !job.ranks[rank].states_parts) continue;
      const std::int64_t size =
          std::max<std::int64_t>(1, job.groups[job.group_of[rank][exchange.group]].size);
      exchange.bytes = exchange.bytes <= core::kMaxBytes / size ? exchange.bytes * size : 0;
    }
}

/// What is the same for a collective on all ranks.
using Key = std::tuple<std::size_t, std::string, std::int64_t, Kind, std::string, std::int64_t, std::int64_t>;

/// Numbers the exchanges of a rank that agree in everything else.
std::vector<Key> keys_of(const Job& job, std::size_t rank) {
  const RankTrace& trace = job.ranks[rank];
  std::map<Key, std::int64_t> seen;
  std::vector<Key> out;
  for (const Exchange& exchange : trace.exchanges) {
    const std::size_t group = job.group_of[rank][exchange.group];
    Key key;
    if (!exchange.id.empty())
      key = {group, exchange.id, -1, exchange.kind, "", 0, 0};
    else if (exchange.sequence >= 0)
      key = {group, "", exchange.sequence, exchange.kind, "", 0, 0};
    else
      key = {group,
             "",
             -1,
             exchange.kind,
             exchange.step >= 0 ? trace.steps[static_cast<std::size_t>(exchange.step)].label : "",
             exchange.bytes,
             0};
    std::get<6>(key) = seen[key]++;
    out.push_back(std::move(key));
  }
  return out;
}

bool can_be_matched(const Group& group, const Exchange& exchange) {
  if (!group.is_matched) return false;
  // Who sends to whom is not known, except between two.
  return exchange.kind != Kind::point_to_point || group.size == 2 || !exchange.id.empty();
}

void match(Job& job) {
  std::map<Key, Meeting> found;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const std::vector<Key> keys = keys_of(job, rank);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Exchange& exchange = job.ranks[rank].exchanges[i];
      const std::size_t group = job.group_of[rank][exchange.group];
      if (!can_be_matched(job.groups[group], exchange)) continue;
      Meeting& meeting = found[keys[i]];
      if (meeting.members.empty())
        meeting = {.group = group,
                   .kind = exchange.kind,
                   .bytes = exchange.bytes,
                   .sequence = exchange.sequence,
                   .members = {}};
      meeting.bytes = std::max(meeting.bytes, exchange.bytes);
      meeting.members.push_back({.rank = rank, .exchange = i});
    }
  }
  for (auto& [key, meeting] : found) {
    if (meeting.members.size() == job.groups[meeting.group].traced.size())
      job.meetings.push_back(std::move(meeting));
    else
      ++job.groups[meeting.group].incomplete;
  }
}

const Span& span_of(const Job& job, const Member& member) {
  return job.ranks[member.rank].exchanges[member.exchange].ran;
}

/// Whether no member can end before all have come.
bool ends_together(Kind kind) { return has_curve(kind) || kind == Kind::all_to_all || kind == Kind::barrier; }

std::int64_t median(std::vector<std::int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The correction that is added to the times of a rank: offset + drift * time.
struct Correction {
  std::int64_t offset_ns = 0;
  double drift = 0;
  std::int64_t at(std::int64_t ns) const { return offset_ns + std::llround(drift * static_cast<double>(ns)); }
};

/// How much more one clock shows than another, at moments of the other: value + slope * (time - middle).
struct Line {
  std::int64_t value_ns = 0;
  double slope = 0;
  std::int64_t middle_ns = 0;
};

std::int64_t interquartile_range(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 3 / 4] - values[values.size() / 4];
}

/// The median slope from the first half of the points [time, difference] to the second half, in their order.
/// A slope that is lost in the noise, or is no drift of clocks, counts as none.
Line line_through(const std::vector<Span>& points) {
  constexpr std::size_t kEnough = 8;
  constexpr double kMaxDrift = 1e-3;
  constexpr double kTimesNoise = 3;
  Line out;
  for (const Span& point : points) out.middle_ns += point.first / static_cast<std::int64_t>(points.size());
  const auto rests = [&] {
    std::vector<std::int64_t> all;
    for (const auto& [time, difference] : points)
      all.push_back(difference - std::llround(out.slope * static_cast<double>(time - out.middle_ns)));
    return all;
  };
  std::vector<double> slopes;
  const std::size_t half = points.size() / 2;
  for (std::size_t i = 0; points.size() >= kEnough && i < half; ++i)
    if (const std::int64_t apart = points[i + half].first - points[i].first; apart > 0)
      slopes.push_back(static_cast<double>(points[i + half].second - points[i].second) /
                       static_cast<double>(apart));
  if (!slopes.empty()) {
    out.slope = core::quantile(std::move(slopes), 0.5);
    const double moved =
        std::abs(out.slope) * static_cast<double>(points.back().first - points.front().first);
    const bool is_noise = moved <= kTimesNoise * static_cast<double>(interquartile_range(rests()));
    if (is_noise || std::abs(out.slope) > kMaxDrift) out.slope = 0;
  }
  std::vector<std::int64_t> all = rests();
  out.value_ns = median(all);
  return out;
}

class Aligner {
 public:
  explicit Aligner(Job& job) : job_(job) {
    for (const RankTrace& trace : job.ranks) corrections_.push_back({.offset_ns = since_first(trace)});
    for (std::size_t i = 0; i < job.meetings.size(); ++i)
      if (job.meetings[i].members.size() > 1 && ends_together(job.meetings[i].kind)) used_.push_back(i);
    std::stable_sort(used_.begin(), used_.end(), [&](std::size_t x, std::size_t y) {
      return span_of(job, job.meetings[x].members.front()) < span_of(job, job.meetings[y].members.front());
    });
  }

  void align() {
    connect();
    refine();
    job_.clocks.collectives = used_.size();
    job_.clocks.spread_ns = spread();
    for (std::size_t rank = 0; rank < job_.ranks.size(); ++rank) {
      const Correction& correction = corrections_[rank];
      const std::int64_t apart = since_first(job_.ranks[rank]);
      change_times(job_.ranks[rank], [&](std::int64_t ns) { return ns + correction.at(ns); });
      job_.clocks.offset_ns.push_back(correction.offset_ns - apart);
      job_.clocks.drift.push_back(correction.drift);
    }
  }

 private:
  struct Edge {
    std::size_t a = 0;
    std::size_t b = 0;
    Line a_after_b;  ///< what has to be added to b's clock if nothing is added to a's, by b's time
    Line b_after_a;
    std::size_t count = 0;
  };

  /// When a trace began after the first one, by their own clocks; at most 30 years.
  std::int64_t since_first(const RankTrace& trace) const {
    constexpr std::int64_t kMax = 1'000'000'000'000'000'000;
    return std::clamp(trace.origin_ns - job_.ranks.front().origin_ns, -kMax, kMax);
  }

  std::vector<Edge> edges() const {
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Span>> all;
    for (const std::size_t i : used_) {
      const std::vector<Member>& members = job_.meetings[i].members;
      for (std::size_t m = 1; m < members.size(); ++m)
        all[{members[m - 1].rank, members[m].rank}].emplace_back(span_of(job_, members[m - 1]).second,
                                                                 span_of(job_, members[m]).second);
    }
    std::vector<Edge> out;
    for (const auto& [pair, ends] : all) {
      std::vector<Span> to_b;
      std::vector<Span> to_a;
      for (const auto& [a, b] : ends) {
        to_b.emplace_back(b, a - b);
        to_a.emplace_back(a, b - a);
      }
      out.push_back({.a = pair.first,
                     .b = pair.second,
                     .a_after_b = line_through(to_b),
                     .b_after_a = line_through(to_a),
                     .count = ends.size()});
    }
    std::stable_sort(out.begin(), out.end(), [](const Edge& a, const Edge& b) { return a.count > b.count; });
    return out;
  }

  /// First to the clock of a neighbour, then as that one is corrected.
  static Correction through(const Correction& neighbour, const Line& line) {
    const auto middle = static_cast<double>(line.middle_ns);
    return {.offset_ns = neighbour.at(line.value_ns) + line.value_ns - std::llround(line.slope * middle),
            .drift = neighbour.drift + line.slope};
  }

  /// Follows the pairs of ranks with the most common collectives from the first rank to all others.
  void connect() {
    const std::vector<Edge> all = edges();
    std::vector<bool> reached(corrections_.size(), false);
    reached[0] = true;
    for (bool grows = true; grows;) {
      grows = false;
      for (const Edge& edge : all) {
        if (reached[edge.a] == reached[edge.b]) continue;
        if (reached[edge.a])
          corrections_[edge.b] = through(corrections_[edge.a], edge.a_after_b);
        else
          corrections_[edge.a] = through(corrections_[edge.b], edge.b_after_a);
        reached[edge.a] = reached[edge.b] = grows = true;
        break;
      }
    }
    for (std::size_t rank = 0; rank < reached.size(); ++rank)
      if (!reached[rank]) job_.clocks.unaligned.push_back(rank);
  }

  std::int64_t end(const Member& member) const {
    const std::int64_t ns = span_of(job_, member).second;
    return ns + corrections_[member.rank].at(ns);
  }

  /// The common end of a collective: the median over its members.
  std::int64_t common_end(const Meeting& meeting) const {
    std::vector<std::int64_t> ends;
    for (const Member& member : meeting.members) ends.push_back(end(member));
    return median(ends);
  }

  /// Moves each clock by the median of its distances from the common ends; a few rounds suffice.
  void refine() {
    constexpr int kRounds = 4;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<std::int64_t>> late(corrections_.size());
      for (const std::size_t i : used_) {
        const std::int64_t common = common_end(job_.meetings[i]);
        for (const Member& member : job_.meetings[i].members)
          late[member.rank].push_back(end(member) - common);
      }
      for (std::size_t rank = 0; rank < late.size(); ++rank)
        if (!late[rank].empty()) corrections_[rank].offset_ns -= median(late[rank]);
    }
    for (std::size_t rank = corrections_.size(); rank-- > 0;)
      corrections_[rank].offset_ns -= corrections_[0].offset_ns;
  }

  std::int64_t spread() const {
    std::vector<std::int64_t> late;
    for (const std::size_t i : used_) {
      const std::int64_t common = common_end(job_.meetings[i]);
      for (const Member& member : job_.meetings[i].members) late.push_back(end(member) - common);
    }
    return late.empty() ? 0 : interquartile_range(std::move(late));
  }

  Job& job_;
  std::vector<Correction> corrections_;
  std::vector<std::size_t> used_;
};

/// What several traces lack is said once.
void warn_of_notes(Job& job) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> notes;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    for (const std::string& note : job.ranks[rank].notes) {
      const auto known =
          std::find_if(notes.begin(), notes.end(), [&](const auto& each) { return each.first == note; });
      if (known == notes.end())
        notes.push_back({note, {rank}});
      else if (known->second.back() != rank)
        known->second.push_back(rank);
    }
  for (const auto& [note, traces] : notes) {
    std::vector<std::int64_t> numbers;
    for (const std::size_t rank : traces) numbers.push_back(job.ranks[rank].rank);
    const std::string file = std::filesystem::path(job.ranks[traces.front()].path).filename().string();
    job.warnings.push_back(fmt::format("{}: {}", traces.size() == 1 ? file : ranks_text(numbers), note));
  }
}

void warn(Job& job) {
  const std::int64_t world = world_size(job.ranks);
  const auto traced = static_cast<std::int64_t>(job.ranks.size());
  if (traced > 1 && traced < world)
    job.warnings.push_back(
        fmt::format("{} of {} ranks have a trace: a rank without one may have come last", traced, world));
  for (const std::size_t rank : job.clocks.unaligned)
    if (job.ranks[rank].path != job.ranks.front().path)  // one export has one clock
      job.warnings.push_back(fmt::format("rank {}: no collective connects its clock with that of rank {}",
                                         job.ranks[rank].rank, job.ranks.front().rank));
  for (const Group& group : job.groups) {
    if (!group.is_matched && traced > 1)
      job.warnings.push_back(fmt::format(
          "group {} of {} ranks: the trace of rank {} does not say which ranks belong to it, so its "
          "collectives are not matched",
          group.name, group.size, job.ranks[group.traced.front()].rank));
    if (group.incomplete > 0)
      job.warnings.push_back(
          fmt::format("group {}: {} collectives are left out, because some rank's trace does not hold them",
                      group.name, group.incomplete));
  }
  warn_of_notes(job);
}

}  // namespace

std::string ranks_text(const std::vector<std::int64_t>& members) {
  if (members.empty()) return "ranks unknown";
  if (members.size() == 1) return fmt::format("rank {}", members.front());
  const std::int64_t step = members[1] - members[0];
  bool is_regular = step > 0;
  for (std::size_t i = 2; i < members.size(); ++i)
    is_regular = is_regular && members[i] - members[i - 1] == step;
  if (is_regular && members.size() > 2)
    return fmt::format("ranks {} to {}{}", members.front(), members.back(),
                       step == 1 ? "" : fmt::format(" in steps of {}", step));
  constexpr std::size_t kShown = 16;
  if (members.size() > kShown)
    return fmt::format("ranks {} and {} others", members.front(), members.size() - 1);
  return fmt::format("ranks {}", fmt::join(members, ", "));
}

Job make_job(std::vector<RankTrace> traces) {
  check(traces);
  Job job;
  job.ranks = std::move(traces);
  Groups(job).find();
  add_up_parts(job);
  match(job);
  if (!job.ranks.empty()) Aligner(job).align();
  std::stable_sort(job.meetings.begin(), job.meetings.end(), [&](const Meeting& a, const Meeting& b) {
    return arrival_of(job, a).first_start_ns < arrival_of(job, b).first_start_ns;
  });
  warn(job);
  return job;
}

Arrival arrival_of(const Job& job, const Meeting& meeting) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  Arrival out = {.first_start_ns = std::numeric_limits<std::int64_t>::max(),
                 .last_start_ns = kMin,
                 .second_last_start_ns = kMin,
                 .end_ns = kMin};
  for (const Member& member : meeting.members) {
    const Span& span = span_of(job, member);
    out.first_start_ns = std::min(out.first_start_ns, span.first);
    out.end_ns = std::max(out.end_ns, span.second);
    if (span.first > out.last_start_ns) {
      out.second_last_start_ns = out.last_start_ns;
      out.last_start_ns = span.first;
      out.last = member.rank;
    } else {
      out.second_last_start_ns = std::max(out.second_last_start_ns, span.first);
    }
  }
  if (out.second_last_start_ns == kMin) out.second_last_start_ns = out.last_start_ns;
  return out;
}

}  // namespace ranks
