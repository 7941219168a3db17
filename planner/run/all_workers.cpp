#include "planner/run/all_workers.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"
#include "planner/graph/task_order.hpp"
#include "planner/run/follow_path.hpp"
#include "planner/run/messages_of.hpp"
#include "planner/run/worker_accounts.hpp"
#include "planner/run/worker_simulations.hpp"
#include "sim/cluster/replay.hpp"
#include "sim/cluster/steps.hpp"
#include "sim/draws.hpp"
#include "sim/worker_times.hpp"

namespace planner {
namespace {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

/// Null if the collective is made of anything else.
const cluster::Rings* rings_of(const cluster::Collective& how) {
  const auto* pattern = std::get_if<std::unique_ptr<const cluster::BytePattern>>(&how);
  return pattern == nullptr ? nullptr : dynamic_cast<const cluster::Rings*>(pattern->get());
}

/// Limit of messages that are simulated one by one, as events or with random factors: minutes.
constexpr double kMaxMessages = 1e9;

/// The messages of all iterations.
struct MessageCount {
  double in_rings = 0;
  double others = 0;
};

MessageCount count_messages(const Setting& setting, const Executable& executable) {
  MessageCount out;
  for (const sim::Task& task : executable.lowered.graph.tasks()) {
    const TaskLabel label = TaskLabel::unpack(task.label);
    if (label.iteration > 0 || !executable.lowered.is_channel(task.stream)) continue;
    const cluster::Collective how = collective_of(setting, executable, label);
    (rings_of(how) ? out.in_rings : out.others) +=
        static_cast<double>(setting.conditions.iterations) * static_cast<double>(cluster::message_count(how));
  }
  return out;
}

/// Whether a simulation of messages can take each ring at once: each link carries the messages of one ring
/// alone, so no collective affects another, and messages take time, which orders the events of a rank.
bool is_ring_alone(const Setting& setting) {
  if (setting.conditions.topology || !Outages(setting).none()) return false;
  const cluster::Links links = links_of(setting);
  double least_us = sim::portable_exp(-sim::kFurthestNormal * links.sigma - links.sigma * links.sigma / 2);
  if (!links.slowdown.empty()) least_us *= *std::ranges::min_element(links.slowdown);
  for (const cluster::Level& level : links.levels)
    if (level.link.startup_us * least_us < 1e-5) return false;
  return true;
}

/// Whether messages are events. Throws Unsupported if too many are simulated one by one.
bool goes_by_messages(const Setting& setting, const Executable& executable) {
  if (setting.conditions.fidelity != Fidelity::messages || setting.costs.workers() == 1) return false;
  const MessageCount count = count_messages(setting, executable);
  const bool are_events = count.others > 0 || !is_ring_alone(setting);
  const double one_by_one =
      count.others + (are_events || setting.conditions.links.sigma > 0 ? count.in_rings : 0);
  if (one_by_one > kMaxMessages)
    throw core::Unsupported(
        fmt::format("at most {:.0e} messages, by fewer workers, groups or iterations", kMaxMessages),
        fmt::format("{:.1e} on {} workers", one_by_one, setting.costs.workers()), "/fidelity");
  return are_events;
}

/// Runs task by task, each on all workers at once; collectives by formula or in steps.
class ByVectors {
 public:
  ByVectors(const Setting& setting, const Executable& executable, const std::vector<std::int64_t>& shown,
            bool with_path)
      : setting_(setting),
        executable_(executable),
        factors_(setting),
        outages_(setting),
        accounts_(setting, executable, shown),
        begins_(accounts_.workers()),
        with_path_(with_path),
        path_(accounts_.workers()),
        steps_(setting.conditions.fidelity != Fidelity::closed && setting.costs.workers() > 1) {
    if (steps_) links_ = links_of(setting);
  }

  AllWorkers all() && {
    cluster::replay(executable_.lowered.graph, order_with_few_times(executable_.lowered),
                    static_cast<std::uint32_t>(begins_.size()),
                    [&](TaskId task, std::span<Time> times) { one(task, times); });
    AllWorkers out = std::move(accounts_).take();
    if (with_path_) out.critical_path = follow_path(setting_, executable_, path_, out.marks);
    out.message_work = message_work_;
    return out;
  }

 private:
  void one(TaskId task, std::span<Time> times) {
    const sim::Task& what = executable_.lowered.graph.tasks()[sim::index(task)];
    const TaskLabel label = TaskLabel::unpack(what.label);
    if (executable_.lowered.is_channel(what.stream))
      collective(label, what.duration, times);
    else if (what.stream == Lowered::kTicks)
      together(what.duration, times);
    else
      by_itself(label, what, times);
    accounts_.ran(task, begins_, times);
  }

  void by_itself(const TaskLabel& label, const sim::Task& what, std::span<Time> times) {
    std::ranges::copy(times, begins_.begin());
    const std::span<const double> factors =
        what.stream == Lowered::kCompute ? factors_.of(label) : std::span<const double>();
    if (factors.empty() && outages_.none()) return alike(label, what.duration, times);
    const double us = sim::to_us(what.duration);
    for (std::size_t n = 0; n < times.size(); ++n) {
      const Time duration = factors.empty() ? what.duration : sim::from_us(us * factors[n]);
      accounts_.computes(n, label, duration);
      times[n] =
          outages_.none() ? sim::after(times[n], duration) : outages_.end(n, times[n], duration, label);
      if (with_path_) path_.computes(n, begins_[n], times[n]);
    }
  }

  /// Takes every worker as long.
  void alike(const TaskLabel& label, Time duration, std::span<Time> times) {
    (void)sim::after(sim::max_of(times), duration);  // throws TooLong
    for (Time& time : times) time += duration;
    accounts_.all_compute(label, duration);
    if (!with_path_) return;
    for (std::size_t n = 0; n < times.size(); ++n) path_.computes(n, begins_[n], times[n]);
  }

  /// Starts when the last worker has arrived.
  void together(Time duration, std::span<Time> times) {
    std::ranges::copy(times, begins_.begin());
    const Time end = sim::after(sim::max_of(times), duration);
    if (with_path_) path_.meets(times, end);
    std::ranges::fill(times, end);
  }

  void collective(const TaskLabel& label, Time duration, std::span<Time> times) {
    if (!outages_.none())  // a worker that is down joins when it is back
      for (std::size_t n = 0; n < times.size(); ++n) times[n] = outages_.joins(n, times[n], label);
    if (steps_)
      in_steps(label, times);
    else
      together(duration, times);
    accounts_.meets(label, begins_, times);
    if (!steps_) std::ranges::fill(begins_, times.front() - duration);
  }

  void in_steps(const TaskLabel& label, std::span<Time> times) {
    std::ranges::copy(times, begins_.begin());
    const cluster::Collective how = collective_of(setting_, executable_, label);
    message_work_ += setting_.conditions.fidelity == Fidelity::messages
                         ? kMessageWork * static_cast<double>(cluster::message_count(how))
                         : cluster::steps_work(how, links_);
    if (with_path_)
      in_steps_with_path(how, label, times);
    else
      cluster::run_steps(how, links_, collectives_++, times);
  }

  void in_steps_with_path(const cluster::Collective& how, const TaskLabel& label, std::span<Time> times) {
    PathTracker::Meeting meeting = {
        .begins = begins_, .ends = {}, .label = label.packed(), .collective = collectives_++};
    meeting.since.reserve(times.size());
    for (std::size_t n = 0; n < times.size(); ++n) meeting.since.push_back(path_.since(n, begins_[n]));
    meeting.origins.resize(times.size());
    if (setting_.conditions.fidelity == Fidelity::messages)
      cluster::run_rings_in_event_order(*rings_of(how), links_, meeting.collective, times, meeting.origins);
    else
      cluster::run_steps(how, links_, meeting.collective, times, meeting.origins);
    meeting.ends.assign(times.begin(), times.end());
    path_.meets(std::move(meeting));
  }

  const Setting& setting_;
  const Executable& executable_;
  TaskFactors factors_;
  Outages outages_;
  WorkerAccounts accounts_;
  std::vector<Time> begins_;  // of the current task
  bool with_path_;
  PathTracker path_;
  bool steps_;
  cluster::Links links_;
  std::uint64_t collectives_ = 0;
  double message_work_ = 0;
};

}  // namespace

AllWorkers simulate_task_by_task(const Setting& setting, const Executable& executable,
                                 const std::vector<std::int64_t>& shown, bool with_path) {
  return ByVectors(setting, executable, shown, with_path).all();
}

AllWorkers simulate_all_workers(const Setting& setting, const Executable& executable,
                                const std::vector<std::int64_t>& shown, bool with_path) {
  return within_clock([&] {
    if (runs_in_blocks(setting, executable)) return simulate_in_blocks(setting, executable, shown, with_path);
    if (goes_by_messages(setting, executable))
      return simulate_by_messages(setting, executable, shown, with_path);
    return simulate_task_by_task(setting, executable, shown, with_path);
  });
}

}  // namespace planner
