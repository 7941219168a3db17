#include "planner/all_workers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "cluster/replay.hpp"
#include "planner/predict.hpp"
#include "planner/task_factors.hpp"

namespace planner {
namespace {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

/// When a worker computes nothing.
struct Outage {
  std::size_t worker = 0;
  Time from{};
  Time to{};  ///< Time::max(): for good
};

std::vector<Outage> outages(const Setting& setting) {
  std::vector<Outage> out;
  for (const Failure& failure : setting.conditions.failures) {
    if (failure.worker >= setting.costs.workers()) continue;
    const Time from = sim::from_us(failure.at_us);
    out.push_back({.worker = static_cast<std::size_t>(failure.worker),
                   .from = from,
                   .to = failure.down_us ? from + sim::from_us(*failure.down_us) : Time::max()});
  }
  std::sort(out.begin(), out.end(), [](const Outage& a, const Outage& b) { return a.from < b.from; });
  return out;
}

class Simulation {
 public:
  Simulation(const Setting& setting, const Run& run, const std::vector<std::int64_t>& shown)
      : setting_(setting),
        run_(run),
        workers_(static_cast<std::size_t>(setting.costs.workers())),
        factors_(setting),
        outages_(outages(setting)),
        ends_at_mark_(marks_by_task(run.lowered)),
        begins_(workers_) {
    out_.marks.assign(run.lowered.marks.size(), std::vector<Time>(workers_));
    out_.busy.resize(workers_);
    out_.waited.resize(workers_);
    out_.kept_waiting.resize(workers_);
    for (const std::int64_t worker : shown)
      out_.shown.push_back(
          {.worker = worker,
           .timeline = {.spans = std::vector<sim::Span>(run.lowered.graph.tasks().size()), .makespan = {}}});
  }

  AllWorkers all() && {
    cluster::replay(run_.lowered.graph, static_cast<std::uint32_t>(workers_),
                    [&](TaskId task, std::span<Time> times) { one(task, times); });
    return std::move(out_);
  }

 private:
  static std::vector<std::vector<std::size_t>> marks_by_task(const Lowered& lowered) {
    std::vector<std::vector<std::size_t>> out(lowered.graph.tasks().size());
    for (std::size_t mark = 0; mark < lowered.marks.size(); ++mark)
      for (const TaskId task : lowered.marks[mark]) out[sim::index(task)].push_back(mark);
    return out;
  }

  void one(TaskId task, std::span<Time> times) {
    const sim::Task& what = run_.lowered.graph.tasks()[sim::index(task)];
    const TaskLabel label = TaskLabel::unpack(what.label);
    std::copy(times.begin(), times.end(), begins_.begin());
    if (what.stream == Lowered::kChannel)
      collective(label, what.duration, times);
    else if (what.stream == Lowered::kTicks)
      together(what.duration, times);
    else
      by_itself(label, what, times);
    for (const std::size_t mark : ends_at_mark_[sim::index(task)])
      for (std::size_t n = 0; n < workers_; ++n)
        out_.marks[mark][n] = std::max(out_.marks[mark][n], times[n]);
    show(task, times);
  }

  void by_itself(const TaskLabel& label, const sim::Task& what, std::span<Time> times) {
    const std::span<const double> factors =
        what.stream == Lowered::kCompute ? factors_.of(label) : std::span<const double>();
    const bool counts = label.iteration >= first_counted(run_, label.kind);
    const double us = sim::to_us(what.duration);
    for (std::size_t n = 0; n < workers_; ++n) {
      const Time duration = factors.empty() ? what.duration : sim::from_us(us * factors[n]);
      Time* part = counts ? out_.busy[n].part(label.kind) : nullptr;
      if (part != nullptr) *part += duration;
      times[n] += duration;
    }
    for (const Outage& outage : outages_) interrupt(outage, label, times[outage.worker]);
  }

  /// A task that is running stands still, one that would begin waits; what is done is not lost.
  void interrupt(const Outage& outage, const TaskLabel& label, Time& end) const {
    const Time begin = begins_[outage.worker];
    if (end <= outage.from || begin >= outage.to) return;
    if (outage.to == Time::max()) never_ends(outage, label);
    end += outage.to - std::max(begin, outage.from);
  }

  [[noreturn]] void never_ends(const Outage& outage, const TaskLabel& label) const {
    const std::string others =
        workers_ == 1 ? "nothing else waits for it"
                      : fmt::format("the {} other worker{} wait for its next collective in iteration {}",
                                    workers_ - 1, workers_ == 2 ? "" : "s", label.iteration + 1);
    throw NeverEnds(
        fmt::format("worker {} fails for good at {} us, in iteration {}: its {} never ends, and {}",
                    outage.worker, sim::to_us(outage.from), label.iteration + 1, task_name(label), others));
  }

  std::string task_name(const TaskLabel& label) const {
    const auto& layers = setting_.workload.profile->layers;
    switch (label.kind) {
      case Kind::forward: return fmt::format("forward pass of '{}'", layers[label.item].name);
      case Kind::backward:
        return fmt::format("backward pass of '{}'",
                           layers[setting_.workload.backward[label.item].layer].name);
      case Kind::encode: return fmt::format("encoding of group {}", label.item + 1);
      case Kind::decode: return fmt::format("decoding of group {}", label.item + 1);
      default: return "task";
    }
  }

  void together(Time duration, std::span<Time> times) {
    const Time last = *std::max_element(times.begin(), times.end());
    std::fill(times.begin(), times.end(), last + duration);
  }

  void collective(const TaskLabel& label, Time duration, std::span<Time> times) {
    for (const Outage& outage : outages_)  // who is down joins when it is back
      interrupt_joining(outage, label, times[outage.worker]);
    const auto last = std::max_element(times.begin(), times.end());
    const Time begin = *last;
    const auto culprit = static_cast<std::size_t>(last - times.begin());
    const bool counts = label.iteration >= first_counted(run_.lowered);
    if (counts) {
      Time all{};
      for (std::size_t n = 0; n < workers_; ++n) {
        out_.waited[n] += begin - times[n];
        all += begin - times[n];
      }
      out_.kept_waiting[culprit] += all;
    }
    std::fill(begins_.begin(), begins_.end(), begin);
    together(duration, times);
    if (counts) out_.channel_busy += times.front() - begin;
  }

  void interrupt_joining(const Outage& outage, const TaskLabel& label, Time& at) const {
    if (at < outage.from || at >= outage.to) return;
    if (outage.to == Time::max()) never_ends(outage, label);
    at = outage.to;
  }

  void show(TaskId task, std::span<const Time> times) {
    for (ShownWorker& shown : out_.shown) {
      const auto n = static_cast<std::size_t>(shown.worker);
      sim::Span& span = shown.timeline.spans[sim::index(task)];
      span = {.start = begins_[n], .end = times[n]};
      shown.timeline.makespan = std::max(shown.timeline.makespan, span.end);
    }
  }

  const Setting& setting_;
  const Run& run_;
  std::size_t workers_;
  TaskFactors factors_;
  std::vector<Outage> outages_;
  std::vector<std::vector<std::size_t>> ends_at_mark_;
  std::vector<Time> begins_;  // of the task that is worked on
  AllWorkers out_;
};

}  // namespace

Time* Busy::part(Kind kind) {
  switch (kind) {
    case Kind::forward:
    case Kind::micro_batch_forward: return &forward;
    case Kind::backward:
    case Kind::micro_batch_backward: return &backward;
    case Kind::encode: return &encode;
    case Kind::decode: return &decode;
    case Kind::lars:
    case Kind::update:
    case Kind::group_update: return &update;
    case Kind::read:
    case Kind::tick:
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::lars_gather: return nullptr;
  }
  return nullptr;
}

AllWorkers simulate_all_workers(const Setting& setting, const Run& run, std::vector<std::int64_t> shown) {
  return Simulation(setting, run, shown).all();
}

std::size_t first_counted(const Lowered& lowered) { return lowered.marks.size() > 2 ? 1 : 0; }

std::int64_t counted(const Lowered& lowered) {
  return static_cast<std::int64_t>(lowered.marks.size() - 1 - first_counted(lowered));
}

std::size_t first_counted(const Run& run, Kind kind) {
  const auto& ops = run.program.ops;
  const bool carries =
      std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.delivers == Delivers::own_layers; });
  const bool ends_one =
      carries && (kind == Kind::forward || kind == Kind::decode || kind == Kind::group_update);
  return first_counted(run.lowered) + (ends_one ? 1 : 0);
}

}  // namespace planner
