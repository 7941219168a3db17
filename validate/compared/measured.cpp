// The measured iteration of one rank.

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/printable.hpp"
#include "validate/compared/iteration.hpp"

namespace compared {
namespace {

using ranks::Kind;
using ranks::Span;
using ranks::Spans;

constexpr double kNsPerUs = 1000;

double us(std::int64_t ns) { return static_cast<double>(ns) / kNsPerUs; }

Spans clipped(const Spans& spans, const Span& window) {
  Spans out;
  for (const Span& span : spans)
    if (span.second > window.first && span.first < window.second)
      out.emplace_back(std::max(span.first, window.first), std::min(span.second, window.second));
  return out;
}

/// The part of a trace in a window.
ranks::RankTrace clipped(const ranks::RankTrace& trace, const Span& window, std::vector<std::size_t>& kept) {
  ranks::RankTrace out;
  out.compute = clipped(trace.compute, window);
  out.copies = clipped(trace.copies, window);
  out.waits = clipped(trace.waits, window);
  out.in_passes = clipped(trace.in_passes, window);
  for (std::size_t i = 0; i < trace.exchanges.size(); ++i) {
    ranks::Exchange exchange = trace.exchanges[i];
    if (exchange.ran.second <= window.first || exchange.ran.first >= window.second) continue;
    exchange.ran = {std::max(exchange.ran.first, window.first), std::min(exchange.ran.second, window.second)};
    kept.push_back(i);
    out.exchanges.push_back(std::move(exchange));
  }
  return out;
}

struct Window {
  Span span;
  std::string text;
};

Span whole(const ranks::RankTrace& trace) {
  Spans all = trace.compute;
  for (const ranks::Exchange& exchange : trace.exchanges) all.push_back(exchange.ran);
  all.insert(all.end(), trace.copies.begin(), trace.copies.end());
  all = kineto::united(std::move(all));
  return all.empty() ? Span{0, 0} : Span{all.front().first, all.back().second};
}

/// The step of median length; the last one has no next and counts only if it is alone.
Window median_step(const ranks::RankTrace& trace) {
  std::vector<const ranks::Step*> steps;
  for (const ranks::Step& step : trace.steps)
    if (step.device_start_ns >= step.span.first) steps.push_back(&step);
  const Span all = whole(trace);
  if (steps.empty()) return {.span = all, .text = "the whole trace, which marks no steps"};
  std::vector<Window> windows;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i)
    if (steps[i + 1]->device_start_ns > steps[i]->device_start_ns)
      windows.push_back(
          {.span = {steps[i]->device_start_ns, steps[i + 1]->device_start_ns}, .text = steps[i]->label});
  if (windows.empty()) {
    const ranks::Step& only = *steps.front();
    const std::int64_t length =
        std::max(only.span.second - only.span.first, all.second - only.device_start_ns);
    return {.span = {only.device_start_ns, only.device_start_ns + length},
            .text = fmt::format("step {}, the only one", core::printable(only.label))};
  }
  std::ranges::stable_sort(windows, [](const Window& a, const Window& b) {
    return a.span.second - a.span.first < b.span.second - b.span.first;
  });
  Window& median = windows[(windows.size() - 1) / 2];
  median.text =
      median.text.empty()
          ? fmt::format("the iteration of median length of {}, told apart by their updates", windows.size())
          : fmt::format("step {}, of median length of {}", core::printable(median.text), windows.size());
  return median;
}

}  // namespace

double Iteration::waiting_us() const {
  double out = ahead_us;
  for (const Collective& collective : collectives) out += collective.waiting_us;
  return out;
}

double Iteration::exposed_us() const {
  double out = other_exposed_us + ahead_us;
  for (const Collective& collective : collectives) out += collective.exposed_us;
  return out;
}

void add_computing(Iteration& iteration, const Computing& next) {
  constexpr double kJoined = 1e-3;
  std::vector<Computing>& all = iteration.computing;
  if (!all.empty() && next.start_us - all.back().end_us <= kJoined * iteration.iteration_us)
    all.back().end_us = next.end_us;
  else
    all.push_back(next);
}

Iteration measured(const ranks::Report& report, const ranks::RankTrace& trace, const std::string& group) {
  const auto rank = static_cast<std::size_t>(&trace - report.job.ranks.data());
  const Window window = median_step(trace);
  std::vector<std::size_t> kept;
  const ranks::RankTrace part = clipped(trace, window.span, kept);

  std::vector<std::int64_t> last_start(trace.exchanges.size());
  for (std::size_t i = 0; i < trace.exchanges.size(); ++i) last_start[i] = trace.exchanges[i].ran.first;
  for (const ranks::Meeting& meeting : report.job.meetings)
    for (const ranks::Member& member : meeting.members)
      if (member.rank == rank) last_start[member.exchange] = arrival_of(report.job, meeting).last_start_ns;
  std::vector<std::int64_t> came;
  for (const std::size_t i : kept) came.push_back(last_start[i]);
  const std::vector<ranks::Exposed> exposed = exposed_times(part, came);

  const std::optional<std::size_t> gradients = ranks::gradient_group(report, rank, group);
  Iteration out = {.source = fmt::format("rank {}, {}", trace.rank, window.text),
                   .iteration_us = us(window.span.second - window.span.first),
                   .busy_us = us(kineto::length_ns(part.compute))};
  for (const Span& span : kineto::united(part.compute))
    add_computing(
        out, {.start_us = us(span.first - window.span.first), .end_us = us(span.second - window.span.first)});
  for (std::size_t i = 0; i < part.exchanges.size(); ++i) {
    const ranks::Exchange& exchange = part.exchanges[i];
    const bool is_of_group = gradients && report.job.group_of[rank][exchange.group] == *gradients;
    const bool began_here = trace.exchanges[kept[i]].ran.first >= window.span.first;
    if (!is_of_group || !began_here || !ranks::has_curve(exchange.kind) || exchange.is_of_layer) {
      const bool waits = is_of_group && exchange.kind == ranks::Kind::broadcast;  // see ranks::waiting_us()
      if (waits) out.ahead_us += us(exposed[i].waiting_ns);
      out.other_exposed_us += us(waits ? exposed[i].transfer_ns : exposed[i].ns());
      continue;
    }
    out.collectives.push_back({.kind = std::string(name(exchange.kind)),
                               .bytes = exchange.bytes,
                               .start_us = us(exchange.ran.first - window.span.first),
                               .end_us = us(exchange.ran.second - window.span.first),
                               .exposed_us = us(exposed[i].ns()),
                               .waiting_us = us(exposed[i].waiting_ns)});
  }
  if (gradients) out.workers = report.job.groups[*gradients].size;
  out.copies_us = ranks::times_of(part).copies_us;
  out.idle_us = std::max(0.0, out.iteration_us - out.busy_us - out.exposed_us() - out.copies_us);
  return out;
}

}  // namespace compared
