#include "profiler/traces/kineto/host_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/shapes.hpp"

namespace kineto {
namespace {

constexpr const char* kHost = "CPU";
constexpr std::string_view kGloo = "gloo:";     ///< the work of a thread of Gloo
constexpr std::string_view kIssued = "c10d::";  ///< the call that handed it over
constexpr std::string_view kReducer = "torch.distributed.ddp.reducer::";

bool has_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// The calls that lead to a collective, by the beginnings of their names, and its name on Gloo's threads.
/// Gloo may scatter by an all-reduce.
struct Family {
  std::string_view gloo;
  std::array<std::string_view, 3> calls;
};
constexpr std::string_view kNone = "\n";  // begins no name
constexpr std::array<Family, 5> kFamilies = {
    {{"all_reduce", {"allreduce", "reduce_scatter", "_reduce_scatter"}},
     {"all_gather", {"allgather", "_allgather", kNone}},
     {"broadcast", {"broadcast", kNone, kNone}},
     {"reduce_scatter", {"reduce_scatter", "_reduce_scatter", kNone}},
     {"all_to_all", {"alltoall", kNone, kNone}}}};

bool leads_to(std::string_view call, const Family& family) {
  return std::any_of(family.calls.begin(), family.calls.end(),
                     [&](std::string_view begins) { return has_prefix(call, begins); });
}

/// Whether the operators are those of a job that computes on CPUs: they launch nothing, and none names a GPU.
bool is_of_cpu(const Trace& trace) {
  if (!trace.kernels.empty() || !trace.launches.empty() || !trace.device.empty()) return false;
  constexpr std::array<std::string_view, 6> kOfGpu = {"nccl:",
                                                      "aten::cudnn_convolution",
                                                      "aten::cudnn_batch_norm",
                                                      "aten::_cudnn_rnn",
                                                      "aten::miopen_convolution",
                                                      "aten::miopen_batch_norm"};
  return std::none_of(trace.ranges.begin(), trace.ranges.end(), [&](const Range& range) {
    const std::string_view name = trace.texts[range.name];
    return std::any_of(kOfGpu.begin(), kOfGpu.end(),
                       [&](std::string_view of) { return has_prefix(name, of); });
  });
}

/// Two numbers of events that belong together.
struct Work {
  std::size_t gloo = 0;
  std::size_t call = 0;
  Span share;  ///< its part of the channel
};

/// Spans become parts of a channel that does one thing at a time: what runs side by side shares it equally,
/// and comes one after the other, in the order of the starts. The parts fill the time in which anything runs.
void serialize(const Trace& trace, std::vector<Work>& all) {
  std::map<std::int64_t, std::int64_t> changes;  // of the number that runs
  for (const Work& work : all) {
    ++changes[trace.ranges[work.gloo].start_ns];
    --changes[trace.ranges[work.gloo].end_ns];
  }
  std::map<std::int64_t, double> shares;  // until then, of a span that runs since the last pause
  std::int64_t running = 0;
  std::int64_t last_ns = 0;
  double share = 0;
  for (const auto& [ns, change] : changes) {
    share = running == 0 ? 0 : share + static_cast<double>(ns - last_ns) / static_cast<double>(running);
    shares[ns] = share;
    running += change;
    last_ns = ns;
  }
  std::int64_t begin = 0;  // of the time without a pause
  std::int64_t end = std::numeric_limits<std::int64_t>::min();
  double sum = 0;  // sums are rounded, and not parts, so that nothing is lost
  for (Work& work : all) {
    const Range& range = trace.ranges[work.gloo];
    if (range.start_ns > end) {
      begin = end = range.start_ns;
      sum = 0;
    }
    sum += shares[range.end_ns] - shares[range.start_ns];
    const std::int64_t start = end;
    end = std::max(end, begin + static_cast<std::int64_t>(std::llround(sum)));
    work.share = {start, end};
  }
}

class HostKernels {
 public:
  explicit HostKernels(Trace& trace) : trace_(trace) {}

  void add() {
    std::stable_sort(trace_.ranges.begin(), trace_.ranges.end(), [](const Range& a, const Range& b) {
      return std::tuple(a.start_ns, -a.end_ns) < std::tuple(b.start_ns, -b.end_ns);
    });
    find_collectives();
    add_collectives();
    add_operators();
    std::sort(trace_.blocked.begin(), trace_.blocked.end());
    trace_.device = kHost;
  }

 private:
  std::string_view name(const Range& range) const { return trace_.texts[range.name]; }

  /// Gloo takes the calls of a family in their order; threads of several families run in any order.
  void find_collectives() {
    std::array<std::deque<std::size_t>, kFamilies.size()> calls;
    std::set<std::size_t> taken;  // of the calls that may be of two families
    for (std::size_t i = 0; i < trace_.ranges.size(); ++i) {
      const Range& range = trace_.ranges[i];
      if (has_prefix(name(range), kIssued) && range.kind == RangeKind::operation) {
        for (std::size_t k = 0; k < kFamilies.size(); ++k)
          if (leads_to(name(range).substr(kIssued.size()), kFamilies.at(k))) calls.at(k).push_back(i);
      } else if (has_prefix(name(range), kGloo)) {
        channels_.insert(range.thread);
        ends_.push_back(range.end_ns);
        const std::string_view gloo = name(range).substr(kGloo.size());
        const auto* const family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& each) {
          return has_prefix(gloo, each.gloo);
        });
        if (family == kFamilies.end()) continue;
        std::deque<std::size_t>& its = calls.at(static_cast<std::size_t>(family - kFamilies.begin()));
        while (!its.empty() && taken.count(its.front()) > 0) its.pop_front();
        if (its.empty()) continue;  // its call is not in the trace
        works_.push_back({.gloo = i, .call = its.front()});
        taken.insert(its.front());
        its.pop_front();
      }
    }
    std::sort(ends_.begin(), ends_.end());
    serialize(trace_, works_);
  }

  void add_collectives() {
    const nlohmann::json groups = nlohmann::json::parse(trace_.groups_json, nullptr, false);
    std::string group;  // the only one, as the calls do not name it
    if (groups.is_array() && groups.size() == 1 && groups[0].is_object() && groups[0].contains("pg_name") &&
        groups[0]["pg_name"].is_string())
      group = groups[0]["pg_name"].get<std::string>();
    for (const Work& work : works_) {
      const Range& gloo = trace_.ranges[work.gloo];
      const Range& call = trace_.ranges[work.call];
      const std::string text(name(call).substr(kIssued.size()));
      const auto shapes = shapes_of(trace_.texts[gloo.shapes]);
      const std::int64_t elements = shapes.empty() ? 0 : elements_in(shapes.front());
      trace_.collectives.push_back({.name = trace_.texts.id(text),
                                    .dtype = gloo.dtype,
                                    .in_elements = elements,
                                    .group_size = trace_.world_size,
                                    .group_name = trace_.texts.id(group),
                                    .stream = 0});
      add_kernel(gloo.name, work.share, call.start_ns, call.thread,
                 static_cast<std::int32_t>(trace_.collectives.size() - 1));
    }
  }

  void add_kernel(TextId name, const Span& ran, std::int64_t at_ns, TextId thread,
                  std::int32_t collective = -1) {
    if (ran.first >= ran.second) return;
    constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max() / 4;  // all are added up later
    if (ran.second - ran.first > kMaxNs - all_ns_)
      throw core::InputError(fmt::format("{}: /: expected operators that take at most {} us in all, got more",
                                         core::one_line(trace_.path), kMaxNs / 1000));
    all_ns_ += ran.second - ran.first;
    ++correlation_;
    trace_.launches.push_back(
        {.at_ns = at_ns, .end_ns = at_ns, .correlation = correlation_, .thread = thread});
    trace_.kernels.push_back({.start_ns = ran.first,
                              .end_ns = ran.second,
                              .correlation = correlation_,
                              .collective = collective,
                              .name = name});
  }

  /// The last end of a collective in a time in which no operator computes: until then the thread waited.
  std::optional<std::int64_t> waited_until(const Span& idle) const {
    const auto after = std::upper_bound(ends_.begin(), ends_.end(), idle.second);
    if (after == ends_.begin() || *(after - 1) <= idle.first) return std::nullopt;
    return *(after - 1);
  }

  struct Open {
    std::size_t range = 0;
    std::int64_t done_ns = 0;  ///< end of its last inner operator
    bool has_inner = false;
  };

  /// One thread's outermost operator and what is open in it.
  struct Thread {
    std::vector<Open> open;
    std::int64_t from_ns = 0;         ///< of the piece that goes on
    std::int64_t end_ns = INT64_MIN;  ///< of the last outermost operator
  };

  void add_operators() {
    std::map<TextId, Thread> threads;
    for (std::size_t i = 0; i < trace_.ranges.size(); ++i) {
      const Range& range = trace_.ranges[i];
      if (range.kind != RangeKind::operation || !computes(range)) continue;
      Thread& thread = threads[range.thread];
      close(thread, range.start_ns);
      if (thread.open.empty()) {
        if (thread.end_ns != INT64_MIN) wait(thread, {thread.end_ns, range.start_ns});
        thread.from_ns = range.start_ns;
      } else {
        wait(thread, {thread.open.back().done_ns, range.start_ns});
        thread.open.back().has_inner = true;
      }
      if (has_prefix(name(range), kReducer)) piece(thread, range.start_ns);
      thread.open.push_back({.range = i, .done_ns = range.start_ns});
    }
    for (auto& [id, thread] : threads) close(thread, INT64_MAX);
  }

  /// Operators on threads of Gloo are part of its collectives. Annotations of old versions are operators.
  bool computes(const Range& range) const {
    return channels_.find(range.thread) == channels_.end() &&
           (name(range).find("::") != std::string_view::npos || range.sequence >= 0);
  }

  /// Ends the piece of the outermost operator that goes on, and begins the next one.
  void piece(Thread& thread, std::int64_t at_ns) {
    const Range& outermost = trace_.ranges[thread.open.empty() ? 0 : thread.open.front().range];
    if (!thread.open.empty())
      add_kernel(outermost.name, {thread.from_ns, at_ns}, thread.from_ns, outermost.thread);
    thread.from_ns = std::max(thread.from_ns, at_ns);
  }

  void wait(Thread& thread, const Span& idle) {
    const std::optional<std::int64_t> until = waited_until(idle);
    if (!until) return;
    piece(thread, idle.first);
    trace_.blocked.emplace_back(idle.first, *until);
    thread.from_ns = *until;
  }

  void close(Thread& thread, std::int64_t ns) {
    while (!thread.open.empty() && trace_.ranges[thread.open.back().range].end_ns <= ns) {
      const Open last = thread.open.back();
      const Range& range = trace_.ranges[last.range];
      const bool waits = name(range).find("wait_tensor") != std::string_view::npos;
      if (last.has_inner || waits) wait(thread, {last.done_ns, range.end_ns});
      if (has_prefix(name(range), kReducer) || thread.open.size() == 1) piece(thread, range.end_ns);
      thread.open.pop_back();
      if (thread.open.empty())
        thread.end_ns = range.end_ns;
      else
        thread.open.back().done_ns = range.end_ns;
    }
  }

  Trace& trace_;
  std::set<TextId> channels_;       ///< threads of Gloo
  std::vector<std::int64_t> ends_;  ///< of collectives
  std::vector<Work> works_;
  std::int64_t correlation_ = 0;
  std::int64_t all_ns_ = 0;
};

}  // namespace

bool computes_on_host(const Trace& trace) { return trace.device == kHost; }

void add_host_kernels(Trace& trace) {
  if (is_of_cpu(trace)) HostKernels(trace).add();
}

}  // namespace kineto
