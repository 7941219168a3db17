#include "validate/live/worker.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "collectives/transport/tcp/handshake.hpp"
#include "core/errors.hpp"
#include "profiler/measure/collective.hpp"
#include "validate/live/channel.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/gradients.hpp"

namespace live {
namespace {

using planner::Delivers;
using planner::Group;
using planner::Issue;
using planner::Op;
using Kind = planner::TaskLabel::Kind;
using core::CollectiveKind;
using sim::Time;

double slowdown_of(const RunSpec& spec, std::uint32_t rank) {
  double slowdown = 1;
  for (const planner::Straggler& straggler : spec.conditions.stragglers)
    if (straggler.worker == rank) slowdown *= straggler.slowdown;
  return slowdown;
}

/// As lower() labels it: what carries encodings that have to be gathered is no all-reduce.
Kind label_kind(const Op& op, const Method& method) {
  if (op.issue == Issue::backward) return Kind::backward_gather;
  if (op.kind == CollectiveKind::reduce_scatter) return Kind::reduce_scatter;
  const bool is_gathered = op.kind == CollectiveKind::all_gather || method.gathers();
  return is_gathered ? Kind::all_gather : Kind::all_reduce;
}

/// What belongs to which layer and step, as lower() has it.
struct Places {
  Places(const planner::Workload& workload, const planner::Groups& groups, const planner::Program& program);

  std::vector<std::vector<std::uint32_t>> by_first_layer;  ///< groups
  std::vector<std::vector<std::uint32_t>> by_first_step;   ///< groups
  std::vector<std::vector<std::size_t>> by_last_step;      ///< ops; the last element after all of backward
};

Places::Places(const planner::Workload& workload, const planner::Groups& groups,
               const planner::Program& program)
    : by_first_layer(workload.forward.size()),
      by_first_step(workload.backward.size()),
      by_last_step(workload.backward.size() + 1) {
  for (auto group = static_cast<std::uint32_t>(groups.size()); group-- > 0;)  // in forward order
    by_first_layer[workload.gradients[groups[group].end - 1].layer].push_back(group);
  std::vector<std::size_t> first_step(workload.forward.size());
  for (std::size_t step = workload.backward.size(); step-- > 0;)
    first_step[workload.backward[step].layer] = step;
  for (std::uint32_t group = 0; group < groups.size(); ++group)
    by_first_step[first_step[workload.gradients[groups[group].begin].layer]].push_back(group);
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.issue == Issue::gradients)
      by_last_step[workload.gradients[groups[op.group].end - 1].backward_step].push_back(i);
    else if (op.issue == Issue::backward_end)
      by_last_step.back().push_back(i);
  }
}

/// What a worker holds: gradients of all tensors in backward order, in the words that travel, and where
/// parameters are gathered those, too.
class Data {
 public:
  Data(const RunSpec& spec, const Prediction& plan, const planner::Workload& workload,
       transport::Transport& transport, bool shards, const measure::Engine* engine)
      : rank_(transport.rank()),
        is_elsewhere_(engine != nullptr),
        gradients_(spec.seed, transport.size()),
        values_(static_cast<std::size_t>(workload.bytes()) / sizeof(float)) {
    const auto buffer = [&] { return engine == nullptr ? nullptr : engine->another(); };
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const Group& group = plan.groups[g];
      const std::int64_t from = workload.bytes_before[group.begin] + (group.part ? group.part->from : 0);
      first_.push_back(static_cast<std::size_t>(from) / sizeof(float));
      const auto count = static_cast<std::size_t>(plan.bytes[g]) / sizeof(float);
      const Method method = method_of(plan.transfers[group.transfer], plan.is_encoded[g],
                                      spec.workers_per_node, spec.error_feedback);
      const std::span<float> values = std::span(values_).subspan(first_[g], count);
      fusion_buffers_.push_back(
          std::make_unique<FusionBuffer>(method, values, transport.size(), spec.seed + g, buffer()));
      expected_.emplace_back(method, gradients_, first_[g], count, spec.seed + g);
      if (!shards) continue;
      for (std::vector<float>& parameters : parameters_) parameters.resize(values_.size());
      for (std::size_t pass = 0; pass < 2; ++pass) {
        const std::span<float> of_pass = std::span(parameters_[pass]).subspan(first_[g], count);
        gatherers_[pass].push_back(std::make_unique<Gatherer>(of_pass, transport.size(), buffer()));
      }
    }
  }

  FusionBuffer& fusion_buffer(std::size_t group) { return *fusion_buffers_[group]; }

  void carry(transport::Transport& transport, const Request& request) {
    if (gatherers_[0].empty()) return fusion_buffers_[request.group]->carry(transport, request.kind);
    if (request.kind == CollectiveKind::all_gather)
      gatherers_[request.label == Kind::all_gather ? 0 : 1][request.group]->run(transport);
    else
      fusion_buffers_[request.group]->carry(transport, request.kind);
  }

  void draw(std::uint32_t iteration) {
    for (std::size_t g = 0; g < fusion_buffers_.size(); ++g) {
      FusionBuffer& fusion_buffer = *fusion_buffers_[g];
      gradients_.fill(fusion_buffer.method().spread(), rank_, iteration, first_[g], fusion_buffer.gradient());
      if (is_elsewhere_) fusion_buffer.load();
      for (auto& pass : gatherers_)
        if (!pass.empty()) pass[g]->prepare(gradients_, rank_, iteration, first_[g]);
    }
  }

  /// What has come of them, where that is elsewhere.
  void store() {
    for (const auto& fusion_buffer : fusion_buffers_) fusion_buffer->store();
    for (auto& pass : gatherers_)
      for (const auto& gatherer : pass) gatherer->store();
  }

  /// Of the group, as a worker would meet it if its sum were wrong.
  void spoil(std::size_t group) {
    const std::span<float> values =
        gatherers_[0].empty() ? fusion_buffers_[group]->gradient() : fusion_buffers_[group]->own_part(rank_);
    if (!values.empty()) values[values.size() / 2] += 1;
  }

  /// "group 2: value 17 is 3, expected 5"; empty where all is right.
  std::string fault(std::uint32_t iteration, const planner::Program& program) {
    for (std::size_t g = 0; g < fusion_buffers_.size(); ++g) {
      const std::string fault = gatherers_[0].empty()
                                    ? expected_[g].fault(iteration, fusion_buffers_[g]->gradient())
                                    : shard_fault(iteration, g, program);
      if (!fault.empty()) return fmt::format("group {}: {}", g + 1, fault);
    }
    return "";
  }

 private:
  /// All-gathers parameters in place.
  class Gatherer {
   public:
    Gatherer(std::span<float> values, std::uint32_t ranks, std::unique_ptr<measure::Engine> engine)
        : values_(values), ranks_(ranks), dense_(values, {.ranks = ranks}, "", std::move(engine)) {}
    void run(transport::Transport& transport) { dense_.run(transport, CollectiveKind::all_gather); }
    void store() { dense_.store(); }
    /// The rank has its own part, and nothing of the others'.
    void prepare(const Gradients& gradients, std::uint32_t rank, std::uint32_t iteration, std::size_t first) {
      std::ranges::fill(values_, -1.0F);
      const measure::Part own = measure::own_part(values_.size(), ranks_, rank);
      gradients.fill(Spread::wide, 0, iteration, first + own.begin,
                     values_.subspan(own.begin, own.end - own.begin));
      dense_.load();
    }
    std::span<const float> values() const { return values_; }

   private:
    std::span<float> values_;
    std::uint32_t ranks_;
    Dense dense_;
  };

  std::string shard_fault(std::uint32_t iteration, std::size_t g, const planner::Program& program) {
    const std::span<float> whole = fusion_buffers_[g]->gradient();
    const std::span<float> own = fusion_buffers_[g]->own_part(rank_);
    const measure::Part part = measure::own_part(whole.size(), gradients_.ranks(), rank_);
    std::string fault = gradients_.fault_of_sums(Spread::wide, iteration, first_[g] + part.begin, own);
    for (const Op& op : program.ops) {
      if (!fault.empty() || op.group != g || op.kind != CollectiveKind::all_gather) continue;
      const std::size_t pass = op.issue == Issue::forward ? 0 : 1;
      fault = gradients_.fault_of_copies(iteration, first_[g], gatherers_[pass][g]->values());
    }
    return fault;
  }

  std::uint32_t rank_;
  bool is_elsewhere_;
  Gradients gradients_;
  std::vector<float> values_;
  std::vector<std::size_t> first_;  // by group: of its elements
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers_;
  std::vector<Expected> expected_;
  std::array<std::vector<float>, 2> parameters_;  // as forward and as backward gather them
  std::array<std::vector<std::unique_ptr<Gatherer>>, 2> gatherers_;
};

class Worker {
 public:
  Worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
         const Prediction& plan, const WorkerOptions& options)
      : transport_(transport),
        spec_(spec),
        plan_(plan),
        options_(options),
        slowdown_(slowdown_of(spec, transport.rank())),
        workload_(planner::make_workload(profile, options.layers.forward ? 1 : slowdown_)),
        extras_{.read = sim::from_us(spec.conditions.read_us),
                .update = sim::from_us(
                    (spec.conditions.optimizer_us + spec.conditions.lars_us + spec.conditions.lamb_us) *
                    slowdown_)},
        places_(workload_, plan.groups, plan.program),
        carries_(std::ranges::any_of(plan.program.ops,
                                     [](const Op& op) { return op.delivers == Delivers::own_layers; })),
        shards_(
            std::ranges::any_of(plan.program.ops, [](const Op& op) { return op.issue == Issue::forward; })),
        data_(spec, plan, workload_, transport, shards_, options.engine),
        channel_(
            transport, plan.program,
            [this, has_entered = options.engine == nullptr](const Request& request) mutable {
              if (!std::exchange(has_entered, true)) options_.engine->enter_thread();
              data_.carry(transport_, request);
            },
            options.deadline) {}

  WorkerRecord run() {
    try {
      record_.rank = transport_.rank();
      const transport::Process process = transport::this_process();
      record_.host = process.host;
      record_.pid = process.pid;
      phase_ = "before the warm-up";
      shares_clock_ = share_clock(transport_);
      const std::uint32_t all = spec_.warm_up + spec_.iterations;
      due_ = Clock::now();
      if (carries_) forward_of_first_micro_batch();  // those after end iterations
      for (std::uint32_t i = 0; i < all; ++i) {
        begin(i);
        shards_ ? run_sharded() : run_iteration();
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

  /// New gradients; then all workers begin at once, at a time that rank 0 says, where they share its clock.
  void begin(std::uint32_t iteration) {
    phase_ = phase(iteration);
    if (options_.on_phase) options_.on_phase(phase_);
    data_.draw(iteration);
    transport::barrier(transport_, tag_of(Tag::barrier));
    if (transport_.rank() == 0 && iteration >= spec_.warm_up) record_.loop_us.push_back(loop_at_rest_us());
    began_ = common_start(transport_, shares_clock_);
    channel_.sleep_until(began_, true);
    due_ = began_;
    pieces_.clear();
  }

  void end(std::uint32_t iteration) {
    const double length_us = since_began(Clock::now());
    for (const Request& request : channel_.take())
      pieces_.push_back({.kind = request.label,
                         .item = request.item,
                         .ready_us = since_began(request.ready),
                         .start_us = since_began(request.start),
                         .end_us = since_began(request.end)});
    std::ranges::stable_sort(pieces_, {}, &Piece::end_us);
    if (iteration >= spec_.warm_up) record_.iterations.push_back({length_us, pieces_});
    transport::barrier(transport_, tag_of(Tag::barrier));  // checks take processors, of those that still run
    data_.store();
    const std::optional<WrongValue>& wrong = spec_.wrong;
    if (wrong && wrong->rank == transport_.rank() && wrong->iteration == iteration) data_.spoil(wrong->group);
    const std::string fault = data_.fault(iteration, plan_.program);
    if (!fault.empty()) throw core::EnvironmentError(fault);
  }

  double since_began(Clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - began_).count();
  }

  // ---- compute

  /// Waits until the time is over, or does the work. What is late because this process was is caught up with:
  /// a device would not have been.
  template <typename Work>
  void compute(Kind kind, std::uint32_t item, Time duration, bool is_watched, const Work& work) {
    const Clock::time_point start = Clock::now();
    if (!work(slowdown_)) {
      due_ += std::chrono::duration_cast<Clock::duration>(duration);
      channel_.sleep_until(due_, is_watched);
    } else {
      due_ = Clock::now();
    }
    note(kind, item, start);
  }

  void wait_for(Kind kind, std::uint32_t item, Time duration, bool is_watched = true) {
    if (duration > Time::zero()) compute(kind, item, duration, is_watched, [](double) { return false; });
  }

  void note(Kind kind, std::uint32_t item, Clock::time_point start) {
    const double start_us = since_began(start);
    pieces_.push_back({.kind = kind,
                       .item = item,
                       .ready_us = start_us,
                       .start_us = start_us,
                       .end_us = since_began(Clock::now())});
  }

  void layer(Kind kind, std::uint32_t item, std::uint32_t of, Time duration, bool is_watched) {
    const std::function<void(std::uint32_t)>& work =
        kind == Kind::forward ? options_.layers.forward : options_.layers.backward;
    if (!work) return wait_for(kind, item, duration, is_watched);
    compute(kind, item, duration, is_watched, [&](double slowdown) {
      const Clock::time_point begun = Clock::now();
      work(of);
      const auto took = std::chrono::duration<double>(Clock::now() - begun) * (slowdown - 1);
      if (took.count() > 0)
        channel_.sleep_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(took), false);
      return true;
    });
  }

  /// Encoding and decoding are always done.
  template <typename Work>
  void code(Kind kind, std::uint32_t group, const Work& work) {
    if (data_.fusion_buffer(group).method().is_dense()) return;
    const Clock::time_point start = Clock::now();
    work(data_.fusion_buffer(group));
    due_ += Clock::now() - start;
    note(kind, group, start);
  }

  void encode(std::uint32_t group) {
    code(Kind::encode, group, [](FusionBuffer& fusion_buffer) { fusion_buffer.encode(); });
  }
  void decode(std::uint32_t group) {
    code(Kind::decode, group, [](FusionBuffer& fusion_buffer) { fusion_buffer.decode(); });
  }

  /// As if it had gone on at the very moment.
  void wait(std::size_t number) { due_ = std::max(due_, channel_.wait(number)); }
  void wait_all() {
    if (const auto end = channel_.wait_all()) due_ = std::max(due_, *end);
  }

  // ---- an iteration, as lower() has it

  std::uint32_t micro_batches() const {
    return static_cast<std::uint32_t>(spec_.conditions.accumulation_steps);
  }
  std::int64_t bytes_of(std::uint32_t group) const { return plan_.bytes[group]; }

  Request request_of(const Op& op, std::uint32_t item) {
    const Group& group = plan_.groups[op.group];
    Request request = {.label = label_kind(op, data_.fusion_buffer(op.group).method()),
                       .item = item,
                       .group = op.group,
                       .kind = op.kind,
                       .layer = static_cast<std::int32_t>(workload_.gradients[group.end - 1].layer),
                       .bytes = bytes_of(op.group)};
    const bool ticks = op.issue == Issue::gradients || op.issue == Issue::backward_end;
    if (ticks && group.tick > Time::zero())
      request.not_before = backward_began_ + std::chrono::duration_cast<Clock::duration>(group.tick);
    return request;
  }
  std::size_t post(const Op& op, std::uint32_t item) { return channel_.post(request_of(op, item)); }
  std::size_t post(const Op& op) { return post(op, op.group); }

  void run_iteration() {
    if (!carries_) forward_of_first_micro_batch();
    for (std::uint32_t batch = 1; batch < micro_batches(); ++batch) {
      whole_pass(Kind::backward, Kind::micro_batch_backward, batch - 1);
      whole_pass(Kind::forward, Kind::micro_batch_forward, batch);
    }
    backward();
    communicate();
    if (carries_) forward_of_first_micro_batch();
  }

  void whole_pass(Kind kind, Kind label, std::uint32_t batch) {
    if (!options_.layers.forward)
      return wait_for(label, batch,
                      kind == Kind::forward ? workload_.forward_total : workload_.backward_total);
    const auto count = static_cast<std::uint32_t>(workload_.forward.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t of = kind == Kind::forward ? i : count - 1 - i;
      layer(kind, i, of, Time::zero(), false);
      pieces_.back().kind = label;
      pieces_.back().item = batch;
    }
  }

  void forward_of_first_micro_batch() {
    wait_for(Kind::read, 0, extras_.read);
    for (std::uint32_t i = 0; i < workload_.forward.size(); ++i) {
      if (carries_ && !delivered_.empty())
        for (const std::uint32_t group : places_.by_first_layer[i]) {
          gather_next();
          receive(group);
        }
      const bool is_watched = i + 1 == workload_.forward.size() || !later_gathers_.empty();
      layer(Kind::forward, i, i, workload_.forward[i], is_watched);
    }
    delivered_.clear();
  }

  /// What comes between a group's all-gather and the forward pass of its layers.
  void receive(std::uint32_t group) {
    wait(*delivered_[group]);
    decode(group);
    if (plan_.program.update == planner::Update::by_group)
      wait_for(Kind::group_update, group, planner::group_update(workload_, extras_, plan_.groups[group]),
               false);
  }

  /// Forward has come to a group: of those that were not to be gathered so far ahead the next one may go.
  void gather_next() {
    if (later_gathers_.empty()) return;
    const Op& op = *later_gathers_.front();
    later_gathers_.pop_front();
    delivered_[op.group] = post(op);
  }

  void backward() {
    backward_began_ = due_;
    delivered_.assign(plan_.groups.size(), {});
    posted_.assign(plan_.program.ops.size(), {});
    for (std::uint32_t step = 0; step < workload_.backward.size(); ++step) {
      const bool is_watched = !places_.by_last_step[step].empty() || step + 1 == workload_.backward.size();
      layer(Kind::backward, step, workload_.backward[step].layer, workload_.backward[step].duration,
            is_watched);
      issue(step);
    }
    issue(workload_.backward.size());
  }

  void issue(std::size_t step) {
    const std::vector<std::size_t>& numbers = places_.by_last_step[step];
    together_.insert(together_.end(), numbers.begin(), numbers.end());
    if (!plan_.program.by_layer) return post_in_order();
    // what follows without taking time is ready at the same moment
    const auto& steps = workload_.backward;
    const bool goes_on = step + 1 < steps.size() && steps[step + 1].duration == Time::zero();
    if (!goes_on || options_.layers.backward) post_together();
  }

  void post_in_order() {
    for (const std::size_t number : std::exchange(together_, {})) {
      const Op& op = plan_.program.ops[number];
      encode(op.group);
      has_posted(number, post(op));
    }
  }

  /// Where the channel goes by layer; nothing is encoded there.
  void post_together() {
    const std::vector<std::size_t> numbers = std::exchange(together_, {});
    std::vector<Request> requests;
    for (const std::size_t number : numbers) {
      const Op& op = plan_.program.ops[number];
      requests.push_back(request_of(op, op.group));
    }
    std::size_t place = channel_.post_all(std::move(requests));
    for (const std::size_t number : numbers) has_posted(number, place++);
  }

  void has_posted(std::size_t number, std::size_t place) {
    const Op& op = plan_.program.ops[number];
    posted_[number] = place;
    if (op.delivers == Delivers::own_layers) delivered_[op.group] = place;
  }

  void communicate() {
    bool is_updated = false;
    std::uint32_t ahead = 0;
    for (std::size_t number = 0; number < plan_.program.ops.size(); ++number) {
      const Op& op = plan_.program.ops[number];
      if (op.issue == Issue::updated && !std::exchange(is_updated, true)) update_at_once();
      if (op.issue == Issue::drained && !std::exchange(is_updated, true)) wait_all();
      if (op.issue == Issue::drained && ahead++ >= plan_.program.prefetch.value_or(UINT32_MAX)) {
        later_gathers_.push_back(&op);
        continue;
      }
      if (!posted_[number]) posted_[number] = post(op);
      if (op.delivers == Delivers::own_layers) delivered_[op.group] = posted_[number];
      if (op.delivers != Delivers::next_iteration || data_.fusion_buffer(op.group).method().is_dense())
        continue;
      wait(*posted_[number]);
      decode(op.group);
    }
    if (!is_updated && !plan_.program.by_layer) update_at_once();
    if (!carries_) wait_all();
  }

  void update_at_once() {
    wait_all();
    if (plan_.program.update == planner::Update::at_once) wait_for(Kind::update, 0, extras_.update);
  }

  // ---- parameters that are gathered for each pass

  void run_sharded() {
    wait_for(Kind::read, 0, extras_.read);
    for (std::uint32_t batch = 0; batch < micro_batches(); ++batch) {
      sharded_forward(batch);
      sharded_backward(batch);
    }
    update_at_once();
    wait_all();
  }

  void sharded_forward(std::uint32_t batch) {
    begin_pass(Issue::forward, batch);
    for (std::uint32_t i = 0; i < workload_.forward.size(); ++i) {
      for (const std::uint32_t group : places_.by_first_layer[i]) come_to(group);
      const auto item = static_cast<std::uint32_t>(batch * workload_.forward.size() + i);
      layer(Kind::forward, item, i, workload_.forward[i], true);
    }
  }

  void sharded_backward(std::uint32_t batch) {
    const std::uint32_t before_last = micro_batches() - 1 - batch;
    begin_pass(Issue::backward, before_last);
    for (std::uint32_t step = 0; step < workload_.backward.size(); ++step) {
      for (const std::uint32_t group : places_.by_first_step[step]) come_to(group);
      if (step == 0) backward_began_ = due_;
      const auto item = static_cast<std::uint32_t>(before_last * workload_.backward.size() + step);
      layer(Kind::backward, item, workload_.backward[step].layer, workload_.backward[step].duration, true);
      if (before_last > 0) continue;
      for (const std::size_t number : places_.by_last_step[step]) post(plan_.program.ops[number]);
    }
  }

  /// A pass uses the groups in the order of its ops; what it does not gather is there.
  void begin_pass(Issue issue, std::uint32_t batch) {
    const auto count = static_cast<std::uint32_t>(plan_.groups.size());
    pass_ = {.batch = batch, .gathers = std::vector<const Op*>(count), .order = {}};
    delivered_.assign(count, {});
    for (const Op& op : plan_.program.ops)
      if (op.issue == issue) pass_.gathers[op.group] = &op;
    for (std::uint32_t i = 0; i < count; ++i)
      pass_.order.push_back(issue == Issue::forward ? count - 1 - i : i);
    while (pass_.issued < plan_.program.prefetch.value_or(UINT32_MAX) && pass_.issued < count)
      gather_for_pass();
  }

  void come_to(std::uint32_t group) {
    if (pass_.issued < pass_.order.size()) gather_for_pass();
    if (delivered_[group]) wait(*delivered_[group]);
  }

  void gather_for_pass() {
    const std::uint32_t group = pass_.order[pass_.issued++];
    if (pass_.gathers[group] == nullptr) return;
    const auto count = static_cast<std::uint32_t>(plan_.groups.size());
    delivered_[group] = post(*pass_.gathers[group], pass_.batch * count + group);
  }

  struct Pass {
    std::uint32_t batch = 0;
    std::vector<const Op*> gathers;    ///< by group; null: its parameters are there
    std::vector<std::uint32_t> order;  ///< of use
    std::size_t issued = 0;            ///< of them
  };

  transport::Transport& transport_;
  const RunSpec& spec_;
  const Prediction& plan_;
  const WorkerOptions& options_;
  double slowdown_;
  planner::Workload workload_;
  planner::Extras extras_;
  Places places_;
  bool carries_;  // collectives reach under the next forward pass
  bool shards_;   // collectives come before passes
  Data data_;
  Channel channel_;

  bool shares_clock_ = true;  // all workers do
  std::string phase_;
  Clock::time_point began_{};           // of the iteration
  Clock::time_point backward_began_{};  // its ticks count from there
  Clock::time_point due_{};             // when what has been computed so far should have ended
  std::vector<Piece> pieces_;
  std::vector<std::size_t> together_;                  // ops that are ready and not posted yet
  std::vector<std::optional<std::size_t>> posted_;     // by op
  std::vector<std::optional<std::size_t>> delivered_;  // by group: what its layers' next pass waits for
  std::deque<const Op*> later_gathers_;                // beyond those that may be ahead
  Pass pass_;
  WorkerRecord record_;
};

}  // namespace

WorkerRecord run_worker(transport::Transport& transport, const RunSpec& spec, const core::Profile& profile,
                        const Prediction& plan, const WorkerOptions& options) {
  return Worker(transport, spec, profile, plan, options).run();
}

bool needs_nodes(const planner::Compressor& compressor) {
  return compressor.between_nodes ||
         (compressor.sparse && planner::find_sparse(compressor.name)->needs_nodes);
}

bool needs_nodes(const RunSpec& spec) {
  return needs_nodes(spec.schedule.compressor) ||
         std::ranges::any_of(spec.schedule.fusion.choices, [](const planner::TransferChoice& choice) {
           return choice.compressor && needs_nodes(*choice.compressor);
         });
}

void check_runnable(const RunSpec& spec) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw core::InputError(fmt::format("{}: expected {} to be run live, got {}", spec.name, expected, got));
  };
  const planner::Conditions& conditions = spec.conditions;
  if (conditions.jitter.any() || !conditions.failures.empty())
    refuse("no jitter and no failures", "what is drawn or fails");
  if (conditions.parallel_tensor_operator) refuse("no parallel tensor operator", "one");
  if (conditions.read_is_overlapped && conditions.read_us > 0)
    refuse("input that is not read beside the iteration", "one that is");
  if (spec.profile.dtype != core::Dtype::float32) refuse("float32 gradients", core::name(spec.profile.dtype));
  if (spec.schedule.pipeline->name == "parameter_server")
    refuse("a pipeline without servers", "parameter_server");
  if (needs_nodes(spec) && spec.workers % spec.workers_per_node != 0)
    refuse(fmt::format("full nodes of {} workers", spec.workers_per_node), std::to_string(spec.workers));
  const auto program = spec.schedule.pipeline->program(1, spec.schedule.options);
  const planner::Algorithm& all_reduce = spec.schedule.all_reduce.value_or(spec.all_reduce);
  if (program.ops.front().kind != CollectiveKind::all_reduce && all_reduce.name != "ring")
    refuse("ring for a pipeline of halves", all_reduce.name);
}

void check_carried(const RunSpec& spec, std::string_view backend) {
  const auto refuse = [&](std::string_view expected, std::string_view got) {
    throw core::InputError(
        fmt::format("{}: expected {} with --backend {}, got {}", spec.name, expected, backend, got));
  };
  for (const planner::Transfer& transfer : transfers_of(spec)) {
    if (!transfer.compressor.is_none()) refuse("no compression", core::printable(transfer.compressor.name));
    if (transfer.all_reduce.name != "ring")
      refuse("no all-reduce but ring, which stands for what the library takes", transfer.all_reduce.name);
  }
}

}  // namespace live
