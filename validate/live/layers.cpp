#include "validate/live/layers.hpp"

#include <chrono>
#include <optional>
#include <vector>

#include "profiler/common/samples.hpp"
#include "profiler/cpu/executor.hpp"
#include "profiler/cpu/instruction_sets.hpp"
#include "profiler/layers/work.hpp"
#include "transport/bytes.hpp"
#include "transport/collectives.hpp"
#include "validate/live/parcel.hpp"

namespace live {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

}  // namespace

struct CpuLayers::Running {
  explicit Running(const RealLayers& layers)
      : model(layers.model),
        work(profiler::make_work(model)),
        executor(work, layers.batch_size, 1, profiler::instruction_sets().front()) {
    for (const profiler::LayerWork& layer : work.layers)
      if (layer.is_measured()) measured.push_back(layer.index);
  }

  models::Model model;
  profiler::ModelWork work;
  std::vector<std::size_t> measured;  ///< by layer of the profile
  profiler::CpuExecutor executor;
};

CpuLayers::CpuLayers(const RealLayers& layers) : running_(std::make_unique<Running>(layers)) {}
CpuLayers::~CpuLayers() = default;

/// What moves and computes nothing runs with the next layer that is listed.
void CpuLayers::forward(std::uint32_t layer) {
  const std::size_t from = layer == 0 ? 0 : running_->measured[layer - 1] + 1;
  const bool is_last = layer + 1 == running_->measured.size();
  const std::size_t to = is_last ? running_->work.layers.size() : running_->measured[layer] + 1;
  for (std::size_t i = from; i < to; ++i) running_->executor.forward(i);
}

void CpuLayers::backward(std::uint32_t layer) {
  const std::size_t from = layer == 0 ? 0 : running_->measured[layer - 1] + 1;
  const bool is_last = layer + 1 == running_->measured.size();
  std::size_t i = is_last ? running_->work.layers.size() : running_->measured[layer] + 1;
  while (i-- > from) running_->executor.backward(i);
}

LayerWork CpuLayers::work() {
  return {.forward = [this](std::uint32_t layer) { forward(layer); },
          .backward = [this](std::uint32_t layer) { backward(layer); }};
}

namespace {

traces::Profile profile_of_work(const profiler::ModelWork& work, std::int64_t batch) {
  traces::Profile out = {.model = work.model->name,
                         .batch_size = batch,
                         .dtype = traces::Dtype::float32,
                         .device = "this machine's processors, all workers that compute at once",
                         .origin = {.kind = traces::OriginKind::measured, .source = "fusewise validate"},
                         .layers = {}};
  for (const profiler::LayerWork& layer : work.layers) {
    if (!layer.is_measured()) continue;
    traces::ProfileLayer& into = out.layers.emplace_back();
    into.name = layer.layer->name;
    into.kind = std::string(models::name(layer.layer->kind));
    for (const models::Tensor& tensor : layer.layer->tensors)
      into.tensors.push_back({.name = tensor.name, .elements = tensor.elements});
  }
  return out;
}

}  // namespace

traces::Profile profile_of(const RealLayers& layers) {
  traces::Profile out = profile_of_work(profiler::make_work(layers.model), layers.batch_size);
  for (traces::ProfileLayer& layer : out.layers) layer.forward_us = layer.backward_us = 1;
  return out;
}

traces::Profile measured_layers(transport::Transport& transport, const Wishes& wishes,
                                std::uint32_t repetitions) {
  const RealLayers& real = *wishes.layers;
  traces::Profile out = profile_of(real);
  const std::size_t count = out.layers.size();
  std::optional<CpuLayers> layers;
  if (real.are_run_by(transport.rank())) layers.emplace(real);
  constexpr std::uint32_t kWarmUp = 2;
  std::vector<std::vector<double>> times(2 * count);  // forward, then backward
  for (std::uint32_t i = 0; i < kWarmUp + repetitions; ++i) {
    transport::barrier(transport, tag_of(Tag::barrier));
    std::vector<double> own(2 * count);
    for (std::uint32_t layer = 0; layers && layer < count; ++layer) {
      const Clock::time_point begun = Clock::now();
      layers->forward(layer);
      own[layer] = us_since(begun);
    }
    for (auto layer = static_cast<std::uint32_t>(count); layers && layer-- > 0;) {
      const Clock::time_point begun = Clock::now();
      layers->backward(layer);
      own[count + layer] = us_since(begun);
    }
    for (std::uint32_t rank = 0; rank < transport.size(); ++rank)
      if (rank != transport.rank()) transport.send(rank, tag_of(Tag::record), transport::to_bytes(own));
    std::vector<std::vector<double>> all(transport.size(), std::vector<double>(2 * count));
    for (std::uint32_t rank = 0; rank < transport.size(); ++rank)
      if (rank == transport.rank())
        all[rank] = own;
      else
        transport::from_bytes<double>(transport.recv(rank, tag_of(Tag::record)), all[rank]);
    for (std::uint32_t each = 0; each < all.size() && i >= kWarmUp; ++each)
      for (std::size_t t = 0; real.are_run_by(each) && t < 2 * count; ++t) times[t].push_back(all[each][t]);
  }
  for (std::size_t layer = 0; layer < count; ++layer) {
    out.layers[layer].forward_us = profiler::summary(times[layer]).median;
    out.layers[layer].backward_us = profiler::summary(times[count + layer]).median;
  }
  return out;
}

}  // namespace live
