#include "profiler/traces/ranks/rank_trace.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/printable.hpp"

#include "profiler/traces/kineto/collective_kind.hpp"

namespace ranks {
namespace {

struct Named {
  std::string_view pattern;  ///< in lower case, without underscores
  Kind kind;
};

// The first that is found decides: "reduce" is also part of "allreduce".
constexpr auto kNames = std::to_array<Named>({{"allreduce", Kind::all_reduce},
                                              {"reducescatter", Kind::reduce_scatter},
                                              {"allgather", Kind::all_gather},
                                              {"alltoall", Kind::all_to_all},
                                              {"sendrecv", Kind::point_to_point},
                                              {"broadcast", Kind::broadcast},
                                              {"barrier", Kind::barrier},
                                              {"scatter", Kind::scatter},
                                              {"gather", Kind::gather},
                                              {"reduce", Kind::reduce},
                                              {"send", Kind::point_to_point},
                                              {"recv", Kind::point_to_point},
                                              {"coalesced", Kind::unknown}});

std::int64_t step_at(const std::vector<Step>& steps, std::int64_t time) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), time,
                                      [](std::int64_t at, const Step& step) { return at < step.span.first; });
  if (after == steps.begin()) return -1;
  const auto found = std::prev(after);
  return time < found->span.second ? found - steps.begin() : -1;
}

/// Where launches are not known, a step begins with the first kernel after its annotation does.
void find_device_starts(RankTrace& trace, const std::vector<Launched>& compute) {
  for (Step& step : trace.steps) step.device_start_ns = std::numeric_limits<std::int64_t>::max();
  for (const Launched& kernel : compute)
    if (const std::int64_t at = step_at(trace.steps, kernel.at_ns); at >= 0) {
      std::int64_t& first = trace.steps[static_cast<std::size_t>(at)].device_start_ns;
      first = std::min(first, kernel.start_ns);
    }
  for (Step& step : trace.steps) {
    if (step.device_start_ns != std::numeric_limits<std::int64_t>::max()) continue;
    const auto after = std::partition_point(trace.compute.begin(), trace.compute.end(),
                                            [&](const Span& span) { return span.first < step.span.first; });
    step.device_start_ns =
        after == trace.compute.end() || after->first >= step.span.second ? step.span.first - 1 : after->first;
  }
}

/// From the first to the last event.
Span extent(const RankTrace& trace) {
  Span out{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  const auto add = [&](const Span& span) {
    out = {std::min(out.first, span.first), std::max(out.second, span.second)};
  };
  for (const Exchange& exchange : trace.exchanges) add(exchange.ran);
  for (const Span& span : trace.compute) add(span);
  for (const Span& span : trace.copies) add(span);
  for (const Step& step : trace.steps) add(step.span);
  return out.first <= out.second ? out : Span{0, 0};
}

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, 11> kAll = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast",    "reduce",
      "gather",     "scatter",        "barrier",    "send_recv",  "communication"};
  return kAll[static_cast<std::size_t>(kind)];
}

Kind kind_of(std::string_view name) {
  const std::string text = kineto::plain_name(name);
  for (const Named& each : kNames)
    if (text.find(each.pattern) != std::string::npos) return each.kind;
  return Kind::unknown;
}

bool has_curve(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce_scatter || kind == Kind::all_gather;
}

core::CollectiveKind collective_of(Kind kind) {
  if (kind == Kind::reduce_scatter) return core::CollectiveKind::reduce_scatter;
  return kind == Kind::all_gather ? core::CollectiveKind::all_gather : core::CollectiveKind::all_reduce;
}

void finish(RankTrace& trace, const std::vector<std::int64_t>& launched_ns,
            const std::vector<Launched>& compute) {
  std::stable_sort(trace.steps.begin(), trace.steps.end(),
                   [](const Step& a, const Step& b) { return a.span < b.span; });
  for (std::size_t i = 0; i < trace.exchanges.size(); ++i)
    trace.exchanges[i].step = step_at(trace.steps, launched_ns[i]);
  std::stable_sort(trace.exchanges.begin(), trace.exchanges.end(),
                   [](const Exchange& a, const Exchange& b) { return a.ran < b.ran; });
  trace.compute = kineto::united(std::move(trace.compute));
  trace.copies = kineto::united(std::move(trace.copies));
  trace.waits = kineto::united(std::move(trace.waits));
  find_device_starts(trace, compute);
  constexpr std::int64_t kMaxLengthNs = 1'000'000'000'000'000;
  const Span whole = extent(trace);
  if (whole.second - kMaxLengthNs > whole.first)
    throw core::InputError(
        fmt::format("{}: /traceEvents: expected a trace of at most 11 days, got a longer one",
                    core::one_line(trace.path)));
  trace.origin_ns += whole.first;
  change_times(trace, [&](std::int64_t ns) { return ns - whole.first; });
}

void check_sizes(const std::vector<RankTrace>& ranks) {
  std::size_t exchanges = 0;
  std::size_t spans = 0;
  for (const RankTrace& rank : ranks) {
    exchanges += rank.exchanges.size();
    spans += rank.compute.size() + rank.copies.size() + rank.waits.size() + rank.in_passes.size();
  }
  if (exchanges <= kMaxExchanges && spans <= kMaxSpans) return;
  throw core::InputError(fmt::format(
      "{}: /: expected traces with at most {} collectives and {} times in which ranks compute, copy "
      "or wait, in all, got more",
      core::one_line(ranks.back().path), kMaxExchanges, kMaxSpans));
}

void change_times(RankTrace& trace, const std::function<std::int64_t(std::int64_t)>& change) {
  const auto apply = [&](Span& span) { span = {change(span.first), change(span.second)}; };
  for (Exchange& exchange : trace.exchanges) apply(exchange.ran);
  for (Spans* spans : {&trace.compute, &trace.copies, &trace.waits, &trace.in_passes})
    for (Span& span : *spans) apply(span);
  for (Step& step : trace.steps) {
    apply(step.span);
    step.device_start_ns = change(step.device_start_ns);
  }
}

}  // namespace ranks
