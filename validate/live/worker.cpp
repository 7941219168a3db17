#include "validate/live/worker.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "collectives/transport/collectives.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "core/errors.hpp"
#include "validate/live/channel.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/worker_data.hpp"

namespace live {
namespace {

using planner::Lowered;
using planner::TaskLabel;
using sim::Time;
using Kind = TaskLabel::Kind;

double slowdown_of(const RunSpec& spec, std::uint32_t rank) {
  double slowdown = 1;
  for (const planner::Straggler& straggler : spec.conditions.stragglers)
    if (straggler.worker == rank) slowdown *= straggler.slowdown;
  return slowdown;
}

ChannelOptions channel_options(const Lowered& lowered, std::chrono::milliseconds deadline) {
  ChannelOptions out = {
      .negotiation = std::chrono::duration_cast<std::chrono::nanoseconds>(lowered.negotiation),
      .deadline = deadline};
  for (const sim::Window& window : lowered.graph.windows()) out.credit = window.credit;
  return out;
}

/// The state of a task during the run.
struct Progress {
  std::size_t waits_for = 0;             ///< number of unfinished dependencies; for collectives, those not
                                         ///< posted
  std::vector<std::size_t> collectives;  ///< collectives that a compute task waits for
  Clock::time_point not_before{};        ///< the latest end of its dependencies
  std::optional<std::size_t> number;     ///< number of a posted collective in the channel
  bool has_ended = false;
};

class Worker {
 public:
  Worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
         const Prediction& plan, const WorkerOptions& options)
      : transport_(transport),
        spec_(spec),
        options_(options),
        lowered_(plan.lowered),
        groups_(plan.groups.size()),
        slowdown_(slowdown_of(spec, transport.rank())),
        workload_(planner::make_workload(profile)),
        progress_(lowered_.graph.tasks().size()),
        sizes_(progress_.size()),
        data_(spec, plan, profile, transport, options.engine),
        channel_(transport, channel_options(plan.lowered, options.deadline),
                 [this, has_entered = options.engine == nullptr](const Request& request) mutable {
                   if (!std::exchange(has_entered, true)) options_.engine->enter_thread();
                   data_.carry(transport_, request.label.kind, request.group);
                 }) {
    for (const auto& [task, size] : lowered_.graph.sizes()) sizes_[sim::index(task)] = size;
    for (std::size_t i = 0; i < progress_.size(); ++i)
      for (const sim::TaskId next : successors(i)) {
        ++progress_[sim::index(next)].waits_for;
        if (is_collective(i) && is_compute(sim::index(next)))
          progress_[sim::index(next)].collectives.push_back(i);
      }
  }

  WorkerRecord run() {
    try {
      record_.rank = transport_.rank();
      const transport::Process process = transport::this_process();
      record_.host = process.host;
      record_.pid = process.pid;
      phase_ = "before the warm-up";
      shares_clock_ = share_clock(transport_);
      due_ = Clock::now();
      run_to_mark(0);
      for (std::uint32_t i = 0; i < spec_.warm_up + spec_.iterations; ++i) {
        begin(i);
        run_to_mark(i + 1);
        end(i);
      }
      return std::move(record_);
    } catch (const core::InputError&) {
      throw;
    } catch (const std::exception& error) {
      const std::string doing = channel_.doing();
      throw core::EnvironmentError(
          fmt::format("{}{}{}: {}", phase_, doing.empty() ? "" : ", ", doing, error.what()));
    }
  }

 private:
  // ---- between iterations

  std::string phase(std::uint32_t iteration) const {
    return iteration < spec_.warm_up ? fmt::format("warm-up {}", iteration + 1)
                                     : fmt::format("iteration {}", iteration - spec_.warm_up + 1);
  }

  /// Generates new gradients. Then all workers begin at once, at a time that rank 0 announces if they share
  /// its clock.
  void begin(std::uint32_t iteration) {
    phase_ = phase(iteration);
    if (options_.on_phase) options_.on_phase(phase_);
    data_.draw(iteration);
    if (options_.layers.wake_device) options_.layers.wake_device();
    transport::barrier(transport_, tag_of(Tag::barrier));
    if (transport_.rank() == 0 && iteration >= spec_.warm_up) record_.loop_us.push_back(loop_at_rest_us());
    began_ = common_start(transport_, shares_clock_);
    channel_.sleep_until(began_, true);
    due_ = began_;
    pieces_.clear();
  }

  /// Records the iteration and checks its result.
  void end(std::uint32_t iteration) {
    const double length_us = since_began(Clock::now());
    for (std::size_t task = begin_; task < end_; ++task)
      if (is_collective(task)) await(task);
    for (const Request& request : channel_.take())
      pieces_.push_back({.kind = request.label.kind,
                         .item = request.label.item,
                         .ready_us = since_began(request.ready),
                         .start_us = since_began(request.start),
                         .end_us = since_began(request.end)});
    std::ranges::stable_sort(pieces_, {}, &Piece::end_us);
    if (iteration >= spec_.warm_up) record_.iterations.push_back({length_us, pieces_});
    // checks would take processors from workers that still run
    transport::barrier(transport_, tag_of(Tag::barrier));
    data_.store();
    const std::optional<WrongValue>& wrong = spec_.wrong;
    if (wrong && wrong->rank == transport_.rank() && wrong->iteration == iteration) data_.spoil(wrong->group);
    const std::string fault = data_.fault(iteration);
    if (!fault.empty()) throw core::EnvironmentError(fault);
  }

  double since_began(Clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - began_).count();
  }

  // ---- the task graph

  const sim::Task& task_of(std::size_t task) const { return lowered_.graph.tasks()[task]; }
  TaskLabel label_of(std::size_t task) const { return TaskLabel::unpack(task_of(task).label); }
  std::span<const sim::TaskId> successors(std::size_t task) const {
    return lowered_.graph.successors(sim::TaskId{static_cast<std::uint32_t>(task)});
  }
  bool is_collective(std::size_t task) const { return lowered_.is_channel(task_of(task).stream); }
  bool is_tick(std::size_t task) const { return task_of(task).stream == Lowered::kTicks; }
  bool is_compute(std::size_t task) const { return !is_collective(task) && !is_tick(task); }

  /// Runs the tasks after the previous mark, up to this one.
  void run_to_mark(std::size_t mark) {
    begin_ = end_;
    end_ = sim::index(lowered_.after_marks[mark]);
    for (std::size_t task = begin_; task < end_; ++task)
      if (is_collective(task) && progress_[task].waits_for == 0) released_.push_back(task);
    for (std::size_t task = begin_; task < end_; ++task)
      if (is_tick(task) && progress_[task].waits_for == 0) tick(task);
    for (std::size_t task = begin_; task < end_; ++task)
      if (is_compute(task)) compute(task);
    post();
    for (const sim::TaskId task : lowered_.marks[mark])
      if (is_collective(sim::index(task))) await(sim::index(task));
  }

  void compute(std::size_t task) {
    const bool is_at_same_moment = takes_no_time(task) && progress_[task].collectives.empty();
    if (!is_at_same_moment) post();
    for (const std::size_t collective : progress_[task].collectives) await(collective);
    run(task);
    note_end(task, due_);
  }

  /// Compute continues as if at the exact end of the collective.
  void await(std::size_t collective) {
    Progress& progress = progress_[collective];
    if (std::exchange(progress.has_ended, true)) return;
    const Clock::time_point ended = channel_.wait(progress.number.value());
    due_ = std::max(due_, ended);
    note_end(collective, ended);
  }

  /// A collective waits only for earlier ones to be posted, as the channel keeps their order.
  void note_end(std::size_t task, Clock::time_point at) {
    for (const sim::TaskId id : successors(task)) {
      const std::size_t next = sim::index(id);
      if (is_collective(task) && is_collective(next)) continue;
      progress_[next].not_before = std::max(progress_[next].not_before, at);
      count_down(next);
    }
  }

  /// A task of the next interval is left to run_to_mark().
  void count_down(std::size_t task) {
    if (--progress_[task].waits_for > 0 || task >= end_) return;
    if (is_tick(task))
      tick(task);
    else if (is_collective(task))
      released_.push_back(task);
  }

  /// What a tick waited for may have ended in the previous interval: it counts from the common start of this
  /// one.
  void tick(std::size_t task) {
    note_end(task, std::max(progress_[task].not_before, began_) +
                       std::chrono::duration_cast<Clock::duration>(task_of(task).duration));
  }

  /// Posts the collectives that may start now.
  void post() {
    if (released_.empty()) return;
    std::ranges::sort(released_);
    std::vector<Request> requests;
    for (std::size_t i = 0; i < released_.size(); ++i) {  // posting a collective may release others
      requests.push_back(request_of(released_[i]));
      for (const sim::TaskId next : successors(released_[i]))
        if (is_collective(sim::index(next))) count_down(sim::index(next));
    }
    std::size_t number = channel_.post(requests);
    for (const std::size_t task : std::exchange(released_, {})) progress_[task].number = number++;
  }

  Request request_of(std::size_t task) const {
    const TaskLabel label = label_of(task);
    return {.label = label,
            .group = static_cast<std::uint32_t>(label.item % groups_),
            .priority = task_of(task).priority,
            .size = sizes_[task],
            .not_before = progress_[task].not_before};
  }

  // ---- compute

  static bool is_layers(Kind kind) {
    return kind == Kind::forward || kind == Kind::backward || kind == Kind::micro_batch_forward ||
           kind == Kind::micro_batch_backward;
  }
  bool is_done_for_real(Kind kind) const {
    return kind == Kind::encode || kind == Kind::decode || (is_layers(kind) && options_.layers.forward);
  }
  bool takes_no_time(std::size_t task) const {
    return task_of(task).duration == Time::zero() && !is_done_for_real(label_of(task).kind);
  }

  void run(std::size_t task) {
    const TaskLabel label = label_of(task);
    if (takes_no_time(task)) return;
    const Clock::time_point start = Clock::now();
    if (!is_done_for_real(label.kind))
      wait_for(task);
    else if (is_layers(label.kind))
      run_layers(label);
    else
      run_codec(label);
    pieces_.push_back({.kind = label.kind,
                       .item = label.item,
                       .ready_us = since_began(start),
                       .start_us = since_began(start),
                       .end_us = since_began(Clock::now())});
  }

  /// Waits until the task would have ended on a device. Time lost to host scheduling is deducted from the
  /// next wait.
  void wait_for(std::size_t task) {
    const bool is_slowed = task_of(task).stream == Lowered::kCompute;
    const auto duration =
        std::chrono::duration<double, std::pico>(task_of(task).duration) * (is_slowed ? slowdown_ : 1);
    due_ += std::chrono::duration_cast<Clock::duration>(duration);
    channel_.sleep_until(due_, is_watched(task));
  }

  /// Whether tasks other than the next compute task wait for the end of this one.
  bool is_watched(std::size_t task) const {
    const auto next = successors(task);
    return task + 1 == end_ ||
           std::ranges::any_of(next, [&](sim::TaskId id) { return !is_compute(sim::index(id)); });
  }

  void run_layers(const TaskLabel& label) {
    const Clock::time_point begun = Clock::now();
    const auto layers = static_cast<std::uint32_t>(workload_.forward.size());
    if (label.kind == Kind::forward) options_.layers.forward(label.item % layers);
    if (label.kind == Kind::backward)
      options_.layers.backward(workload_.backward[label.item % workload_.backward.size()].layer);
    if (label.kind == Kind::micro_batch_forward)
      for (std::uint32_t layer = 0; layer < layers; ++layer) options_.layers.forward(layer);
    if (label.kind == Kind::micro_batch_backward)
      for (std::uint32_t layer = layers; layer-- > 0;) options_.layers.backward(layer);
    const auto more = std::chrono::duration<double>(Clock::now() - begun) * (slowdown_ - 1);
    if (more.count() > 0)
      channel_.sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(more), false);
    due_ = Clock::now();
  }

  void run_codec(const TaskLabel& label) {
    const Clock::time_point start = Clock::now();
    if (label.kind == Kind::encode)
      data_.fusion_buffer(label.item).encode();
    else
      data_.fusion_buffer(label.item).decode();
    due_ += Clock::now() - start;
  }

  transport::Transport& transport_;
  const RunSpec& spec_;
  const WorkerOptions& options_;
  const Lowered& lowered_;
  std::size_t groups_;
  double slowdown_;
  planner::Workload workload_;
  std::vector<Progress> progress_;   // by task
  std::vector<std::int64_t> sizes_;  // by task
  WorkerData data_;
  Channel channel_;

  bool shares_clock_ = true;  // whether all workers share a clock
  std::string phase_;
  std::size_t begin_ = 0;  // tasks begin_ to end_ - 1 lie before the next mark
  std::size_t end_ = 0;
  std::vector<std::size_t> released_;  // ready collectives that are not posted yet
  Clock::time_point began_{};          // when the iteration began
  Clock::time_point due_{};            // scheduled end of the compute so far
  std::vector<Piece> pieces_;
  WorkerRecord record_;
};

}  // namespace

WorkerRecord run_worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
                        const Prediction& plan, const WorkerOptions& options) {
  return Worker(transport, spec, profile, plan, options).run();
}

}  // namespace live
