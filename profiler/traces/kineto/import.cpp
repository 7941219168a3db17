#include "profiler/traces/kineto/import.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/host_stream.hpp"
#include "core/quantities.hpp"
#include "profiler/traces/kineto/assumed_gradients.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/clean_trace.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/communication.hpp"
#include "profiler/traces/kineto/copied_tensors.hpp"
#include "profiler/traces/kineto/gradient_sizes.hpp"
#include "profiler/traces/kineto/host_kernels.hpp"
#include "profiler/traces/kineto/iteration.hpp"
#include "profiler/traces/kineto/layers.hpp"
#include "profiler/traces/kineto/marked_steps.hpp"
#include "profiler/traces/kineto/micro_batches.hpp"
#include "profiler/traces/kineto/read_trace.hpp"
#include "profiler/traces/kineto/shapes.hpp"
#include "profiler/traces/kineto/sharded_groups.hpp"
#include "profiler/traces/kineto/used_steps.hpp"

namespace kineto {
namespace {

using core::InputError;

[[noreturn]] void refuse(const Trace& trace, std::string_view what, std::string_view got) {
  throw InputError(fmt::format("{}: /: expected {}, got {}", core::one_line(trace.path), what, got));
}

/// Without folders, and without the extensions of a trace.
std::string stem(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  for (const std::string_view extension : {".gz", ".json", ".trace", ".pt"})
    if (name.extension() == extension) name = name.stem();
  return name.empty() ? "trace" : name.string();
}

/// Returns the first dimension of the first layer's input; 0 if the trace does not hold it. What prepares the
/// first layer, such as FSDP's copies of gathered parameters, has no backward pass.
std::int64_t batch_size(const Trace& trace, const Calls& calls, const traces::ImportOptions& options) {
  if (options.batch_size > 0) return options.batch_size;
  bool is_first = true;
  for (const Call& call : calls.calls) {
    if (!call.has_kernel || (!is_first && !call.has_backward)) continue;
    const auto shapes = shapes_of(trace.texts[call.shapes]);
    const std::size_t input = trace.texts[call.operation] == "aten::embedding" ? 1 : 0;
    if (shapes.size() > input && shapes[input].size() > 1 && shapes[input].front() > 0)
      return shapes[input].front();
    if (call.has_backward) break;
    is_first = false;
  }
  return 0;
}

using Shares = std::array<double, kRoles>;

Shares time_by_role(const Trace& trace, const Calls& calls) {
  Shares out{};
  for (std::size_t i = 0; i < trace.kernels.size(); ++i)
    out[static_cast<std::size_t>(calls.work[i].role)] +=
        static_cast<double>(trace.kernels[i].end_ns - trace.kernels[i].start_ns) / 1e6;
  return out;
}

double sum(const Shares& shares) {
  double out = 0;
  for (const double share : shares) out += share;
  return out;
}

std::string role_text(const Shares& shares, double whole) {
  constexpr std::array<std::string_view, kRoles> kNames = {"forward",       "backward", "optimizer",
                                                           "communication", "copies",   "not attributed"};
  std::string out;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    out +=
        fmt::format("{}{} {:.2f} %", i == 0 ? "" : ", ", kNames[i], whole > 0 ? 100 * shares[i] / whole : 0);
  return out;
}

/// Describes the largest unattributed time.
std::string largest_other(const Calls& calls) {
  const auto largest = std::max_element(calls.other_ns.begin(), calls.other_ns.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == calls.other_ns.end()
             ? ""
             : fmt::format("; most of what is not attributed: {}, {:.3f} ms", core::printable(largest->first),
                           static_cast<double>(largest->second) / 1e6);
}

/// Medians over the iterations that are used; us.
struct Measured {
  double length = 0;
  double alone = 0;   ///< without exposed communication
  double device = 0;  ///< what the GPU does itself
  double layers = 0;  ///< kernels of layers
  double exchange = 0;
  double exposed_before = 0;  ///< in earlier passes than the last
  double optimizer = 0;
  double optimizer_wait = 0;
  double wait = 0;
  double idle = 0;
  double host = 0;
  bool synchronizes = false;
  bool knows_host = false;
  double exposed() const { return std::max(0.0, length - alone); }
};

/// The medians over iterations of which the host is known, or all if it is of none.
Measured measured(const std::vector<Iteration>& iterations, bool knows_host) {
  const bool any_next =
      std::any_of(iterations.begin(), iterations.end(), [](const Iteration& each) { return each.has_next; });
  const auto of = [&](auto&& value, bool needs_next = false) {
    std::vector<double> out;
    out.reserve(iterations.size());
    for (const Iteration& each : iterations)
      if (each.has_next || !needs_next || !any_next) out.push_back(value(each));
    return out;
  };
  const auto synchronizing = std::count_if(iterations.begin(), iterations.end(),
                                           [](const Iteration& each) { return each.synchronizes; });
  return {.length = median(of([](const Iteration& each) { return each.length_us; })),
          .alone = median(of([](const Iteration& each) { return each.alone_us(); })),
          .device = median(of([](const Iteration& each) { return each.device_us(); })),
          .layers = median(of([](const Iteration& each) { return each.layers_us; })),
          .exchange = median(of([](const Iteration& each) { return each.exchange_us; })),
          .exposed_before = median(of([](const Iteration& each) { return each.exposed_before_us; })),
          .optimizer = median(of([](const Iteration& each) { return each.optimizer_us; })),
          .optimizer_wait = median(of([](const Iteration& each) { return each.optimizer_wait_us; })),
          .wait = median(of([](const Iteration& each) { return each.wait_us; })),
          .idle = median(of([](const Iteration& each) { return each.idle_us; }, true)),
          .host = median(of([](const Iteration& each) { return each.host_us; }, true)),
          .synchronizes = 2 * synchronizing >= static_cast<std::ptrdiff_t>(iterations.size()),
          .knows_host = knows_host && any_next &&
                        std::all_of(iterations.begin(), iterations.end(), [](const Iteration& each) {
                          return !each.has_next || each.host_us > 0;
                        })};
}

/// The iterations of these steps, without those of unknown length.
std::vector<Iteration> of_steps(const std::vector<Iteration>& all, const std::vector<std::int32_t>& steps) {
  std::vector<Iteration> out;
  for (const std::int32_t step : steps)
    if (const Iteration& each = all[static_cast<std::size_t>(step)]; each.length_us > 0) out.push_back(each);
  return out;
}

void scale(core::ProfileLayer& layer, double by) {
  layer.forward_us *= by;
  layer.backward_us *= by;
  for (auto* us :
       {&layer.forward_device_us, &layer.backward_device_us, &layer.forward_host_us, &layer.backward_host_us})
    if (*us) **us *= by;
  for (core::ProfileTensor& tensor : layer.tensors)
    if (tensor.backward_us) *tensor.backward_us *= by;
}

/// Other steps may take longer or shorter than those that are used: all times are scaled to their median.
void scale(Measured& all, std::vector<core::ProfileLayer>& layers, double length_us) {
  if (!(all.length > 0) || all.length == length_us) return;
  const double by = length_us / all.length;
  for (double* us : {&all.alone, &all.device, &all.layers, &all.exchange, &all.exposed_before, &all.optimizer,
                     &all.optimizer_wait, &all.wait, &all.idle, &all.host})
    *us *= by;
  all.length = length_us;
  for (core::ProfileLayer& layer : layers) scale(layer, by);
}

double device_us(const core::Profile& profile) {
  double sum = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    sum += layer.forward_device_us.value_or(layer.forward_us) +
           layer.backward_device_us.value_or(layer.backward_us);
  return sum;
}

double wait_of(double us, const std::optional<double>& device_us) {
  return device_us ? std::max(0.0, us - *device_us) : 0;
}

void forget_host(core::Profile& profile) {
  for (core::ProfileLayer& layer : profile.layers) layer.forward_host_us = layer.backward_host_us = {};
}

bool is_launch_of_update(const core::ProfileLayer& layer) { return layer.kind == "host"; }

double host_of_layers_us(const core::Profile& profile) {
  double sum = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    if (!is_launch_of_update(layer)) sum += *layer.forward_host_us + *layer.backward_host_us;
  return sum;
}

/// Collectives run while the host launches the update. So the GPU's waits for that are a layer without
/// parameters that comes last in backward, if they matter.
void add_launch_of_update(core::Profile& profile, const Measured& all) {
  constexpr double kMatters = 0.005;
  if (all.optimizer_wait <= kMatters * all.length) return;
  std::string name = "launch of the update";
  const auto is_taken = [&](const core::ProfileLayer& layer) { return layer.name == name; };
  while (std::any_of(profile.layers.begin(), profile.layers.end(), is_taken)) name += "'";
  profile.layers.insert(profile.layers.begin(), {.name = name,
                                                 .kind = "host",
                                                 .backward_us = all.optimizer_wait,
                                                 .forward_device_us = 0,
                                                 .backward_device_us = 0,
                                                 .forward_host_us = 0,
                                                 .backward_host_us = 0});
}

/// The rest of an iteration whose host runs ahead: it lasts as long as the longer of what the host and what
/// the GPU do. Nothing if that is not what was measured.
std::optional<core::ProfileIteration> running_ahead(const core::Profile& profile, const Measured& all) {
  constexpr double kTolerance = 0.02;
  const double host = std::min(all.host, all.length);
  const double rest = host - host_of_layers_us(profile);
  const double optimizer = std::max(0.0, all.optimizer - all.optimizer_wait);
  const double other = all.device - device_us(profile) - optimizer;
  const double simulated =
      std::max(host, device_us(profile) + optimizer + std::max(0.0, other) + all.exposed());
  if (rest < 0 || std::abs(simulated - all.length) > kTolerance * all.length) return std::nullopt;
  return core::ProfileIteration{
      .optimizer_us = optimizer, .other_us = std::max(0.0, other), .host_us = rest, .synchronizes = false};
}

/// Whatever the layers and the update do not explain of an iteration without communication is other work.
core::ProfileIteration rest_of(const core::Profile& profile, const Measured& all) {
  const bool has_launch = !profile.layers.empty() && is_launch_of_update(profile.layers.front());
  const double optimizer = all.optimizer - (has_launch ? all.optimizer_wait : 0);
  const double explained = core::forward_us(profile) + core::backward_us(profile) + optimizer;
  return {.optimizer_us = optimizer, .other_us = std::max(0.0, all.alone - explained)};
}

/// What the GPU waits for launches in an iteration, beyond the medians of the layers' waits, is theirs in
/// proportion: medians of noisy waits add up to less than the median of their sum. Otherwise it would count
/// as other work, which no other way of launching saves. What the host does between iterations stays there.
void lengthen_waits(core::Profile& profile, const Measured& all) {
  const core::ProfileIteration rest = rest_of(profile, all);
  const double busy = std::max(0.0, all.device - device_us(profile) - rest.optimizer_us);
  double waits = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    if (!is_launch_of_update(layer))
      waits += wait_of(layer.forward_us, layer.forward_device_us) +
               wait_of(layer.backward_us, layer.backward_device_us);
  const double missing = std::min(rest.other_us - busy, all.wait - all.optimizer_wait - waits);
  if (missing <= 0 || waits <= 0) return;
  for (core::ProfileLayer& layer : profile.layers) {
    if (is_launch_of_update(layer)) continue;
    layer.forward_us += wait_of(layer.forward_us, layer.forward_device_us) * missing / waits;
    const double before = layer.backward_us;
    layer.backward_us += wait_of(layer.backward_us, layer.backward_device_us) * missing / waits;
    if (before <= 0) continue;
    for (core::ProfileTensor& tensor : layer.tensors)
      if (tensor.backward_us) *tensor.backward_us *= layer.backward_us / before;
  }
}

/// The rest of an iteration in which the host waits for the GPU once. Nothing if the layers do not take
/// beside such a host what was measured, for example because it waits amid a pass.
///
/// The update's own kernels hide most of its launches. So the host needs for the launch of the update what
/// makes the device wait as long as it did.
std::optional<core::ProfileIteration> synchronizing(core::Profile& profile, const Measured& all) {
  constexpr double kTolerance = 0.02;
  const double measured = core::forward_us(profile) + core::backward_us(profile);
  core::Profile beside = profile;
  beside.iteration = core::ProfileIteration{.host_us = 0};
  beside = core::with_host_stream(std::move(beside));
  const double layers = core::forward_us(beside) + core::backward_us(beside);
  double update = 0;
  if (core::ProfileLayer& first = profile.layers.front(); is_launch_of_update(first)) {
    update = first.backward_us;
    first.backward_host_us = std::max(0.0, layers - host_of_layers_us(profile)) + update;
  }
  if (std::abs(layers + update - measured) > kTolerance * all.length) return std::nullopt;
  core::ProfileIteration out = rest_of(profile, all);
  out.host_us = std::max(0.0, all.host - host_of_layers_us(profile));
  return out;
}

/// Adds what an iteration does besides its layers, with the host's stream where one explains what was
/// measured. Layers whose medians do not add up to what all take in an iteration are scaled to it.
/// `is_alone`: a GPU that waits for nothing but the host, as no collective runs.
void add_rest(core::Profile& profile, const Measured& all, bool is_alone) {
  if (all.knows_host) {
    if (!all.synchronizes) profile.iteration = running_ahead(profile, all);
    if (profile.iteration) return;
  }
  const double layers = core::forward_us(profile) + core::backward_us(profile);
  add_launch_of_update(profile, all);
  if (all.knows_host && all.synchronizes) {
    profile.iteration = synchronizing(profile, all);
    if (profile.iteration) return;
  }
  forget_host(profile);
  const double left = all.alone - all.optimizer;
  // The medians of noisy parts add up to less than the median of their sum, rarely to more.
  const double device = device_us(profile);
  const double whole = std::min(left, device > 0 ? layers * std::max(1.0, all.layers / device) : layers);
  if (layers > 0 && whole > 0 && whole != layers) {
    for (core::ProfileLayer& layer : profile.layers)
      if (!is_launch_of_update(layer)) scale(layer, whole / layers);
  }
  if (is_alone) lengthen_waits(profile, all);
  profile.iteration = rest_of(profile, all);
}

/// The parts add up to the length.
std::string iteration_text(const core::Profile& profile, const Measured& all, const Calls& calls,
                           const UsedSteps& used, bool on_host) {
  double forward = 0;
  double backward = 0;
  for (const core::ProfileLayer& layer : profile.layers) {
    forward += layer.forward_device_us.value_or(layer.forward_us);
    backward += layer.backward_device_us.value_or(layer.backward_us);
  }
  const double optimizer = std::max(0.0, all.optimizer - all.optimizer_wait);
  const double other = std::max(0.0, all.device - forward - backward - optimizer);
  const double waits = all.length - forward - backward - optimizer - other - all.exposed();
  return fmt::format(
      "an iteration takes {:.3f} ms (median of {}: {}; spread {:.3f}): forward {:.3f}, backward {:.3f}, "
      "optimizer {:.3f}, other {:.3f}, exposed communication {:.3f}, {} {:.3f} ms",
      all.length / 1e3, core::counted(static_cast<std::int64_t>(used.measured.size()), "step"),
      numbers_text(calls.steps, used.measured), spread(used.lengths_us) / 1e3, forward / 1e3, backward / 1e3,
      optimizer / 1e3, other / 1e3, all.exposed() / 1e3,
      on_host ? "between operators" : "waiting for the host", waits / 1e3);
}

/// Empty if the GPU hardly waits for launches: the profiler takes time for each (docs/gpu.md).
std::string slowed_text(const core::Profile& profile, const Measured& all) {
  constexpr double kMatters = 0.2;
  const double share = all.length > 0 ? all.wait / all.length : 0;
  if (!profile.iteration || share <= kMatters) return "";
  return fmt::format(
      "the GPU waits for launches in {:.0f} % of an iteration: the profiler makes them slower, so the job is "
      "faster without it",
      100 * share);
}

std::string host_text(const core::Profile& profile, const Measured& all, bool on_host) {
  if (!all.knows_host)
    return on_host
               ? "operators compute on the CPU itself: layers take what they took, with the time between them"
               : "the trace does not hold what the host does in an iteration: layers take what they took, "
                 "with "
                 "their waits";
  if (!profile.iteration->host_us)
    return "the host's stream does not explain the iterations: layers take what they took, with their waits";
  return fmt::format(
      "the host takes {:.3f} ms of an iteration itself, {:.3f} ms of it to launch layers; it {}",
      all.host / 1e3, host_of_layers_us(profile) / 1e3,
      profile.iteration->synchronizes ? "waits for the GPU in every iteration" : "runs ahead of the GPU");
}

std::vector<double> lengths_of(const std::vector<Iteration>& iterations) {
  std::vector<double> out;
  out.reserve(iterations.size());
  for (const Iteration& each : iterations) out.push_back(each.length_us);
  return out;
}

std::vector<double> of_steps(const std::vector<double>& all, const std::vector<std::int32_t>& steps) {
  std::vector<double> out;
  out.reserve(steps.size());
  for (const std::int32_t step : steps) out.push_back(all[static_cast<std::size_t>(step)]);
  return out;
}

void add_backward(Layers& found, const traces::ImportOptions& options) {
  for (core::ProfileLayer& layer : found.layers) {
    layer.backward_us = layer.forward_us / options.forward_ratio;
    layer.backward_device_us = layer.backward_us;
    if (layer.forward_device_us) layer.backward_device_us = *layer.forward_device_us / options.forward_ratio;
  }
}

std::string steps_text(const Calls& calls, const UsedSteps& used) {
  if (!calls.has_steps && calls.steps.size() < 2)
    return "no step markers: the whole trace is taken for one iteration";
  const std::string which =
      used.steps.size() == used.alike
          ? "alike and used"
          : fmt::format("alike; {} of these are used, as the length of the others is not known",
                        used.steps.size());
  std::size_t markers = 0;
  for (const Step& step : calls.steps) markers += step.markers;
  const std::string found =
      calls.has_steps      ? ""
      : calls.updates == 1 ? "no step markers, iterations were told apart by their updates: "
                           : fmt::format("no step markers, iterations of {} updates each: ", calls.updates);
  return fmt::format("{}{} steps{}, {} with layers, {} of them {}", found, calls.steps.size(),
                     markers > calls.steps.size() ? fmt::format(" of {} markers", markers) : "",
                     used.with_layers, used.alike, which);
}

/// Empty if the trace marks its steps, or nothing says that an iteration of the user is not one update.
std::string ambiguous_text(const Calls& calls, const std::vector<Iteration>& iterations) {
  constexpr std::string_view kMark =
      "mark iterations to say which they are (torch.profiler's step(), or ranges and --step NAME)";
  if (calls.has_steps) return "";
  if (calls.updates > 1)
    return fmt::format(
        "without step markers, {} updates are taken for an iteration, as what they do repeats "
        "after so many; {}",
        calls.updates, kMark);
  if (calls.has_ambiguous_updates)
    return fmt::format(
        "without step markers, one update is taken for an iteration, but updates differ in "
        "their gradients; {}",
        kMark);
  if (const std::size_t period = period_of(lengths_of(iterations)); period > 1)
    return fmt::format(
        "without step markers, one update is taken for an iteration, but what they take "
        "repeats after {} of them; {}",
        period, kMark);
  return "";
}

/// Empty if the median of all steps is known well: its standard error is that of normal noise.
std::string uncertain_text(const UsedSteps& used) {
  constexpr double kMatters = 0.05;
  const auto count = static_cast<double>(used.lengths_us.size());
  const double error_us = 0.93 * spread(used.lengths_us) / std::sqrt(std::max(1.0, count));
  if (used.lengths_us.size() < 2 || error_us <= kMatters * used.median_us()) return "";
  const auto [least, most] = std::minmax_element(used.lengths_us.begin(), used.lengths_us.end());
  return fmt::format(
      "steps take {:.3f} to {:.3f} ms, so that their median, {:.3f} ms, is uncertain by {:.0f} %: trace more "
      "of them",
      *least / 1e3, *most / 1e3, used.median_us() / 1e3, 100 * error_us / used.median_us());
}

/// Empty if the steps that are used stand for the others.
std::string difference_text(const UsedSteps& used) {
  if (!used.differs()) return "";
  return fmt::format(
      "steps differ from one another: the profile is made of {} of {}, which take {:.3f} ms, and scaled to "
      "the "
      "median of all, {:.3f} ms",
      used.steps.size(), used.lengths_us.size(), used.used_us / 1e3, used.median_us() / 1e3);
}

std::string communication_text(const Communication& communication, const UsedSteps& used, bool on_host) {
  const std::string_view kind = on_host ? "collectives" : "NCCL kernels";
  if (communication.kernels == 0)
    return fmt::format("no {}: communication cannot be measured from this trace", kind);
  return fmt::format(
      "{} {}, {} of them other than all-reduce, reduce-scatter and all-gather, {} without a known "
      "size or group; in an iteration communication runs for {:.3f} ms",
      communication.kernels, kind, communication.other_kinds, communication.without_size,
      median(of_steps(communication.busy_us, used.steps)) / 1e3);
}

/// The shortest kernel of each size, as a network.
std::optional<core::Network> network_of(const Trace& trace, const Communication& communication,
                                        const traces::ImportOptions& options) {
  if (communication.series.empty()) return std::nullopt;
  core::Network out =
      traces::network_of({.source = fmt::format("PyTorch profiler trace, the shortest {} of each size, which "
                                                "waited least for other ranks",
                                                computes_on_host(trace) ? "collective" : "NCCL kernel"),
                          .series = communication.series},
                         options.network_name.empty() ? stem(trace.path) : options.network_name);
  if (options.line_rate_gbps > 0) out.line_rate_gbps = options.line_rate_gbps;
  return core::read_network(core::Field::parse(core::network_text(out), core::one_line(trace.path)));
}

/// Assumptions about the curves, and which process groups they leave out.
std::vector<std::string> network_warnings(const Communication& communication) {
  std::vector<std::string> out = traces::curve_warnings(communication.series);
  if (!communication.groups.empty() && !communication.other_groups.empty())
    out.push_back(fmt::format("the network is that of process group {}; --group NAME takes another: {}",
                              fmt::join(communication.groups, " and "),
                              fmt::join(communication.other_groups, ", ")));
  return out;
}

/// The most frequent buckets: the first step also holds those that were launched before the trace began.
std::vector<std::int64_t> usual_buckets(const std::vector<std::vector<Bucket>>& by_step,
                                        const std::vector<std::int32_t>& steps) {
  std::map<std::vector<std::int64_t>, int> uses;
  for (const std::int32_t step : steps) {
    std::vector<std::int64_t> elements;
    for (const Bucket& bucket : by_step[static_cast<std::size_t>(step)]) elements.push_back(bucket.elements);
    ++uses[elements];
  }
  const auto most = std::max_element(uses.begin(), uses.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == uses.end() ? std::vector<std::int64_t>() : most->first;
}

/// A file that is cut off has to hold a step whose work was not lost.
void check_whole_step(const Trace& trace, const Calls& calls) {
  if (!trace.is_cut_off) return;
  const auto is_whole = [&](const Work& work) {
    return work.role == Role::forward && work.step >= 0 &&
           calls.steps[static_cast<std::size_t>(work.step)].first_lost_ns == INT64_MAX;
  };
  if (std::none_of(calls.work.begin(), calls.work.end(), is_whole))
    refuse(trace, "a whole step", fmt::format("a file that is cut off after {} events", trace.events));
}

Trace trace_with_kernels(const std::string& path, const traces::ImportOptions& options) {
  Trace trace = read_trace(path);
  if (trace.world_size == 0) trace.world_size = options.workers;
  check_has_kernels(trace);
  return trace;
}

struct Assumptions {
  std::string sizes;       ///< of gradients
  bool gradients = false;  ///< see add_assumed_gradients()
  bool buckets = false;    ///< see add_bucket_sizes()
  bool tensors = false;
  bool backward = false;
  bool batch = false;
};

std::string origin_of(const Trace& trace, const Calls& calls, const UsedSteps& used,
                      const Assumptions& assumed, const traces::ImportOptions& options) {
  std::string out = fmt::format(
      "PyTorch profiler trace {}; times of {}; {}", std::filesystem::path(trace.path).filename().string(),
      computes_on_host(trace) ? "operators on the CPU, with the time between them"
                              : "the GPU, with its waits for kernels to be launched",
      steps_text(calls, used));
  for (const std::string& more : {difference_text(used), assumed.sizes})
    if (!more.empty()) out += "; " + more;
  if (assumed.gradients) out += fmt::format("; {}", kAssumedGradients);
  if (assumed.buckets) out += fmt::format("; {}", kAssumedBuckets);
  if (assumed.tensors)
    out +=
        "; ASSUMED, as the trace holds no shapes: parameters are what was copied to the device before the "
        "first layer, in that order";
  if (assumed.batch) out += "; ASSUMED, as the trace holds no batch size: 1 sample";
  if (assumed.backward)
    out += fmt::format("; ASSUMED, as the trace holds no backward pass: forward takes {} of backward",
                       options.forward_ratio);
  return out;
}

/// A trace, and what was found in it.
struct Recording {
  Trace trace;
  Calls calls;
  core::Dtype dtype = core::Dtype::float32;
  std::int64_t micro_batches = 1;
  std::int64_t samples = 0;  ///< of an iteration; 0: not known
  Assumptions assumed;
  std::vector<Iteration> all;  ///< of each step
  UsedSteps used;
  Layers found;
  Measured iterations;
  Communication communication;
  bool on_host() const { return computes_on_host(trace); }
};

Recording recording(const std::string& path, const traces::ImportOptions& options, std::string_view step) {
  Recording out;
  Trace& trace = out.trace = trace_with_kernels(path, options);
  Calls& calls = out.calls = find_calls(trace, step);
  check_whole_step(trace, calls);
  out.dtype = options.dtype.value_or(gradient_dtype(trace, calls));
  out.micro_batches = keep_last_micro_batches(calls);
  out.assumed.gradients = add_assumed_gradients(trace, calls);
  if (out.assumed.gradients && !options.parameters.empty())
    refuse(trace, "AccumulateGrad operators, to give the parameters of --model their places in backward",
           "none");
  out.assumed.sizes = find_gradient_sizes(trace, calls, options.parameters);
  out.assumed.buckets = add_bucket_sizes(trace, calls);
  const std::vector<HostIteration> host = add_host_times(trace, calls);
  out.all = find_iterations(trace, calls, host);
  out.used = choose_steps(calls, lengths_of(out.all));
  out.found = find_layers(trace, calls, out.used.steps);
  out.communication = find_communication(trace, calls);
  return out;
}

void check_has_time(const Recording& recording) {
  const bool has_time =
      std::any_of(recording.found.layers.begin(), recording.found.layers.end(),
                  [](const auto& layer) { return layer.forward_us > 0 || layer.backward_us > 0; });
  if (!has_time)
    refuse(recording.trace, "operators with GPU time",
           recording.trace.has_graphs
               ? "none, as whole steps run as CUDA graphs; record the trace without them"
               : "none; record operators and launches too: torch.profiler.ProfilerActivity.CPU");
}

/// Assumes what the trace does not hold, or refuses it.
void complete(Recording& recording, const traces::ImportOptions& options) {
  const Trace& trace = recording.trace;
  Layers& found = recording.found;
  Assumptions& assumed = recording.assumed;
  const bool has_tensors = std::any_of(found.layers.begin(), found.layers.end(),
                                       [](const auto& layer) { return !layer.tensors.empty(); });
  if (!has_tensors) {
    assumed.tensors = add_copied_tensors(trace, recording.calls, recording.dtype, found.layers);
    if (!assumed.tensors && found.has_backward)
      refuse(trace, "AccumulateGrad operators in the backward pass, which say when each gradient is ready",
             "none, as in a backward pass that compiled autograd runs");
    if (!assumed.tensors)
      refuse(trace, "gradients (a backward pass in a trace made with record_shapes=True)", "none");
  }
  if (!found.has_backward) {
    if (!(options.forward_ratio > 0))
      refuse(trace, "a backward pass, or a --forward-ratio above 0 to assume one", "neither");
    assumed.backward = true;
    add_backward(found, options);
  }
  if (options.tensors == traces::Grouping::layer)
    for (core::ProfileLayer& layer : found.layers) traces::merge_tensors(layer);
  recording.samples =
      batch_size(trace, recording.calls, options) * (options.batch_size > 0 ? 1 : recording.micro_batches);
  assumed.batch = recording.samples == 0;
}

core::Profile profile_of(const Recording& recording, const traces::ImportOptions& options) {
  const Trace& trace = recording.trace;
  core::Profile out = {
      .model = options.model.empty() ? stem(trace.path) : options.model,
      .batch_size = std::max<std::int64_t>(1, recording.samples),
      .dtype = recording.dtype,
      .device = !options.device.empty() ? options.device
                : trace.device.empty()  ? "unknown GPU"
                                        : trace.device,
      .origin = {.kind = core::OriginKind::measured,
                 .source = origin_of(trace, recording.calls, recording.used, recording.assumed, options)},
      .layers = recording.found.layers};
  if (recording.assumed.backward)
    forget_host(out);
  else
    add_rest(out, recording.iterations, recording.communication.kernels == 0 && !recording.on_host());
  return core::read_profile(core::Field::parse(core::profile_text(out), core::one_line(trace.path)));
}

double attributed_share(const Shares& shares) {
  const double whole = sum(shares);
  return whole > 0 ? 1 - shares[static_cast<std::size_t>(Role::other)] / whole : 0;
}

std::vector<std::string> account_of(const Recording& recording, const core::Profile& profile) {
  const bool on_host = recording.on_host();
  const Shares shares = time_by_role(recording.trace, recording.calls);
  const double whole = sum(shares);
  std::vector<std::string> out = {
      fmt::format("{} events, {:.3f} ms of {} time, {:.2f} % of it attributed", recording.trace.events, whole,
                  on_host ? "CPU" : "GPU", 100 * attributed_share(shares)),
      role_text(shares, whole) + largest_other(recording.calls), steps_text(recording.calls, recording.used),
      communication_text(recording.communication, recording.used, on_host)};
  if (profile.iteration) {
    out.push_back(iteration_text(profile, recording.iterations, recording.calls, recording.used, on_host));
    out.push_back(host_text(profile, recording.iterations, on_host));
  }
  const Layers& found = recording.found;
  if (found.has_backward && found.without_backward > 0)
    out.push_back(fmt::format("{} of {} layers have no backward pass in the trace", found.without_backward,
                              found.layers.size()));
  return out;
}

std::string lacking_text(const Recording& recording) {
  constexpr double kUsualShare = 0.9;  // real traces have 0.99
  const double share = attributed_share(time_by_role(recording.trace, recording.calls));
  if (share >= kUsualShare) return "";
  return fmt::format(
      "the layers lack much: {:.0f} % of the {} time belongs to no layer, update, collective or copy; "
      "operators of backward belong to layers by their sequence numbers",
      100 * (1 - share), recording.on_host() ? "CPU" : "GPU");
}

std::string micro_batches_text(const Recording& recording) {
  if (recording.micro_batches <= 1) return "";
  return fmt::format(
      "gradients are accumulated over {} micro-batches: the layers are those of the last, and the others are "
      "among the iteration's other work{}",
      recording.micro_batches,
      sums_earlier_batches(recording.trace, recording.calls)
          ? ", as measured, with the communication of their gradients that nothing hides: every micro-batch "
            "sends its own (as DDP does without no_sync())"
          : "");
}

/// Empty if iterations of the GPU last as long as their markers, which the host writes.
std::string markers_text(const Recording& recording) {
  constexpr double kMatters = 0.05;
  const std::vector<Step>& steps = recording.calls.steps;
  const StepGaps gaps(steps, recording.calls.has_steps);
  std::vector<double> apart_us;
  for (std::size_t at = 0; at < steps.size(); ++at)
    if (gaps.has_next(at))
      apart_us.push_back(static_cast<double>(steps[at + 1].start_ns - steps[at].start_ns) / 1e3);
  const double markers_us = median(apart_us);
  const double us = recording.used.median_us();
  if (!recording.calls.has_steps || apart_us.empty() || std::abs(markers_us - us) <= kMatters * us) return "";
  return fmt::format(
      "step markers are {:.3f} ms apart in the median, and iterations on the GPU take {:.3f} ms: the host is "
      "ahead of the GPU, or catches up, in steps as few as these",
      markers_us / 1e3, us / 1e3);
}

std::vector<std::string> warnings_of(const Recording& recording, const core::Profile& profile,
                                     const traces::ImportOptions& options) {
  const Assumptions& assumed = recording.assumed;
  std::vector<std::string> out = dropped_text(recording.trace);
  const auto add = [&](bool applies, std::string text) {
    if (applies && !text.empty()) out.push_back(std::move(text));
  };
  add(recording.trace.several_processes,
      "several processes launch kernels, so that their layers and gradients are added up: give import one "
      "file for each rank");
  add(assumed.backward,
      fmt::format("the trace holds no backward pass: forward is taken for {} of it", options.forward_ratio));
  add(assumed.batch,
      "the trace holds no batch size (--batch N): 1 is assumed, so throughput counts iterations");
  add(true, lacking_text(recording));
  add(recording.communication.without_group > 0,
      fmt::format("the trace does not say how many ranks ran {} of its collectives (--workers N): these make "
                  "no network",
                  recording.communication.without_group));
  add(true, micro_batches_text(recording));
  add(true, ambiguous_text(recording.calls, recording.all));
  add(true, uncertain_text(recording.used));
  add(!recording.on_host(), markers_text(recording));
  add(true, difference_text(recording.used));
  add(true, assumed.sizes);
  add(!recording.on_host(), slowed_text(profile, recording.iterations));
  add(assumed.gradients, std::string(kAssumedGradients));
  add(assumed.buckets, std::string(kAssumedBuckets));
  add(assumed.tensors,
      "the trace holds no shapes: parameters are taken to be what was copied to the device first");
  return out;
}

}  // namespace

ImportedNetwork import_network(const std::string& path, const traces::ImportOptions& options) {
  Trace trace = trace_with_kernels(path, options);
  const Calls calls = find_calls(trace, kProfilerStep);
  const Communication communication = find_communication(trace, calls);
  const std::optional<core::Network> network = network_of(trace, communication, options);
  if (!network)
    refuse(trace, "collectives of known sizes and numbers of ranks (--workers N), to write a network",
           "none");
  std::vector<std::string> warnings = dropped_text(trace);
  for (const std::string& warning : network_warnings(communication)) warnings.push_back(warning);
  return {.network = *network, .warnings = std::move(warnings)};
}

void take_for_waiting(Imported& imported, double us) {
  if (!imported.profile.iteration) return;
  const double taken = std::min(us, imported.profile.iteration->other_us);
  imported.profile.iteration->other_us -= taken;
  imported.exposed_us += taken;
}

double exposed_waiting_us(const Imported& imported, double us) {
  const double all_us = imported.exposed_us + imported.exposed_before_us;
  return all_us > 0 ? std::min(us * imported.exposed_us / all_us, imported.exposed_us) : 0;
}

Imported import_trace(const std::string& path, const traces::ImportOptions& options, std::string_view step) {
  Recording found = recording(path, options, step);
  check_has_time(found);
  complete(found, options);
  Measured& iterations = found.iterations;
  iterations = measured(of_steps(found.all, found.used.steps), !found.on_host());
  if (!(iterations.length > 0)) refuse(found.trace, "a step that takes longer than 0 us", "none");
  scale(iterations, found.found.layers, found.used.median_us());
  Imported out = {
      .profile = profile_of(found, options),
      .network = network_of(found.trace, found.communication, options),
      .iteration_us = iterations.length,
      .computing_us = iterations.layers + std::max(0.0, iterations.optimizer - iterations.optimizer_wait),
      .exchange_us = iterations.exchange,
      .exposed_us = iterations.exposed(),
      .exposed_before_us = iterations.exposed_before,
      .buckets = usual_buckets(buckets_of(found.trace, found.calls), found.used.steps),
      .computes_on_host = found.on_host(),
      .gathers = found.communication.gathers,
      .curve_warnings = network_warnings(found.communication)};
  if (out.gathers == core::Gathers::for_forward || out.gathers == core::Gathers::for_forward_and_backward)
    out.sharded = sharded_groups(found.trace, found.calls, found.used.steps, found.found.layers);
  out.account = account_of(found, out.profile);
  out.warnings = warnings_of(found, out.profile, options);
  return out;
}

}  // namespace kineto
