#include "profiler/traces/ranks/read_kineto.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/gradient_sizes.hpp"
#include "profiler/traces/kineto/read_trace.hpp"

namespace ranks {
namespace {

using kineto::Calls;
using kineto::Role;
using kineto::Trace;

Kind exchange_kind(const Trace& trace, const kineto::Kernel& kernel) {
  const Kind kind = ranks::kind_of(kineto::collective_name(trace, kernel));
  return kind == Kind::unknown ? ranks::kind_of(trace.texts[kernel.name]) : kind;
}

/// A trace without marked steps has the iterations that were found in it, if there are several.
std::vector<Step> steps_of(const Calls& calls) {
  std::vector<Step> out;
  if (!calls.has_steps && calls.steps.size() < 2) return out;
  for (const kineto::Step& step : calls.steps)
    out.push_back({.label = step.label, .span = {step.start_ns, step.end_ns}});
  return out;
}

/// An iteration begins on the device with the first kernel of a forward pass, or else with any.
std::vector<Launched> beginnings(const Trace& trace, const Calls& calls) {
  std::vector<bool> has_forward(calls.steps.size(), false);
  for (const kineto::Work& work : calls.work)
    if (work.step >= 0 && work.role == Role::forward) has_forward[static_cast<std::size_t>(work.step)] = true;
  std::vector<Launched> out;
  for (std::size_t i = 0; i < calls.work.size(); ++i) {
    const kineto::Work& work = calls.work[i];
    const bool communicates = work.role == Role::communication || work.role == Role::copy;
    if (work.step < 0 || !work.has_launch || communicates) continue;
    if (work.role == Role::forward || !has_forward[static_cast<std::size_t>(work.step)])
      out.push_back({.at_ns = work.launched_ns, .start_ns = trace.kernels[i].start_ns});
  }
  return out;
}

}  // namespace

RankTrace read_kineto(const std::string& path, std::string_view step,
                      const std::vector<std::int64_t>& parameters) {
  Trace trace = kineto::read_trace(path);
  check_has_kernels(trace);
  Calls calls = kineto::find_calls(trace, step);
  const bool assumes_sizes = kineto::add_bucket_sizes_if_known(trace, calls, parameters);
  RankTrace out = {.path = path,
                   .rank = trace.rank >= 0 ? trace.rank : rank_in_name(path),
                   .world_size = trace.world_size,
                   .device = trace.device,
                   .origin_ns = trace.base_ns,
                   .compute = calls.gaps,
                   .waits = calls.waits,
                   .in_passes = calls.in_passes,
                   .steps = steps_of(calls)};
  std::vector<std::int64_t> launched;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const kineto::Kernel& kernel = trace.kernels[i];
    const Span ran = {kernel.start_ns, kernel.end_ns};
    const kineto::Work& work = calls.work[i];
    if (work.role == Role::copy) out.copies.push_back(ran);
    if (work.role != Role::communication && work.role != Role::copy) out.compute.push_back(ran);
    if (work.role != Role::communication) continue;
    const kineto::Collective& said = trace.collectives[static_cast<std::size_t>(kernel.collective)];
    out.exchanges.push_back({.ran = ran,
                             .kind = exchange_kind(trace, kernel),
                             .group = work.group,
                             .sequence = said.sequence,
                             .id = trace.texts[said.id],
                             .bytes = kineto::bytes_of(trace, kernel),
                             .is_of_layer = work.is_exchange,
                             .is_in_pass = kineto::is_in_pass(trace, kernel, work)});
    launched.push_back(work.launched_ns);
  }
  out.groups = std::move(calls.groups);
  out.gradient_group = calls.gradient_group;
  if (trace.is_cut_off)
    out.notes.push_back(fmt::format("the file is cut off after {} events: the rest is lost", trace.events));
  if (assumes_sizes) out.notes.emplace_back(kineto::kAssumedBuckets);
  finish(out, launched, beginnings(trace, calls));
  return out;
}

std::int64_t rank_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view word : {"rank", "worker"}) {
    const std::size_t found = name.find(word);
    if (found == std::string::npos) continue;
    std::size_t begin = found + word.size();
    while (begin < name.size() && (name[begin] == '_' || name[begin] == '-' || name[begin] == '.')) ++begin;
    std::int64_t out = -1;
    const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), out);
    if (error == std::errc() && out >= 0 && out < core::kMaxWorkers) return out;
  }
  return -1;
}

}  // namespace ranks
