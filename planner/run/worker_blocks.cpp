#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "planner/graph/task_factors.hpp"
#include "planner/graph/task_order.hpp"
#include "planner/run/follow_path.hpp"
#include "planner/run/outages.hpp"
#include "planner/run/worker_simulations.hpp"
#include "sim/worker_times.hpp"

namespace planner {
namespace {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

constexpr std::size_t kBlock = 512;  // a few arrays of this length fit the first-level cache
static_assert(kBlock <= sim::kMaxAtOnce);

TaskId id(std::size_t task) { return TaskId{static_cast<std::uint32_t>(task)}; }

bool goes_by_messages(const Setting& setting) {
  return setting.conditions.fidelity != Fidelity::closed && setting.costs.workers() > 1;
}

double max_factor(const Setting& setting) {
  const std::vector<double> all = slowdowns(setting);
  return *std::ranges::max_element(all) * longest_draw(setting);
}

/// When each worker was ready for a shared task, by the end of the last task of its own before.
struct Ready {
  std::vector<Time> times;  ///< by worker
  std::vector<Time> last;   ///< by block of workers
};

/// What one thread needs for the blocks that it runs.
struct Lane {
  explicit Lane(const Setting& setting) : factors(setting) {}

  TaskFactors factors;
  std::array<std::array<Time, kBlock>, TaskLabel::kKinds> sums{};  ///< of the current block, by kind of task
  std::array<bool, TaskLabel::kKinds> is_summed{};
  std::array<Time, kBlock> uncounted{};
  sim::TotalTime computing;
  std::vector<sim::TotalTime> others;  ///< by wait: the time that workers of its blocks waited
};

/// Every sum is over integers, so the number of threads changes no result.
std::size_t threads_for(std::size_t workers) {
  constexpr std::size_t kMany = 16'384;  // a thread starts in less time than they take
  return workers < kMany ? 1 : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 8);
}

class ByBlocks {
 public:
  ByBlocks(const Setting& setting, const Executable& executable, const std::vector<std::int64_t>& shown,
           bool with_path)
      : setting_(setting),
        executable_(executable),
        tasks_(executable.lowered.graph.tasks()),
        max_factor_(max_factor(setting)),
        out_(WorkerAccounts(setting, executable, shown).take()),
        channels_(setting, executable, {}),
        common_marks_(executable.lowered.marks.size()),
        marks_of_(tasks_.size()),
        order_(order_with_few_times(executable.lowered)),
        with_path_(with_path),
        path_(out_.busy.size()),
        times_(out_.busy.size()),
        stream_free_(executable.lowered.graph.streams().size()),
        since_(tasks_.size()),
        waits_for_shared_(tasks_.size()),
        last_own_(tasks_.size()),
        awaited_by_(tasks_.size()),
        ready_(tasks_.size()),
        lanes_(threads_for(out_.busy.size()), Lane(setting)) {
    for (std::size_t task = 0; task < tasks_.size(); ++task)
      for (const TaskId next : executable.lowered.graph.successors(id(task))) {
        if (is_shared(task))
          waits_for_shared_[sim::index(next)] = true;
        else
          last_own_[sim::index(next)] = task;
      }
    for (std::size_t task = 0; task < tasks_.size(); ++task)
      if (is_shared(task) && last_own_[task]) ++awaited_by_[*last_own_[task]];
    for (std::size_t mark = 0; mark < common_marks_.size(); ++mark)
      for (const TaskId task : executable.lowered.marks[mark]) marks_of_[sim::index(task)].push_back(mark);
    for (std::size_t kind = 0; kind < first_counted_.size(); ++kind)
      first_counted_[kind] = first_counted(executable, static_cast<Kind>(kind));
  }

  AllWorkers all() && {
    for (std::span<const TaskId> left = order_; !left.empty();) {
      const std::size_t count = length_of_run(left);
      run(left.first(count));
      left = left.subspan(count);
    }
    for (std::size_t mark = 0; mark < out_.marks.size(); ++mark)
      for (Time& time : out_.marks[mark]) time = std::max(time, common_marks_[mark]);
    for (const Lane& lane : lanes_) out_.use.computing += lane.computing;
    out_.use.length = std::max(out_.use.length, sim::max_of(times_));
    const AllWorkers channels = std::move(channels_).take();
    out_.channel_busy = channels.channel_busy;
    out_.use.communicating = channels.use.communicating;
    if (with_path_) out_.critical_path = follow_path(setting_, executable_, path_, out_.marks);
    return std::move(out_);
  }

 private:
  bool is_shared(std::size_t task) const { return executable_.lowered.is_shared(tasks_[task].stream); }

  /// The number of tasks that each worker can run without knowing when the shared ones among them end.
  /// Workers only pause before the first shared one, so that the critical path sees their last pause.
  std::size_t length_of_run(std::span<const TaskId> left) const {
    constexpr std::size_t kMaxShared = 16;  // each keeps a time for every worker
    std::size_t shared = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const std::size_t task = sim::index(left[i]);
      if (is_shared(task)) {
        if (++shared == kMaxShared) return i + 1;
      } else if (waits_for_shared_[task] && shared > 0) {
        return i;
      }
    }
    return left.size();
  }

  void run(std::span<const TaskId> tasks) {
    for (const TaskId task : tasks)
      if (awaited_by_[sim::index(task)] > 0) ready_[sim::index(task)] = unused_ready();
    each_block(
        [&](Lane& lane, std::size_t first, std::size_t count) { run_block(lane, tasks, first, count); });
    waits_.clear();
    for (const TaskId task : tasks)
      if (is_shared(sim::index(task))) together(sim::index(task));
    add_waits();
    for (const TaskId task : tasks) {
      const std::optional<std::size_t> awaited = last_own_[sim::index(task)];
      if (is_shared(sim::index(task)) && awaited && --awaited_by_[*awaited] == 0)
        unused_.push_back(std::exchange(ready_[*awaited], {}));
    }
  }

  /// Divides the blocks among the threads.
  template <typename Each>
  void each_block(const Each& each) {
    const std::size_t blocks = (times_.size() + kBlock - 1) / kBlock;
    const auto run = [&](std::size_t lane) {
      for (std::size_t block = blocks * lane / lanes_.size(); block < blocks * (lane + 1) / lanes_.size();
           ++block)
        each(lanes_[lane], block * kBlock, std::min(kBlock, times_.size() - block * kBlock));
    };
    std::vector<std::jthread> others;
    for (std::size_t lane = 1; lane < lanes_.size(); ++lane) others.emplace_back(run, lane);
    run(0);
  }

  Ready unused_ready() {
    if (unused_.empty())
      return {.times = std::vector<Time>(times_.size()),
              .last = std::vector<Time>((times_.size() + kBlock - 1) / kBlock)};
    Ready out = std::move(unused_.back());
    unused_.pop_back();
    return out;
  }

  void run_block(Lane& lane, std::span<const TaskId> tasks, std::size_t first, std::size_t count) {
    const std::span<Time> times = std::span(times_).subspan(first, count);
    lane.factors.select(first, count);
    for (const TaskId each : tasks) {
      const std::size_t task = sim::index(each);
      if (is_shared(task)) continue;
      if (waits_for_shared_[task]) resume(first, since_[task], times);
      each_shown(first, count,
                 [&](ShownWorker& shown, std::size_t n) { shown.timeline.spans[task].start = times[n]; });
      compute(lane, tasks_[task], times);
      each_shown(first, count, [&](ShownWorker& shown, std::size_t n) {
        shown.timeline.spans[task].end = times[n];
        shown.timeline.makespan = std::max(shown.timeline.makespan, times[n]);
      });
      for (const std::size_t mark : marks_of_[task])
        sim::raise(std::span(out_.marks[mark]).subspan(first, count), times);
      if (awaited_by_[task] == 0) continue;
      Ready& ready = ready_[task];
      std::ranges::copy(times, ready.times.begin() + static_cast<std::ptrdiff_t>(first));
      ready.last[first / kBlock] = sim::max_of(times);
    }
    lane.uncounted.fill({});
    for (std::size_t kind = 0; kind < lane.sums.size(); ++kind) {
      if (!lane.is_summed[kind]) continue;
      Time Busy::*const part = Busy::part(static_cast<Kind>(kind));
      for (std::size_t n = 0; part != nullptr && n < count; ++n)
        out_.busy[first + n].*part += lane.sums[kind][n];
      lane.sums[kind].fill({});
      lane.is_summed[kind] = false;
    }
  }

  /// Visits the shown workers of a block with their places in it.
  template <typename Visit>
  void each_shown(std::size_t first, std::size_t count, const Visit& visit) {
    for (ShownWorker& shown : out_.shown) {
      const std::size_t place = static_cast<std::size_t>(shown.worker) - first;  // large if it is before
      if (place < count) visit(shown, place);
    }
  }

  void resume(std::size_t first, Time since, std::span<Time> times) {
    for (std::size_t n = 0; n < times.size(); ++n) {
      if (times[n] >= since) continue;
      if (with_path_) path_.computes(first + n, since, since);  // the tasks that follow make no break
      times[n] = since;
    }
  }

  void compute(Lane& lane, const sim::Task& task, std::span<Time> times) {
    const TaskLabel label = TaskLabel::unpack(task.label);
    const auto kind = static_cast<std::size_t>(label.kind);
    const bool is_counted = label.iteration >= first_counted_[kind];
    const std::span<Time> sums(is_counted ? lane.sums[kind].data() : lane.uncounted.data(), times.size());
    lane.is_summed[kind] = lane.is_summed[kind] || is_counted;
    const sim::TotalTime added = add(task.duration, lane.factors.of(label), times, sums);
    if (Busy::part(label.kind) != nullptr) lane.computing += added;
  }

  /// Adds a duration to both; returns the sum over the workers.
  sim::TotalTime add(Time duration, std::span<const double> factors, std::span<Time> times,
                     std::span<Time> sums) const {
    sim::TotalTime out;
    const double us = sim::to_us(duration);
    if (!factors.empty() && us * max_factor_ <= sim::kMaxAtOnceUs) {
      out += sim::add_scaled(us, factors, times, sums);
      return out;
    }
    for (std::size_t n = 0; n < times.size(); ++n) {
      const Time added = factors.empty() ? duration : sim::from_us(us * factors[n]);
      times[n] += added;
      sums[n] += added;
      out += added;
    }
    return out;
  }

  /// Runs a shared task, which begins when the last worker is ready.
  void together(std::size_t task) {
    const sim::Task& what = tasks_[task];
    Time& free = stream_free_[sim::index(what.stream)];
    const Time since = std::max(free, since_[task]);
    Time begin = since;
    std::size_t worker = 0;
    const Ready* ready = last_own_[task] ? &ready_[*last_own_[task]] : nullptr;
    if (ready != nullptr) {
      const auto block = std::ranges::max_element(ready->last);
      if (*block > since) {
        begin = *block;
        const auto from = ready->times.begin() + (block - ready->last.begin()) * std::ptrdiff_t{kBlock};
        worker = static_cast<std::size_t>(std::find(from, ready->times.end(), begin) - ready->times.begin());
      }
    }
    const Time end = sim::after(begin, what.duration);
    if (with_path_)
      path_.meets({.begins = {begin},
                   .since = {path_.since(worker, begin)},
                   .ends = {end},
                   .origins = {static_cast<std::uint32_t>(worker)}});
    const TaskLabel label = TaskLabel::unpack(what.label);
    const bool is_tick = what.stream == Lowered::kTicks;
    if (!is_tick) channels_.meets(label, {&begin, 1}, {&end, 1});
    if (!is_tick && label.iteration >= first_counted(executable_.lowered) && begin > since)
      waits_.push_back({.ready = ready->times, .since = since, .begin = begin, .worker = worker});
    for (const std::size_t mark : marks_of_[task]) common_marks_[mark] = std::max(common_marks_[mark], end);
    out_.use.length = std::max(out_.use.length, end);
    for (ShownWorker& shown : out_.shown) {
      Time start = begin;
      if (is_tick)
        start =
            ready == nullptr ? since : std::max(since, ready->times[static_cast<std::size_t>(shown.worker)]);
      shown.timeline.spans[task] = {.start = start, .end = end};
      shown.timeline.makespan = std::max(shown.timeline.makespan, end);
    }
    for (const TaskId next : executable_.lowered.graph.successors(id(task)))
      since_[sim::index(next)] = std::max(since_[sim::index(next)], end);
    free = end;
  }

  void add_waits() {
    if (waits_.empty()) return;
    for (Lane& lane : lanes_) lane.others.assign(waits_.size(), {});
    each_block([&](Lane& lane, std::size_t first, std::size_t count) { add_waits(lane, first, count); });
    for (const Lane& lane : lanes_)
      for (std::size_t i = 0; i < waits_.size(); ++i) out_.kept_waiting[waits_[i].worker] += lane.others[i];
  }

  void add_waits(Lane& lane, std::size_t first, std::size_t count) {
    std::array<Time, kBlock> sums{};
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const Wait& wait = waits_[i];
      const std::span<const Time> ready = wait.ready.subspan(first, count);
      if (sim::to_us(wait.begin - wait.since) <= sim::kMaxAtOnceUs) {
        lane.others[i] += sim::add_waits(wait.begin, wait.since, ready, {sums.data(), count});
        continue;
      }
      for (std::size_t n = 0; n < count; ++n) {
        const Time time = wait.begin - std::max(wait.since, ready[n]);
        out_.waited[first + n] += time;
        lane.others[i] += time;
      }
    }
    for (std::size_t n = 0; n < count; ++n) out_.waited[first + n] += sums[n];
  }

  /// A collective that workers waited for.
  struct Wait {
    std::span<const Time> ready;  ///< by worker
    Time since;                   ///< no worker is ready earlier
    Time begin;
    std::size_t worker;  ///< the one that the others waited for
  };

  const Setting& setting_;
  const Executable& executable_;
  std::span<const sim::Task> tasks_;
  double max_factor_;
  AllWorkers out_;
  WorkerAccounts channels_;                         // only of the times in which channels are busy
  std::vector<Time> common_marks_;                  // by mark: the least time at which any worker reaches it
  std::vector<std::vector<std::size_t>> marks_of_;  // by task
  std::array<std::size_t, TaskLabel::kKinds> first_counted_{};  // first counted iteration, by kind
  std::vector<TaskId> order_;                                   // the tasks, as they are run
  bool with_path_;
  PathTracker path_;
  std::vector<Time> times_;                           // by worker: the end of its last task
  std::vector<Time> stream_free_;                     // by stream; for those of shared tasks
  std::vector<Time> since_;                           // by task: the latest end of shared tasks before it
  std::vector<bool> waits_for_shared_;                // by task
  std::vector<std::optional<std::size_t>> last_own_;  // by task: the last one before it that is not shared
  std::vector<std::size_t> awaited_by_;               // by task that is not shared: the number of shared ones
                                                      // of which it is last_own_
  std::vector<Ready> ready_;                          // by task that is awaited
  std::vector<Ready> unused_;
  std::vector<Wait> waits_;
  std::vector<Lane> lanes_;  // by thread
};

}  // namespace

bool runs_in_blocks(const Setting& setting, const Executable& executable) {
  if (goes_by_messages(setting) || !Outages(setting).none()) return false;
  const double factor = std::max(1.0, max_factor(setting));
  double us = 0;
  for (const sim::Task& task : executable.lowered.graph.tasks()) {
    if (task.stream != Lowered::kCompute && !executable.lowered.is_shared(task.stream)) return false;
    us += sim::to_us(task.duration) * factor;
  }
  return us < sim::kMaxUs / 2;
}

AllWorkers simulate_in_blocks(const Setting& setting, const Executable& executable,
                              const std::vector<std::int64_t>& shown, bool with_path) {
  assert(runs_in_blocks(setting, executable));
  return ByBlocks(setting, executable, shown, with_path).all();
}

}  // namespace planner
