#include "profiler/traces/ranks/report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/json.hpp"
#include "core/json_text.hpp"
#include "core/statistics.hpp"
#include "core/text_table.hpp"

namespace ranks {
namespace {

using nlohmann::ordered_json;

constexpr double kNsPerUs = 1000;
constexpr double kUsPerMs = 1000;

double us(std::int64_t ns) { return static_cast<double>(ns) / kNsPerUs; }

std::string ms(double time_us) { return fmt::format("{:.3f}", time_us / kUsPerMs); }

std::string title(const Group& group) {
  return fmt::format("group {}{}, {}", core::one_line(group.name),
                     group.description.empty() ? "" : fmt::format(" ({})", core::one_line(group.description)),
                     ranks_text(group.members));
}

std::string clocks_text(const Job& job) {
  std::int64_t largest = 0;
  std::int64_t rank = 0;
  for (std::size_t i = 0; i < job.ranks.size(); ++i) {
    const std::int64_t offset = job.clocks.offset_ns[i];
    if (std::abs(offset) > std::abs(largest)) {
      largest = offset;
      rank = job.ranks[i].rank;
    }
  }
  double drift = 0;
  for (const double each : job.clocks.drift)
    if (std::abs(each) > std::abs(drift)) drift = each;
  return fmt::format(
      "clocks aligned by the ends of {} collectives, which agree within {:.1f} us; largest correction "
      "{:.1f} us (rank {}){}\n",
      job.clocks.collectives, us(job.clocks.spread_ns), us(largest), rank,
      drift == 0 ? ""
                 : fmt::format("; clocks drift apart by up to {:.1f} us per second", std::abs(drift) * 1e6));
}

std::string sizes_table(const GroupStatistics& group, std::int64_t zero_ns, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"collective", "bytes", "count", "first at ms", "transfer ms", "spread ms", "waited ms", "exposed ms"}};
  for (const SizeStatistics& size : group.sizes)
    rows.push_back({std::string(name(size.kind)), size.bytes > 0 ? fmt::to_string(size.bytes) : "unknown",
                    fmt::to_string(size.count), ms(us(size.first_ns - zero_ns)), ms(size.transfer_us),
                    ms(size.spread_us), ms(size.waited_us), ms(size.exposed_us)});
  return core::aligned(std::move(rows), {0}, width);
}

std::string group_text(const Report& report, const GroupStatistics& group, std::int64_t zero_ns,
                       std::size_t width) {
  std::string out = '\n' + title(report.job.groups[group.group]) + '\n';
  out += fmt::format(
      "{} collectives in all: they run {} to {} ms per rank, {} ms from last arrival to last end; exposed {} "
      "ms "
      "per "
      "rank, of it {} ms waiting for others\n",
      group.collectives, ms(group.min_kernel_us), ms(group.max_kernel_us), ms(group.transfer_us),
      ms(group.exposed_us), ms(group.exposed_waiting_us));
  if (!group.latecomers.empty()) {
    constexpr std::size_t kShown = 3;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < group.latecomers.size() && i < kShown; ++i)
      parts.push_back(fmt::format("rank {} {} times ({} ms)", group.latecomers[i].rank,
                                  group.latecomers[i].times, ms(group.latecomers[i].kept_waiting_us)));
    out += fmt::format("came last, and kept all others waiting: {}\n", fmt::join(parts, ", "));
  }
  return out + sizes_table(group, zero_ns, width);
}

std::string ranks_table(const Job& job, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "whole ms", "compute", "communication", "exposed", "copies", "idle", "trace"}};
  for (const RankTrace& trace : job.ranks) {
    const RankTimes times = times_of(trace);
    rows.push_back({fmt::to_string(trace.rank), ms(times.whole_us), ms(times.compute_us),
                    ms(times.communication_us), ms(times.exposed_us), ms(times.copies_us), ms(times.idle_us),
                    core::one_line(std::filesystem::path(trace.path).filename().string())});
  }
  return core::aligned(std::move(rows), {7}, width);
}

/// When the first rank's first kernel began.
std::int64_t zero_of(const Job& job) {
  const RankTrace& trace = job.ranks.front();
  std::int64_t out = trace.compute.empty() ? 0 : trace.compute.front().first;
  if (!trace.exchanges.empty())
    out = trace.compute.empty() ? trace.exchanges.front().ran.first
                                : std::min(out, trace.exchanges.front().ran.first);
  return out;
}

ordered_json to_json(const Job& job, std::size_t at) {
  const RankTrace& trace = job.ranks[at];
  const RankTimes times = times_of(trace);
  return {{"rank", trace.rank},
          {"trace", core::one_line(std::filesystem::path(trace.path).filename().string())},
          {"clock_offset_us", us(job.clocks.offset_ns[at])},
          {"clock_drift_us_per_s", job.clocks.drift[at] * 1e6},
          {"whole_us", times.whole_us},
          {"compute_us", times.compute_us},
          {"communication_us", times.communication_us},
          {"exposed_us", times.exposed_us},
          {"copies_us", times.copies_us},
          {"idle_us", times.idle_us}};
}

ordered_json sizes_json(const GroupStatistics& group, std::int64_t zero_ns) {
  ordered_json out = ordered_json::array();
  for (const SizeStatistics& size : group.sizes) {
    ordered_json item = {{"collective", name(size.kind)}};
    if (size.bytes > 0) item["bytes"] = size.bytes;
    item.update({{"count", size.count},
                 {"first_at_us", us(size.first_ns - zero_ns)},
                 {"transfer_us", size.transfer_us},
                 {"spread_us", size.spread_us},
                 {"waited_us", size.waited_us},
                 {"exposed_us", size.exposed_us}});
    out.push_back(std::move(item));
  }
  return out;
}

ordered_json calls_json(const Report& report, std::size_t group, std::int64_t zero_ns) {
  ordered_json out = ordered_json::array();
  for (const Meeting& meeting : report.job.meetings) {
    if (meeting.group != group) continue;
    const Arrival arrival = arrival_of(report.job, meeting);
    double exposed = 0;
    for (const Member& member : meeting.members)
      exposed += us(report.exposed[member.rank][member.exchange].ns());
    ordered_json item = {{"collective", name(meeting.kind)}};
    if (meeting.bytes > 0) item["bytes"] = meeting.bytes;
    if (meeting.sequence >= 0) item["sequence"] = meeting.sequence;
    item.update({{"first_start_us", us(arrival.first_start_ns - zero_ns)},
                 {"last_start_us", us(arrival.last_start_ns - zero_ns)},
                 {"end_us", us(arrival.end_ns - zero_ns)},
                 {"last_rank", report.job.ranks[arrival.last].rank},
                 {"exposed_us", exposed / static_cast<double>(meeting.members.size())}});
    out.push_back(std::move(item));
  }
  return out;
}

ordered_json to_json(const Report& report, const GroupStatistics& group, std::int64_t zero_ns) {
  const Group& named = report.job.groups[group.group];
  ordered_json late = ordered_json::array();
  for (const Latecomer& each : group.latecomers)
    late.push_back({{"rank", each.rank}, {"times", each.times}, {"kept_waiting_us", each.kept_waiting_us}});
  return {{"name", core::one_line(named.name)},
          {"description", core::one_line(named.description)},
          {"size", named.size},
          {"ranks", named.members},
          {"collectives", group.collectives},
          {"incomplete", named.incomplete},
          {"min_kernel_us", group.min_kernel_us},
          {"max_kernel_us", group.max_kernel_us},
          {"transfer_us", group.transfer_us},
          {"exposed_us", group.exposed_us},
          {"exposed_waiting_us", group.exposed_waiting_us},
          {"came_last", std::move(late)},
          {"sizes", sizes_json(group, zero_ns)},
          {"calls", calls_json(report, group.group, zero_ns)}};
}

/// By name or description; "NAME@RANK" is the one that the rank belongs to.
bool is_named(const Group& group, const std::string& wanted) {
  for (const std::string& name : {group.name, group.description}) {
    if (name.empty()) continue;
    if (name == wanted) return true;
    for (const std::int64_t member : group.members)
      if (wanted == fmt::format("{}@{}", name, member)) return true;
  }
  return false;
}

std::vector<std::string> warnings_of(const Report& report) {
  std::vector<std::string> out = report.job.warnings;
  for (const GroupStatistics& group : report.groups) {
    const std::string& name = report.job.groups[group.group].name;
    if (group.inconsistent > 0)
      out.push_back(
          fmt::format("group {}: {} collectives end before their last member came and are left out of "
                      "the curves: clocks differ by more than they take",
                      core::one_line(name), group.inconsistent));
    if (group.without_size > 0)
      out.push_back(fmt::format("group {}: the traces do not state the size of {} of {} collectives",
                                core::one_line(name), group.without_size, group.collectives));
  }
  if (report.job.ranks.size() == 1)
    out.emplace_back(
        "one rank alone: how long it waited for others is not known; of each size the shortest kernel "
        "counts");
  return out;
}

}  // namespace

std::optional<std::size_t> gradient_group(const Report& report, std::size_t rank, const std::string& wanted) {
  const Job& job = report.job;
  if (const auto& group = job.ranks[rank].gradient_group; wanted.empty() && group)
    return job.group_of[rank][*group];
  std::map<std::size_t, std::int64_t> bytes;
  for (const Exchange& exchange : job.ranks[rank].exchanges) {
    const bool sums = exchange.kind == Kind::all_reduce || exchange.kind == Kind::reduce_scatter;
    bytes[job.group_of[rank][exchange.group]] += sums ? std::max<std::int64_t>(exchange.bytes, 1) : 0;
  }
  std::optional<std::size_t> out;
  for (const auto& [group, sum] : bytes)
    if (wanted.empty() ? sum > 0 && (!out || sum > bytes[*out]) : is_named(job.groups[group], wanted))
      out = group;
  if (!out && !wanted.empty())
    throw core::InputError(fmt::format("--group: expected a process group of rank {}, got '{}'",
                                       job.ranks[rank].rank, core::printable(wanted)));
  return out;
}

namespace {

/// The median over the steps of a rank's trace of what exchanges of a group add up to.
template <typename Us>
double median_of_steps(const Report& report, std::size_t rank, std::size_t group, const Us& us_of) {
  const Job& job = report.job;
  std::map<std::int64_t, double> by_step;
  for (std::size_t i = 0; i < job.ranks[rank].exchanges.size(); ++i) {
    const Exchange& exchange = job.ranks[rank].exchanges[i];
    if (job.group_of[rank][exchange.group] == group) by_step[exchange.step] += us_of(i, exchange);
  }
  if (by_step.size() > 1) by_step.erase(-1);  // outside of all steps
  std::vector<double> all;
  for (const auto& [step, sum] : by_step) all.push_back(sum);
  return all.empty() ? 0 : core::quantile(std::move(all), 0.5);
}

}  // namespace

std::optional<double> waiting_us(const Report& report, std::size_t rank, std::size_t group) {
  const Job& job = report.job;
  const bool is_matched = std::any_of(job.meetings.begin(), job.meetings.end(), [&](const Meeting& meeting) {
    return meeting.group == group && meeting.members.size() > 1;
  });
  if (!is_matched) return std::nullopt;
  return median_of_steps(report, rank, group, [&](std::size_t i, const Exchange& exchange) {
    const bool sums = has_curve(exchange.kind) && !exchange.is_of_layer;
    return sums || exchange.kind == Kind::broadcast ? us(report.exposed[rank][i].waiting_ns) : 0;
  });
}

double constant_waiting_us(const Report& report, std::size_t rank, std::size_t group) {
  std::map<std::int64_t, double> late_us;  // by bytes
  for (const Exchange& exchange : report.job.ranks[rank].exchanges) {
    if (report.job.group_of[rank][exchange.group] != group || exchange.kind != Kind::broadcast) continue;
    const double took_us = us(exchange.ran.second - exchange.ran.first);
    const auto [found, is_new] = late_us.try_emplace(exchange.bytes, took_us);
    if (!is_new) found->second = std::min(found->second, took_us);
  }
  for (const GroupStatistics& each : report.groups)
    for (const SizeStatistics& size : each.sizes)
      if (const auto found = late_us.find(size.bytes);
          each.group == group && size.kind == Kind::broadcast && found != late_us.end())
        found->second = std::max(0.0, found->second - size.transfer_us);
  return median_of_steps(report, rank, group, [&](std::size_t i, const Exchange& exchange) {
    if (exchange.kind != Kind::broadcast) return 0.0;
    return std::min(late_us[exchange.bytes], us(report.exposed[rank][i].waiting_ns));
  });
}

Report make_report(std::vector<RankTrace> traces) {
  Report out = {.job = make_job(std::move(traces))};
  out.exposed = exposed_times(out.job);
  out.groups = statistics(out.job, out.exposed);
  out.warnings = warnings_of(out);
  return out;
}

std::string report_text(const Report& report, std::size_t width) {
  const Job& job = report.job;
  std::int64_t world = static_cast<std::int64_t>(job.ranks.size());
  for (const RankTrace& trace : job.ranks) world = std::max(world, trace.world_size);
  std::string out = fmt::format("{} of {} ranks over their whole traces; times since rank {} began\n",
                                job.ranks.size(), world, job.ranks.front().rank);
  if (job.clocks.collectives > 0) out += clocks_text(job);
  out += ranks_table(job, width);
  const std::int64_t zero = zero_of(job);
  for (const GroupStatistics& group : report.groups) out += group_text(report, group, zero, width);
  if (report.groups.empty()) out += "\nno collective of a known process group\n";
  return out;
}

std::string report_json(const Report& report) {
  const std::int64_t zero = zero_of(report.job);
  ordered_json ranks = ordered_json::array();
  for (std::size_t i = 0; i < report.job.ranks.size(); ++i) ranks.push_back(to_json(report.job, i));
  ordered_json groups = ordered_json::array();
  for (const GroupStatistics& group : report.groups) groups.push_back(to_json(report, group, zero));
  ordered_json warnings = ordered_json::array();
  for (const std::string& warning : report.warnings) warnings.push_back(core::one_line(warning));
  return core::json_text(
      {{"format", "fusewise.ranks"},
       {"version", 1},
       {"warnings", std::move(warnings)},
       {"clocks",
        {{"collectives", report.job.clocks.collectives}, {"spread_us", us(report.job.clocks.spread_ns)}}},
       {"ranks", std::move(ranks)},
       {"groups", std::move(groups)}});
}

traces::Measurements measurements_of(const Report& report, const std::string& group) {
  const std::string first = core::one_line(report.job.ranks.front().path);
  std::vector<std::string> with_curves;
  std::vector<const GroupStatistics*> found;
  for (const GroupStatistics& each : report.groups) {
    const Group& named = report.job.groups[each.group];
    if (curves(report.job, each).empty()) continue;
    with_curves.push_back(title(named));
    if (group.empty() || is_named(named, group)) found.push_back(&each);
  }
  if (with_curves.empty())
    throw core::InputError(
        fmt::format("{}: /: expected all-reduces, reduce-scatters or all-gathers of known sizes, to write a "
                    "network, got none",
                    first));
  if (found.size() != 1)
    throw core::InputError(fmt::format("--group: expected one of the groups that have curves ({}), got {}",
                                       fmt::join(with_curves, "; "),
                                       group.empty() ? "no name" : "'" + core::printable(group) + "'"));
  return measurements_of(report, found.front()->group);
}

traces::Measurements measurements_of(const Report& report, std::size_t group) {
  const auto found = std::find_if(report.groups.begin(), report.groups.end(),
                                  [&](const GroupStatistics& each) { return each.group == group; });
  const Group& named = report.job.groups[group];
  traces::Measurements out = {
      .source = named.traced.size() == 1
                    ? fmt::format("trace of one rank, {}: the shortest kernel of each size", title(named))
                    : fmt::format("traces of {} ranks, {}: from the last arrival to the last end of each "
                                  "collective, median",
                                  named.traced.size(), title(named))};
  if (found != report.groups.end()) out.series = curves(report.job, *found);
  return out;
}

}  // namespace ranks
