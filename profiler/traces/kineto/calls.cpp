#include "profiler/traces/kineto/calls.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/printable.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/exchanges.hpp"
#include "profiler/traces/kineto/joined_updates.hpp"
#include "profiler/traces/kineto/marked_steps.hpp"
#include "profiler/traces/kineto/queued_exchanges.hpp"

namespace kineto {
namespace {

constexpr std::int32_t kNone = -1;
constexpr std::string_view kProfilerStep = "ProfilerStep#";

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

constexpr std::string_view kBackward = "autograd::engine::evaluate_function: ";
constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";
constexpr std::string_view kOptimizer = "Optimizer.";
constexpr std::string_view kOptimizerStep = "Optimizer.step";
constexpr std::string_view kParameters = "record_param_comms";  ///< around the launch of a collective
constexpr std::string_view kReducer = "torch.distributed.ddp.reducer::";  ///< DDP's copies out of buckets

/// Operators that prepare data; their work belongs to no layer.
constexpr std::array<std::string_view, 14> kPreparing = {
    "aten::rand",  "aten::randn", "aten::randint", "aten::uniform_", "aten::normal_",
    "aten::zeros", "aten::ones",  "aten::empty",   "aten::full",     "aten::fill_",
    "aten::zero_", "aten::to",    "aten::copy_",   "aten::item"};

/// PyTorch 1.8 has no evaluate_function around "AddmmBackward" and the like.
bool is_backward(std::string_view operation) {
  if (starts_with(operation, kBackward)) return true;
  while (!operation.empty() && operation.back() >= '0' && operation.back() <= '9') operation.remove_suffix(1);
  return operation.ends_with("Backward") && operation.find("::") == std::string_view::npos;
}

bool is_accumulation(std::string_view operation) {
  return operation.find(kAccumulate) != std::string_view::npos;
}

/// When forward passes did something that backward passes undo. Every operator states the number that its
/// thread gives to the next one that needs a gradient, the update's operators too; so the last outermost
/// operator with a number that a later one exceeds is the one that took it.
std::vector<std::int64_t> forward_starts(const Trace& trace) {
  struct Thread {
    std::int64_t sequence = -1;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = INT64_MIN;
  };
  std::unordered_map<TextId, Thread> threads;
  std::vector<std::int64_t> out;
  for (const Range& range : trace.ranges) {
    if (range.kind != RangeKind::operation) continue;
    Thread& thread = threads[range.thread];
    if (range.start_ns < thread.end_ns) continue;  // within another
    thread.end_ns = range.end_ns;
    const std::string_view name = trace.texts[range.name];
    if (range.sequence < 0 || is_backward(name) || is_accumulation(name)) continue;
    if (thread.sequence >= 0 && range.sequence > thread.sequence) out.push_back(thread.start_ns);
    thread.sequence = range.sequence;
    thread.start_ns = range.start_ns;
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// When gradients were accumulated, in order; none is within another.
Spans accumulations(const Trace& trace) {
  Spans out;
  for (const Range& range : trace.ranges) {
    if (range.kind != RangeKind::operation || !is_accumulation(trace.texts[range.name])) continue;
    if (out.empty() || range.end_ns > out.back().second) out.emplace_back(range.start_ns, range.end_ns);
  }
  return out;
}

/// When an annotated step of an optimizer begins to update. The step may run forward and backward itself, as
/// a closure: then it updates after the last gradient that any thread accumulates in it.
std::int64_t update_start(const Spans& accumulations, const Range& step) {
  const auto after = std::partition_point(accumulations.begin(), accumulations.end(),
                                          [&](const Span& span) { return span.second <= step.end_ns; });
  const bool has_gradient = after != accumulations.begin() && (after - 1)->first >= step.start_ns;
  return has_gradient ? (after - 1)->second : step.start_ns;
}

/// The updates that annotated steps of optimizers make, in order.
Spans updates(const Trace& trace) {
  const Spans gradients = accumulations(trace);
  Spans out;
  for (const Range& range : trace.ranges)
    if (range.kind == RangeKind::annotation && starts_with(trace.texts[range.name], kOptimizerStep))
      out.emplace_back(update_start(gradients, range), range.end_ns);
  std::sort(out.begin(), out.end());
  return out;
}

/// The iterations of a trace without steps. One ends with the last update before the next backward pass, or
/// else where a forward pass follows a backward pass. Without any of both the trace is one.
std::vector<Step> unmarked_steps(const Trace& trace) {
  Span whole = {INT64_MAX, INT64_MIN};
  std::vector<std::int64_t> after_updates;
  std::vector<std::int64_t> after_backwards;
  std::int64_t update_end = INT64_MIN;
  std::int64_t backward_end = INT64_MIN;
  bool has_backward = false;
  const std::vector<std::int64_t> starts = forward_starts(trace);
  auto start = starts.begin();
  const Spans all_updates = updates(trace);
  auto update = all_updates.begin();
  for (const Range& range : trace.ranges) {
    const std::string_view name = trace.texts[range.name];
    for (; update != all_updates.end() && update->first <= range.start_ns; ++update)
      update_end = update->second;
    whole = {std::min(whole.first, range.start_ns), std::max(whole.second, range.end_ns)};
    for (; start != starts.end() && *start <= range.start_ns; ++start) {
      if (backward_end == INT64_MIN || *start < backward_end) continue;
      after_backwards.push_back(*start);
      backward_end = INT64_MIN;
    }
    if (range.kind == RangeKind::operation && is_backward(name)) {
      if (has_backward && update_end != INT64_MIN) after_updates.push_back(update_end);
      update_end = INT64_MIN;
      has_backward = true;
    }
    if (is_accumulation(name)) backward_end = std::max(backward_end, range.end_ns);
  }
  if (whole.first > whole.second) return {};
  std::vector<Step> out = {{.start_ns = whole.first, .end_ns = whole.second + 1, .may_be_partial = true}};
  for (const std::int64_t end : after_updates.empty() ? after_backwards : after_updates) {
    if (end <= out.back().start_ns) continue;
    out.back().end_ns = end;
    out.push_back({.start_ns = end, .end_ns = whole.second + 1});
  }
  return out;
}

/// The surroundings of a range.
struct Context {
  std::int32_t top = kNone;     ///< the outermost operator
  std::int32_t module = kNone;  ///< the innermost module around it
  std::int32_t call = kNone;
  std::int32_t collective = kNone;     ///< what the ranges around it say of one
  std::int32_t node = kNone;           ///< of autograd, the innermost
  std::int64_t update_ns = INT64_MAX;  ///< from then on what has no operator around it belongs to the update
  LaunchedFrom from = LaunchedFrom::elsewhere;
  Role role = Role::other;
};

/// Processes one thread's ranges and launches in order, with a stack of open ranges.
class Search {
 public:
  Search(Trace& trace, std::string_view step) : trace_(&trace), step_(step) {
    std::stable_sort(trace.ranges.begin(), trace.ranges.end(), [](const Range& a, const Range& b) {
      return std::tuple(a.start_ns, -a.end_ns) < std::tuple(b.start_ns, -b.end_ns);
    });
    std::stable_sort(trace.launches.begin(), trace.launches.end(),
                     [](const Launch& a, const Launch& b) { return a.at_ns < b.at_ns; });
    mark_annotations();
    accumulations_ = accumulations(trace);
    contexts_.resize(trace.ranges.size());
    places_.resize(trace.launches.size());
  }

  Calls run() && {
    find_steps();
    std::size_t launch = 0;
    for (std::size_t i = 0; i < trace_->ranges.size(); ++i) {
      for (; launch < trace_->launches.size() && trace_->launches[launch].at_ns < trace_->ranges[i].start_ns;
           ++launch)
        place(launch);
      enter(i);
    }
    for (; launch < trace_->launches.size(); ++launch) place(launch);
    attribute_kernels();
    return std::move(out_);
  }

 private:
  struct Thread {
    std::vector<std::size_t> open;
    std::int32_t last_backward = kNone;  ///< the call of the last backward operator
    std::int32_t last_forward = kNone;   ///< the last call of a layer
    bool is_in_forward = true;  ///< since its last node of autograd it has recorded a forward operator
  };

  std::string_view text(TextId id) const { return trace_->texts[id]; }

  /// Old versions of PyTorch write annotations of users as operators. Operators have a namespace, and
  /// functions of users that take part in backward have a number.
  void mark_annotations() {
    for (Range& range : trace_->ranges) {
      const std::string_view name = text(range.name);
      const bool is_users = range.sequence < 0 && name.find("::") == std::string_view::npos &&
                            name != kParameters && !is_backward(name);
      if (range.kind == RangeKind::operation &&
          (is_users || starts_with(name, kOptimizer) || starts_with(name, kProfilerStep)))
        range.kind = RangeKind::annotation;
    }
  }

  void find_steps() {
    for (const Range& range : trace_->ranges)
      if (range.kind == RangeKind::annotation && !step_.empty() && starts_with(text(range.name), step_))
        out_.steps.push_back({.start_ns = range.start_ns,
                              .end_ns = range.end_ns,
                              .label = std::string(text(range.name).substr(step_.size())),
                              .last_label = std::string(text(range.name).substr(step_.size()))});
    out_.has_steps = !out_.steps.empty();
    if (!out_.has_steps && !step_.empty() && step_ != kProfilerStep) refuse_step();
    if (out_.has_steps)
      out_.steps = joined_steps(*trace_, std::move(out_.steps));
    else
      join_updates(joined_updates(*trace_, unmarked_steps(*trace_)));
    describe_steps(*trace_, out_.steps);
    last_gradient_ns_.assign(out_.steps.size(), INT64_MAX);
    for (const Range& range : trace_->ranges)
      if (accumulations_.empty() ? is_backward(text(range.name)) : is_accumulation(text(range.name)))
        if (const std::int32_t step = step_at(range.start_ns); step != kNone) {
          std::int64_t& last = last_gradient_ns_[index(step)];
          last = last == INT64_MAX ? range.end_ns : std::max(last, range.end_ns);
        }
  }

  void join_updates(JoinedUpdates joined) {
    out_.steps = std::move(joined.steps);
    out_.updates = joined.updates;
    out_.has_ambiguous_updates = joined.is_ambiguous;
  }

  /// The user named ranges that the trace does not hold.
  [[noreturn]] void refuse_step() const {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> names;
    for (const Range& range : trace_->ranges) {
      const std::string name = fmt::format("\"{}\"", core::printable(text(range.name)));
      if (range.kind == RangeKind::annotation && names.size() < kShown &&
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    }
    throw core::InputError(fmt::format(
        "{}: /traceEvents: expected ranges whose names begin with \"{}\" (--step), got {}",
        core::one_line(trace_->path), core::printable(step_),
        names.empty() ? "a trace without ranges of users" : fmt::format("{}", fmt::join(names, ", "))));
  }

  bool is_after_backward(std::int32_t step, std::int64_t ns) const {
    return step != kNone && ns >= last_gradient_ns_[index(step)];
  }

  std::int32_t step_at(std::int64_t ns) const {
    const auto after = std::upper_bound(out_.steps.begin(), out_.steps.end(), ns,
                                        [](std::int64_t at, const Step& step) { return at < step.start_ns; });
    if (after == out_.steps.begin() || ns >= (after - 1)->end_ns) return kNone;
    return static_cast<std::int32_t>(after - 1 - out_.steps.begin());
  }

  static void close(const std::vector<Range>& ranges, Thread& thread, std::int64_t ns) {
    while (!thread.open.empty() && ranges[thread.open.back()].end_ns <= ns) thread.open.pop_back();
  }

  /// Times are rounded one by one, so that a range can seem to begin before the one in front of it ends.
  void close_rounded(Thread& thread, const Range& next) const {
    constexpr std::int64_t kMostNs = 1000;
    const auto ends_in = [&](std::size_t open) {
      const std::int64_t end_ns = trace_->ranges[open].end_ns;
      return end_ns < next.end_ns && end_ns - next.start_ns <= kMostNs;
    };
    while (!thread.open.empty() && ends_in(thread.open.back())) thread.open.pop_back();
  }

  void enter(std::size_t at) {
    const Range& range = trace_->ranges[at];
    Thread& thread = threads_[range.thread];
    close(trace_->ranges, thread, range.start_ns);
    close_rounded(thread, range);
    Context context = thread.open.empty() ? Context{} : contexts_[thread.open.back()];
    if (range.collective != kNone) {
      complete(range.collective, context.collective);
      context.collective = range.collective;
    }
    switch (range.kind) {
      case RangeKind::annotation:
        if (!starts_with(text(range.name), kOptimizer)) break;
        context.update_ns = update_start(accumulations_, range);
        if (context.update_ns == range.start_ns) context.role = Role::optimizer;
        break;
      case RangeKind::module:
        if (context.top == kNone) context.module = static_cast<std::int32_t>(at);
        break;
      case RangeKind::operation:
        begin_update(context, range.start_ns);
        enter_operation(at, thread, context);
        break;
    }
    contexts_[at] = context;
    thread.open.push_back(at);
  }

  static void begin_update(Context& context, std::int64_t ns) {
    if (context.top == kNone && ns >= context.update_ns) context.role = Role::optimizer;
  }

  void enter_operation(std::size_t at, Thread& thread, Context& context) {
    const Range& range = trace_->ranges[at];
    if (context.role == Role::optimizer) return;
    const std::string_view name = text(range.name);
    const bool is_inside = context.role == Role::backward;
    const bool is_node =
        starts_with(name, kBackward) || (!is_inside && (is_backward(name) || is_accumulation(name)));
    if (is_node) {
      context.role = Role::backward;
      context.call = backward_call(range, thread, is_inside ? context.call : kNone);
      context.top = context.node = static_cast<std::int32_t>(at);
      context.from = is_accumulation(name) ? LaunchedFrom::accumulation : LaunchedFrom::node;
      thread.is_in_forward = false;
    }
    if (context.role == Role::backward) {
      if (name.ends_with(kAccumulate) && !starts_with(name, kBackward) && context.call != kNone)
        out_.calls[index(context.call)].gradients.push_back(
            {.shapes = range.shapes, .at_ns = range.end_ns, .ns = 0});
      return;
    }
    if (text(range.name) == kParameters) return;
    if (starts_with(text(range.name), kReducer)) {
      context.role = Role::optimizer;  // after the all-reduce, as the update
      return;
    }
    if (context.top == kNone) enter_forward(at, thread, context);
    if (range.sequence >= 0 && context.role == Role::forward && context.call != kNone)
      by_sequence_[range.sequence] = context.call;  // the last range with a number is the one that created it
  }

  std::int32_t backward_call(const Range& range, Thread& thread, std::int32_t around) {
    if (is_accumulation(text(range.name))) return thread.last_backward;
    const auto found = by_sequence_.find(range.sequence);
    // An operator that was recomputed in backward (a checkpoint) belongs to the layer around it or before it.
    if (range.sequence >= 0 && found != by_sequence_.end())
      thread.last_backward = found->second;
    else if (around != kNone)
      thread.last_backward = around;
    else if (thread.last_backward != kNone &&
             out_.calls[index(thread.last_backward)].step != step_at(range.start_ns))
      thread.last_backward = kNone;  // of an earlier step
    if (thread.last_backward != kNone) out_.calls[index(thread.last_backward)].has_backward = true;
    return thread.last_backward;
  }

  /// Where the trace does not name the nodes that accumulate gradients, what their hooks do is outside of all
  /// nodes.
  bool goes_on_with_backward(const Range& range, const Thread& thread, const Context& context,
                             std::int32_t step) const {
    return accumulations_.empty() && !thread.is_in_forward && context.module == kNone && range.sequence < 0 &&
           thread.last_backward != kNone && out_.calls[index(thread.last_backward)].step == step;
  }

  /// Handles an operator outside all others: it belongs to the previous call, if that is of the same module,
  /// or to a new one.
  void enter_forward(std::size_t at, Thread& thread, Context& context) {
    const Range& range = trace_->ranges[at];
    context.top = static_cast<std::int32_t>(at);
    const std::int32_t step = step_at(range.start_ns);
    if (step == kNone) return;
    if (text(range.name) == "aten::ones_like" && range.sequence < 0 && !out_.calls.empty()) {
      context.role = Role::backward;  // the gradient of the loss, with which backward begins
      context.call = static_cast<std::int32_t>(out_.calls.size()) - 1;
      return;
    }
    if (std::find(kPreparing.begin(), kPreparing.end(), text(range.name)) != kPreparing.end() &&
        context.module == kNone)
      return;
    if (goes_on_with_backward(range, thread, context, step)) {
      context.role = Role::backward;
      context.call = thread.last_backward;
      return;
    }
    if (is_after_backward(step, range.start_ns)) {
      context.role = Role::optimizer;  // without an annotation: unscaling, clipping, the update
      return;
    }
    context.role = Role::forward;
    thread.is_in_forward = thread.is_in_forward || context.module != kNone || range.sequence >= 0;
    if (thread.is_in_forward) context.from = LaunchedFrom::forward;
    const bool goes_on = context.module != kNone && context.module == last_module_;
    last_module_ = context.module;
    if (!goes_on) {
      const TextId name = context.module == kNone ? range.name : trace_->ranges[index(context.module)].name;
      out_.calls.push_back({.step = step,
                            .name = name,
                            .operation = range.name,
                            .shapes = range.shapes,
                            .is_module = context.module != kNone,
                            .start_ns = range.start_ns});
    }
    context.call = static_cast<std::int32_t>(out_.calls.size()) - 1;
    thread.last_forward = context.call;
  }

  void place(std::size_t at) {
    const Launch& launch = trace_->launches[at];
    Thread& thread = threads_[launch.thread];
    close(trace_->ranges, thread, launch.at_ns);
    if (!thread.open.empty()) places_[at] = contexts_[thread.open.back()];
    begin_update(places_[at], launch.at_ns);
    if (places_[at].top == kNone && places_[at].role == Role::other)
      outside_operators(launch, thread, places_[at]);
  }

  /// Compiled code, CUDA graphs and extensions launch kernels without an operator: they go on with what the
  /// thread does.
  void outside_operators(const Launch& launch, const Thread& thread, Context& place) const {
    const std::int32_t step = step_at(launch.at_ns);
    if (thread.last_forward == kNone || step == kNone || out_.calls[index(thread.last_forward)].step != step)
      return;
    place.role = is_after_backward(step, launch.at_ns) ? Role::optimizer : Role::forward;
    if (place.role != Role::forward) return;
    place.call = thread.last_forward;
    place.from = LaunchedFrom::forward;
  }

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

  void attribute_kernels() {
    std::stable_sort(trace_->kernels.begin(), trace_->kernels.end(), [](const Kernel& a, const Kernel& b) {
      return std::tuple(a.start_ns, a.end_ns) < std::tuple(b.start_ns, b.end_ns);
    });
    std::unordered_map<std::int64_t, std::uint32_t> launch_of;
    launch_of.reserve(trace_->launches.size());
    for (std::size_t i = 0; i < trace_->launches.size(); ++i)
      launch_of.emplace(trace_->launches[i].correlation, static_cast<std::uint32_t>(i));
    const bool lacks_launches =
        std::any_of(trace_->kernels.begin(), trace_->kernels.end(), [&](const Kernel& kernel) {
          return kernel.external != 0 && launch_of.find(kernel.correlation) == launch_of.end();
        });
    std::unordered_map<std::int64_t, std::uint32_t> operator_of;
    for (std::size_t i = 0; lacks_launches && i < trace_->ranges.size(); ++i)
      if (trace_->ranges[i].external != 0)
        operator_of.emplace(trace_->ranges[i].external, static_cast<std::uint32_t>(i));
    for (const std::int64_t correlation : trace_->lost)
      if (const auto found = launch_of.find(correlation); correlation != 0 && found != launch_of.end())
        lose(trace_->launches[found->second].at_ns);
    if (trace_->is_cut_off) lose_last_step(launch_of);
    bool is_of_trace = trace_->launches.empty();  // the first kernels may have been launched before it began
    std::vector<Context> contexts;
    out_.work.reserve(trace_->kernels.size());
    contexts.reserve(trace_->kernels.size());
    for (Kernel& kernel : trace_->kernels) {
      const auto found = launch_of.find(kernel.correlation);
      const bool launched = kernel.correlation != 0 && found != launch_of.end();
      Context context = launched ? places_[found->second] : Context{};
      std::int64_t at = launched ? trace_->launches[found->second].at_ns : kernel.start_ns;
      is_of_trace = is_of_trace || launched;
      if (const auto by = operator_of.find(kernel.external); !launched && by != operator_of.end()) {
        is_of_trace = true;
        context = contexts_[by->second];
        at = std::min(at, trace_->ranges[by->second].end_ns);
      }
      complete(kernel.collective, context.collective);
      contexts.push_back(context);
      out_.work.push_back({.role = role(kernel, context),
                           .step = is_of_trace ? step_at(at) : kNone,
                           .call = context.call,
                           .launched_ns = at,
                           .has_launch = launched,
                           .time = {}});
    }
    find_exchanges(contexts);
    share_device_time();
    for (std::size_t i = 0; i < contexts.size(); ++i) add(trace_->kernels[i], contexts[i], out_.work[i]);
  }

  /// Where the file is cut off, nothing says that it holds all kernels of the last step that has some.
  void lose_last_step(const std::unordered_map<std::int64_t, std::uint32_t>& launch_of) {
    std::int64_t last_ns = INT64_MIN;
    for (const Kernel& kernel : trace_->kernels) {
      const auto found = launch_of.find(kernel.correlation);
      const bool launched = kernel.correlation != 0 && found != launch_of.end();
      last_ns = std::max(last_ns, launched ? trace_->launches[found->second].at_ns : kernel.start_ns);
    }
    lose(last_ns);
  }

  void lose(std::int64_t launched_ns) {
    if (const std::int32_t step = step_at(launched_ns); step != kNone) {
      std::int64_t& first = out_.steps[index(step)].first_lost_ns;
      first = std::min(first, launched_ns);
    }
  }

  /// Adds what ranges around a collective say that it does not itself: before PyTorch 2.2 kernels say
  /// nothing.
  void complete(std::int32_t collective, std::int32_t from) {
    if (collective == kNone || from == kNone) return;
    Collective& into = trace_->collectives[index(collective)];
    const Collective& more = trace_->collectives[index(from)];
    const auto text = [](TextId& to, TextId by) {
      if (to == TextId{}) to = by;
    };
    const auto number = [](std::int64_t& to, std::int64_t by) {
      if (to <= 0) to = by;
    };
    if (into.in_elements <= 0 || into.dtype == TextId{}) {
      if (more.dtype != TextId{}) into.dtype = more.dtype;
      number(into.in_elements, more.in_elements);
    }
    text(into.name, more.name);
    number(into.out_elements, more.out_elements);
    number(into.group_size, more.group_size);
    text(into.group_name, more.group_name);
    text(into.group_description, more.group_description);
    text(into.group_ranks, more.group_ranks);
    if (into.rank_start < 0) into.rank_start = more.rank_start;
    number(into.rank_stride, more.rank_stride);
    if (into.sequence < 0) into.sequence = more.sequence;
    text(into.id, more.id);
  }

  Role role(const Kernel& kernel, const Context& context) const {
    if (kernel.collective >= 0) return Role::communication;
    const bool copies = starts_with(text(kernel.name), "Memcpy");
    if (copies && context.top == kNone && context.role == Role::forward) return Role::copy;
    if (context.call != kNone || context.role == Role::optimizer) return context.role;
    if (copies) return Role::copy;
    return Role::other;
  }

  void find_exchanges(const std::vector<Context>& contexts) {
    std::vector<LaunchedCollective> collectives;
    for (std::size_t i = 0; i < contexts.size(); ++i)
      if (trace_->kernels[i].collective != kNone)
        collectives.push_back({.kernel = i, .from = contexts[i].from, .node = contexts[i].node});
    CollectiveUses uses = find_uses(*trace_, collectives);
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      out_.work[collectives[i].kernel].is_exchange = uses.is_exchange[i];
      out_.work[collectives[i].kernel].group = uses.group_of[i];
    }
    out_.groups = std::move(uses.groups);
    out_.gradient_group = uses.gradient_group;
  }

  /// A kernel of which nothing is known but its start waited for communication that ended just before.
  static bool follows(const std::vector<std::int64_t>& ends, std::int64_t start_ns) {
    constexpr std::int64_t kJustBeforeNs = 10'000;
    const auto after = std::upper_bound(ends.begin(), ends.end(), start_ns);
    return after != ends.begin() && start_ns - *(after - 1) <= kJustBeforeNs;
  }

  /// DDP broadcasts its buffers before forward passes. What such a broadcast takes beyond the shortest of its
  /// size is waiting for slower workers, as in collectives of gradients.
  std::vector<Span> waits_in_broadcasts() const {
    std::vector<Span> out(trace_->kernels.size());
    std::map<std::pair<std::uint32_t, std::int64_t>, std::int64_t> shortest_ns;
    const auto of_broadcasts = [&](const auto& handle) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        const Kernel& kernel = trace_->kernels[i];
        if (!is_broadcast(*trace_, kernel)) continue;
        const std::int64_t elements = trace_->collectives[index(kernel.collective)].in_elements;
        if (elements <= 0) continue;
        handle(i, shortest_ns.try_emplace({out_.work[i].group, elements}, INT64_MAX).first->second);
      }
    };
    of_broadcasts([&](std::size_t i, std::int64_t& shortest) {
      shortest = std::min(shortest, trace_->kernels[i].end_ns - trace_->kernels[i].start_ns);
    });
    of_broadcasts([&](std::size_t i, std::int64_t shortest) {
      out[i] = {trace_->kernels[i].start_ns, trace_->kernels[i].end_ns - shortest};
    });
    return out;
  }

  void share_device_time() {
    const std::vector<Span> waits = waits_in_broadcasts();
    OtherSpans others;
    std::vector<std::int64_t> ends;  // of communication
    for (std::size_t i = 0; i < trace_->kernels.size(); ++i)
      if (out_.work[i].role == Role::communication) ends.push_back(trace_->kernels[i].end_ns);
    std::sort(ends.begin(), ends.end());
    std::vector<ComputeKernel> kernels;
    std::vector<std::size_t> index_of;
    std::vector<GroupCollective> collectives;
    for (std::size_t i = 0; i < trace_->kernels.size(); ++i) {
      const Kernel& kernel = trace_->kernels[i];
      const Work& work = out_.work[i];
      const Span ran = {kernel.start_ns, kernel.end_ns};
      if (work.role == Role::communication) {
        if (const Span& wait = waits[i]; wait.first < wait.second) others.gradients.push_back(wait);
        const Span sent = {std::max(kernel.start_ns, waits[i].second), kernel.end_ns};
        (work.is_exchange ? others.exchanges : others.gradients).push_back(sent);
        collectives.push_back({.group = work.group,
                               .ran = ran,
                               .launched_ns = work.launched_ns,
                               .is_exchange_of_pass = is_in_pass(*trace_, kernel, work)});
      } else if (work.role == Role::copy) {
        others.copies.push_back(ran);
      } else {
        const bool is_known = work.has_launch || work.launched_ns < kernel.start_ns;
        const bool waited = !is_known && follows(ends, kernel.start_ns);
        kernels.push_back({.ran = ran,
                           .launched_ns = waited ? INT64_MIN : work.launched_ns,
                           .is_of_layer = work.role == Role::forward || work.role == Role::backward});
        index_of.push_back(i);
      }
    }
    others.blocked = trace_->blocked;
    for (Spans* spans : {&others.gradients, &others.exchanges, &others.copies, &others.blocked})
      *spans = united(std::move(*spans));
    others.in_passes = queued_exchanges(collectives);
    DeviceSplit split = split_device_time(kernels, others);
    for (std::size_t i = 0; i < split.kernels.size(); ++i) out_.work[index_of[i]].time = split.kernels[i];
    out_.waits = std::move(split.waits);
    out_.gaps = std::move(split.gaps);
    out_.in_passes = std::move(split.in_passes);
    forget_waits_between_steps();
  }

  /// The device idles before the first kernel of a step's forward because of what the host does between
  /// steps.
  void forget_waits_between_steps() {
    std::int32_t step = kNone;
    for (Work& work : out_.work) {
      if (work.role != Role::forward || work.step <= step) continue;
      step = work.step;
      work.idle_before_ns = work.time.wait_ns + work.time.exchange_ns;
      work.time.wait_ns = work.time.exchange_ns = 0;
    }
  }

  void add(const Kernel& kernel, const Context& context, const Work& work) {
    if (work.role == Role::other)
      out_.other_ns[std::string(text(kernel.name))] += kernel.end_ns - kernel.start_ns;
    if (work.role != Role::forward && work.role != Role::backward) return;
    Call& call = out_.calls[index(context.call)];
    if (work.role == Role::forward) {
      if (!call.has_kernel && context.top != kNone) call.operation = trace_->ranges[index(context.top)].name;
      call.has_kernel = true;
      call.forward_ns += work.time.busy_ns + work.time.exchange_ns;
      call.forward_wait_ns += work.time.wait_ns;
      return;
    }
    call.has_backward = true;
    call.backward_ns += work.time.busy_ns + work.time.exchange_ns;
    call.backward_wait_ns += work.time.wait_ns;
    if (call.gradients.empty()) return;
    const auto ready =
        std::find_if(call.gradients.begin(), call.gradients.end(),
                     [&](const Gradient& gradient) { return gradient.at_ns >= work.launched_ns; });
    (ready == call.gradients.end() ? call.gradients.back() : *ready).ns +=
        work.time.busy_ns + work.time.exchange_ns + work.time.wait_ns;
  }

  Trace* trace_;
  std::string_view step_;
  Calls out_;
  Spans accumulations_;
  std::vector<Context> contexts_;  ///< of each range
  std::vector<Context> places_;    ///< of each launch
  std::unordered_map<TextId, Thread> threads_;
  std::unordered_map<std::int64_t, std::int32_t> by_sequence_;
  std::int32_t last_module_ = kNone;
  std::vector<std::int64_t> last_gradient_ns_;  ///< by step: the host has handed over all; or never
};

}  // namespace

bool is_in_pass(const Trace& trace, const Kernel& kernel, const Work& work) {
  return work.is_exchange && work.call != kNone && !is_broadcast(trace, kernel);
}

Calls find_calls(Trace& trace, std::string_view step) { return Search(trace, step).run(); }

}  // namespace kineto
