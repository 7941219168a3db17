#include "validate/live/layers.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "profiler/layers/backend.hpp"
#include "profiler/layers/work.hpp"
#include "profiler/measure/backend.hpp"
#include "profiler/measure/overlap/overlap.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/gradients.hpp"

namespace live {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

}  // namespace

struct RunningLayers::Running {
  explicit Running(const RealLayers& layers)
      : model(layers.model), work(profiler::make_work(model)), is_on_cpu(layers.backend == "cpu") {
    const auto backend = std::ranges::find(profiler::backends(), layers.backend, &profiler::Backend::name);
    const profiler::SessionOptions spec = {.batch_size = layers.batch_size};
    backend->check(spec);
    session = backend->open(work, spec);
    for (const profiler::LayerWork& layer : work.layers)
      if (layer.is_measured()) measured.push_back(layer.index);
  }

  /// Layers without measured work run with the next listed layer.
  std::size_t from(std::uint32_t layer) const { return layer == 0 ? 0 : measured[layer - 1] + 1; }
  std::size_t to(std::uint32_t layer) const {
    return layer + 1 == measured.size() ? work.layers.size() : measured[layer] + 1;
  }

  core::Model model;
  profiler::ModelWork work;
  std::vector<std::size_t> measured;  ///< by layer of the profile
  bool is_on_cpu = true;
  std::unique_ptr<profiler::Session> session;
};

RunningLayers::RunningLayers(const RealLayers& layers) : running_(std::make_unique<Running>(layers)) {}
RunningLayers::~RunningLayers() = default;

void RunningLayers::forward(std::uint32_t layer) {
  running_->session->forward(running_->from(layer), running_->to(layer));
}

void RunningLayers::backward(std::uint32_t layer) {
  running_->session->backward(running_->from(layer), running_->to(layer));
}

void RunningLayers::wake_device() {
  if (running_->is_on_cpu) return;
  running_->session->forward(0, running_->work.layers.size());
  running_->session->backward(0, running_->work.layers.size());
}

LayerWork RunningLayers::work() {
  return {.forward = [this](std::uint32_t layer) { forward(layer); },
          .backward = [this](std::uint32_t layer) { backward(layer); },
          .wake_device = [this] { wake_device(); }};
}

namespace {

core::Profile profile_of_work(const profiler::ModelWork& work, const RealLayers& layers) {
  const bool is_gpu = layers.backend != "cpu";
  core::Profile out = {.model = work.model->name,
                       .batch_size = layers.batch_size,
                       .dtype = core::Dtype::float32,
                       .device = is_gpu ? "GPUs, all workers that compute at once"
                                        : "this machine's processors, all workers that compute at once",
                       .origin = {.kind = core::OriginKind::measured, .source = "fusewise validate"},
                       .layers = {}};
  for (const profiler::LayerWork& layer : work.layers) {
    if (!layer.is_measured()) continue;
    core::ProfileLayer& into = out.layers.emplace_back();
    into.name = layer.layer->name;
    into.kind = std::string(core::name(layer.layer->kind));
    for (const core::Tensor& tensor : layer.layer->tensors)
      into.tensors.push_back({.name = tensor.name, .elements = tensor.elements, .shape = tensor.shape});
  }
  return out;
}

}  // namespace

void order_tensors(core::Profile& profile, const std::vector<std::string>& backward_order) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < backward_order.size(); ++i) places.emplace(backward_order[i], i);
  const auto place = [&](const auto& tensor) {
    const auto found = places.find(tensor.name);
    return found == places.end() ? places.size() : found->second;
  };
  for (core::ProfileLayer& layer : profile.layers)
    std::ranges::stable_sort(layer.tensors,
                             [&](const auto& a, const auto& b) { return place(a) > place(b); });
}

core::Profile profile_of(const RealLayers& layers) {
  core::Profile out = profile_of_work(profiler::make_work(layers.model), layers);
  for (core::ProfileLayer& layer : out.layers) layer.forward_us = layer.backward_us = 1;
  return out;
}

namespace {

std::vector<std::string> backward_order(const core::Profile& profile) {
  std::vector<std::string> out;
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer)
    for (auto tensor = layer->tensors.rbegin(); tensor != layer->tensors.rend(); ++tensor)
      out.push_back(tensor->name);
  return out;
}

/// The times of every layer's forward pass, followed by those of every backward pass; zeros if layers are
/// only waited for.
std::vector<double> timed_iteration(RunningLayers* layers, std::size_t count) {
  std::vector<double> times(2 * count);
  for (std::uint32_t layer = 0; layers != nullptr && layer < count; ++layer) {
    const Clock::time_point begun = Clock::now();
    layers->forward(layer);
    times[layer] = us_since(begun);
  }
  for (auto layer = static_cast<std::uint32_t>(count); layers != nullptr && layer-- > 0;) {
    const Clock::time_point begun = Clock::now();
    layers->backward(layer);
    times[count + layer] = us_since(begun);
  }
  return times;
}

std::vector<std::vector<double>> exchange_times(transport::Transport& transport,
                                                const std::vector<double>& own) {
  for (std::uint32_t rank = 0; rank < transport.size(); ++rank)
    if (rank != transport.rank()) transport.send(rank, tag_of(Tag::record), transport::to_bytes(own));
  std::vector<std::vector<double>> all(transport.size(), std::vector<double>(own.size()));
  for (std::uint32_t rank = 0; rank < transport.size(); ++rank)
    if (rank == transport.rank())
      all[rank] = own;
    else
      transport::recv_into<double>(transport, rank, tag_of(Tag::record), all[rank]);
  return all;
}

std::int64_t gradient_elements(const core::Profile& profile) {
  std::int64_t out = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) out += tensor.elements;
  return out;
}

/// The maximum overlap over all computing workers, as all wait for the slowest.
planner::Overlap measured_overlap(transport::Transport& transport, const RealLayers& real,
                                  RunningLayers* layers, measure::Engine& engine,
                                  const core::Profile& profile) {
  constexpr std::int64_t kAllReduce = 1 << 18;  // some overlap an iteration only partly
  double iteration_us = 0;
  for (const core::ProfileLayer& layer : profile.layers) iteration_us += layer.forward_us + layer.backward_us;
  const auto compute = [&] {
    const Clock::time_point begun = Clock::now();
    if (layers != nullptr)
      (void)timed_iteration(layers, profile.layers.size());
    else
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(iteration_us));
    return us_since(begun);
  };
  const std::vector<profiler::OverlapSamples> all = profiler::measure_overlap(
      transport, engine, compute, {.bytes = std::min(kAllReduce, 4 * gradient_elements(profile))});
  planner::Overlap out;
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    if (!real.are_run_by(rank)) continue;
    out.compute_slowdown = std::max(out.compute_slowdown, all[rank].compute_slowdown());
    out.communication_slowdown = std::max(out.communication_slowdown, all[rank].communication_slowdown());
  }
  return out;
}

}  // namespace

LayerTimes measured_layers(transport::Transport& transport, measure::Engine& engine, const RunSpec& spec,
                           RunningLayers* layers, std::uint32_t repetitions) {
  const RealLayers& real = *spec.layers;
  LayerTimes out = {.profile = profile_of(real), .overlap = {}};
  order_tensors(out.profile, backward_order(spec.profile));
  const std::size_t count = out.profile.layers.size();
  const Gradients gradients(spec.seed, transport.size());
  std::vector<float> values(static_cast<std::size_t>(gradient_elements(out.profile)));
  const bool one_clock = share_clock(transport);
  constexpr std::uint32_t kWarmUp = 2;
  std::vector<std::vector<double>> times(2 * count);  // forward, then backward
  for (std::uint32_t i = 0; i < kWarmUp + repetitions; ++i) {
    // puts caches into the state before an iteration
    gradients.fill(Spread::wide, transport.rank(), i, 0, values);
    engine.load(values);
    engine.start(measure::Collective::all_reduce);
    engine.finish();
    transport::barrier(transport, tag_of(Tag::barrier));
    engine.store(values);
    const std::string fault = gradients.fault_of_sums(Spread::wide, i, 0, values);
    if (!fault.empty()) throw core::EnvironmentError("all-reduce before layers: " + fault);
    gradients.fill(Spread::wide, transport.rank(), i + 1, 0, values);
    if (layers != nullptr) layers->wake_device();
    transport::barrier(transport, tag_of(Tag::barrier));
    if (transport.rank() == 0) (void)loop_at_rest_us();
    std::this_thread::sleep_until(common_start(transport, one_clock));
    const auto all = exchange_times(transport, timed_iteration(layers, count));
    for (std::uint32_t each = 0; each < all.size() && i >= kWarmUp; ++each)
      for (std::size_t t = 0; real.are_run_by(each) && t < 2 * count; ++t) times[t].push_back(all[each][t]);
  }
  for (std::size_t layer = 0; layer < count; ++layer) {
    core::ProfileLayer& into = out.profile.layers[layer];
    into.forward_us = core::statistics(times[layer]).median;
    into.backward_us = core::statistics(times[count + layer]).median;
  }
  std::ranges::fill(values, 0.0F);
  out.overlap = measured_overlap(transport, real, layers, engine, out.profile);
  for (std::uint32_t buffer = 0; buffer < engine.keeps(); ++buffer) {
    engine.store(values);
    if (std::ranges::any_of(values, [](float value) { return value != 0; }))
      throw core::EnvironmentError("all-reduces beside layers: a sum of zeros is not 0");
  }
  return out;
}

}  // namespace live
