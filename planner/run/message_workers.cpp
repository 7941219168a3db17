#include <algorithm>
#include <memory>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"
#include "planner/run/follow_path.hpp"
#include "planner/run/messages_of.hpp"
#include "planner/run/outages.hpp"
#include "planner/run/worker_simulations.hpp"
#include "sim/cluster/messages.hpp"

namespace planner {
namespace {

using sim::TaskId;
using sim::Time;

std::optional<cluster::Topology> topology_of(const Setting& setting) {
  if (!setting.conditions.topology) return std::nullopt;
  try {
    return cluster::make_topology(*setting.conditions.topology,
                                  static_cast<std::uint32_t>(setting.costs.workers()));
  } catch (const std::invalid_argument& problem) {
    throw Unsupported(fmt::format("a number of workers that fits the topology ({})", problem.what()),
                      fmt::to_string(setting.costs.workers()));
  }
}

class ByMessages {
 public:
  ByMessages(const Setting& setting, const Executable& executable, const std::vector<std::int64_t>& shown,
             bool with_path)
      : setting_(setting),
        executable_(executable),
        tasks_(executable.lowered.graph.tasks()),
        sigmas_(setting),
        slowdowns_(slowdowns(setting)),
        outages_(setting),
        accounts_(setting, executable, shown),
        messages_(links_of(setting), topology_of(setting), with_path),
        with_path_(with_path),
        path_(accounts_.workers()),
        by_stream_(executable.lowered.graph.streams().size()),
        collectives_(tasks_.size()),
        key_(tasks_.size()),
        running_(tasks_.size()),
        waits_for_(tasks_.size()) {
    std::uint64_t collectives = 0;
    for (std::uint32_t task = 0; task < tasks_.size(); ++task) {
      if (executable.lowered.is_channel(tasks_[task].stream)) key_[task] = collectives++;
      by_stream_[sim::index(tasks_[task].stream)].push_back(TaskId{task});
      for (const TaskId next : executable.lowered.graph.successors(TaskId{task}))
        ++waits_for_[sim::index(next)];
    }
    workers_.resize(accounts_.workers());
    for (Worker& worker : workers_) {
      worker.next.resize(by_stream_.size());
      worker.busy.resize(by_stream_.size());
    }
  }

  AllWorkers all() && {
    for (std::size_t worker = 0; worker < workers_.size(); ++worker) start_what_can(worker, Time::zero());
    for (;;) {
      const Time until = ends_.empty() ? Time::max() : std::get<0>(ends_.top());
      if (const auto left = messages_.next(until)) {
        const auto task = TaskId{task_of_[left->collective]};
        if (with_path_) running(task).path->origins[left->rank] = left->origin;
        end(task, left->rank, left->at);
      } else if (!ends_.empty()) {
        const auto [at, worker, task] = ends_.top();
        ends_.pop();
        end(TaskId{task}, worker, at);
      } else {
        break;
      }
    }
    check_all_ended();
    AllWorkers out = std::move(accounts_).take();
    if (with_path_) out.critical_path = follow_path(setting_, executable_, path_, out.marks);
    out.use.links = busiest_links(out.use.length);
    const double of_event = messages_.topology() == nullptr ? kMessageWork : 200;
    out.message_work = of_event * static_cast<double>(messages_.delivered());
    return out;
  }

 private:
  using Ending = std::tuple<Time, std::size_t, std::uint32_t>;  // time, worker, task

  struct Worker {
    std::vector<std::size_t> next;  ///< by stream: number of its tasks that have begun
    std::vector<bool> busy;
  };

  /// A task on all workers, from the first begin to the last end.
  struct Running {
    std::vector<std::uint32_t> ended_before;  ///< by worker: number of its dependencies that have ended
    std::vector<Time> begins;
    std::vector<Time> ends;
    std::size_t ready = 0;
    std::size_t ended = 0;
    std::optional<PathTracker::Meeting> path;  ///< set for collectives
  };

  Running& running(TaskId task) {
    std::unique_ptr<Running>& at = running_[sim::index(task)];
    if (!at)
      at = std::make_unique<Running>(Running{.ended_before = std::vector<std::uint32_t>(workers_.size()),
                                             .begins = std::vector<Time>(workers_.size()),
                                             .ends = std::vector<Time>(workers_.size())});
    return *at;
  }

  void start_what_can(std::size_t worker, Time now) {
    for (std::size_t stream = 0; stream < by_stream_.size(); ++stream) start_next(worker, stream, now);
  }

  /// A stream runs its tasks in graph order.
  void start_next(std::size_t worker, std::size_t stream, Time now) {
    Worker& at = workers_[worker];
    if (at.busy[stream] || at.next[stream] == by_stream_[stream].size()) return;
    const TaskId task = by_stream_[stream][at.next[stream]];
    if (running(task).ended_before[worker] < waits_for_[sim::index(task)]) return;
    at.busy[stream] = true;
    ++at.next[stream];
    start(task, worker, now);
  }

  void start(TaskId task, std::size_t worker, Time now) {
    const sim::Task& what = tasks_[sim::index(task)];
    const TaskLabel label = TaskLabel::unpack(what.label);
    Running& all = running(task);
    if (executable_.lowered.is_channel(what.stream)) {
      all.begins[worker] = outages_.joins(worker, now, label);
      if (with_path_ && !all.path) all.path = meeting(task, label);
      if (with_path_) all.path->since[worker] = path_.since(worker, all.begins[worker]);
      messages_.enter(collective(task, label), static_cast<std::uint32_t>(worker), all.begins[worker]);
      return;
    }
    all.begins[worker] = now;
    if (what.stream == Lowered::kTicks) return together(task, all, now);
    const Time duration =
        what.stream == Lowered::kCompute ? sampled(worker, label, what.duration) : what.duration;
    accounts_.computes(worker, label, duration);
    const Time end = outages_.end(worker, now, duration, label);
    if (with_path_) path_.computes(worker, now, end);
    ends_.emplace(end, worker, static_cast<std::uint32_t>(task));
  }

  PathTracker::Meeting meeting(TaskId task, const TaskLabel& label) const {
    return {.since = std::vector<Time>(workers_.size()),
            .ends = {},
            .origins = std::vector<std::uint32_t>(workers_.size()),
            .label = label.packed(),
            .collective = key_[sim::index(task)]};
  }

  Time sampled(std::size_t worker, const TaskLabel& label, Time duration) const {
    const double sigma = sigmas_.of(label.kind, label.item);
    if (sigma == 0 && slowdowns_[worker] == 1) return duration;
    const double draw =
        task_factor(setting_.conditions.jitter, sigma, static_cast<std::int64_t>(worker), label);
    return sim::from_us(sim::to_us(duration) * (slowdowns_[worker] * draw));
  }

  /// A tick counts from the arrival of the last worker.
  void together(TaskId task, Running& all, Time now) {
    if (++all.ready < workers_.size()) return;
    const Time at = sim::after(now, tasks_[sim::index(task)].duration);
    if (with_path_) path_.meets(all.begins, at);
    for (std::size_t worker = 0; worker < workers_.size(); ++worker)
      ends_.emplace(at, worker, static_cast<std::uint32_t>(task));
  }

  std::uint32_t collective(TaskId task, const TaskLabel& label) {
    std::optional<std::uint32_t>& known = collectives_[sim::index(task)];
    if (known) return *known;
    known = messages_.add(collective_of(setting_, executable_, label), key_[sim::index(task)]);
    task_of_.resize(std::max<std::size_t>(task_of_.size(), *known + 1));
    task_of_[*known] = static_cast<std::uint32_t>(task);
    return *known;
  }

  void end(TaskId task, std::size_t worker, Time now) {
    const std::size_t stream = sim::index(tasks_[sim::index(task)].stream);
    Running& all = running(task);
    all.ends[worker] = now;
    workers_[worker].busy[stream] = false;
    for (const TaskId next : executable_.lowered.graph.successors(task)) ++running(next).ended_before[worker];
    if (++all.ended == workers_.size()) retire(task, all);
    start_what_can(worker, now);
  }

  void retire(TaskId task, Running& all) {
    const sim::Task& what = tasks_[sim::index(task)];
    if (executable_.lowered.is_channel(what.stream))
      accounts_.meets(TaskLabel::unpack(what.label), all.begins, all.ends);
    accounts_.ran(task, all.begins, all.ends);
    if (all.path) {
      all.path->begins = std::move(all.begins);
      all.path->ends = std::move(all.ends);
      path_.meets(std::move(*all.path));
    }
    running_[sim::index(task)].reset();
    ++retired_;
  }

  std::vector<LinkUse> busiest_links(Time length) const {
    if (messages_.topology() == nullptr) return {};
    const std::vector<double> busy_us = messages_.busy_us();
    std::vector<std::uint32_t> order(busy_us.size());
    std::iota(order.begin(), order.end(), 0U);
    constexpr std::size_t kMax = 5;
    const auto max = order.begin() + static_cast<std::ptrdiff_t>(std::min(kMax, order.size()));
    std::partial_sort(order.begin(), max, order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return busy_us[a] != busy_us[b] ? busy_us[a] > busy_us[b] : a < b;
    });
    std::vector<LinkUse> out;
    for (auto link = order.begin(); link != max && busy_us[*link] > 0; ++link)
      out.push_back({.link = messages_.topology()->links[*link].name,
                     .share = std::min(1.0, busy_us[*link] / sim::to_us(length))});  // 1 but for rounding
    return out;
  }

  void check_all_ended() const {
    if (retired_ == tasks_.size()) return;
    std::string who;
    const std::vector<cluster::Messages::Waiting> waiting = messages_.waiting();
    constexpr std::size_t kMax = 5;
    for (std::size_t i = 0; i < std::min(kMax, waiting.size()); ++i)
      who += fmt::format("{}worker {} for worker {} in round {}", i == 0 ? ": " : ", ", waiting[i].rank,
                         waiting[i].from, waiting[i].round + 1);
    throw NeverEnds(fmt::format("{} of {} tasks never end; collectives wait{}", tasks_.size() - retired_,
                                tasks_.size(), who));
  }

  const Setting& setting_;
  const Executable& executable_;
  std::span<const sim::Task> tasks_;
  TaskSigmas sigmas_;
  std::vector<double> slowdowns_;
  Outages outages_;
  WorkerAccounts accounts_;
  cluster::Messages messages_;
  bool with_path_;
  PathTracker path_;
  std::vector<std::vector<TaskId>> by_stream_;
  std::vector<std::optional<std::uint32_t>> collectives_;  // by task
  std::vector<std::uint64_t> key_;                         // by task: key of a collective, the same as for
                                                           // fidelity `steps`
  std::vector<std::uint32_t> task_of_;                     // by collective
  std::vector<std::unique_ptr<Running>> running_;          // by task
  std::vector<std::uint32_t> waits_for_;                   // by task: number of its dependencies
  std::vector<Worker> workers_;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ends_;
  std::size_t retired_ = 0;
};

}  // namespace

AllWorkers simulate_by_messages(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown, bool with_path) {
  return ByMessages(setting, executable, shown, with_path).all();
}

}  // namespace planner
