#include "profiler/layers/measure_profile.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/common/out_of_memory.hpp"

namespace profiler {
namespace {

std::string bytes_text(double bytes) {
  constexpr double kMega = 1e6;
  constexpr double kGiga = 1e9;
  return bytes < kGiga ? fmt::format("{:.1f} MB", bytes / kMega) : fmt::format("{:.1f} GB", bytes / kGiga);
}

void check_memory(const Backend& backend, const ModelWork& work, const ProfileOptions& options) {
  constexpr double kMaxAddressed = 0x1p47;
  const double max =
      std::min(backend.free_bytes().value_or(kMaxAddressed), options.max_bytes.value_or(kMaxAddressed));
  const double needed = backend.bytes(work, static_cast<double>(options.session.batch_size), options.session);
  if (needed <= max) return;
  const std::int64_t fits = largest_batch(backend, work, options.session, max);
  throw core::EnvironmentError(fmt::format(
      "{}: a batch of {} needs {} of memory, {} is available; {}", core::one_line(work.model->name),
      options.session.batch_size, bytes_text(needed), bytes_text(max),
      fits > 0 ? fmt::format("the largest batch that fits is {}", fits)
               : fmt::format("not even one sample fits, which needs {}",
                             bytes_text(backend.bytes(work, 1, options.session)))));
}

/// If less memory was available than reported as free, says what fits with a tenth of it to spare.
std::unique_ptr<Session> open(const Backend& backend, const ModelWork& work, const SessionOptions& options,
                              double bytes) {
  try {
    return backend.open(work, options);
  } catch (const OutOfMemory& error) {
    constexpr double kToUse = 0.9;
    throw core::EnvironmentError(
        fmt::format("{}: {}: a batch of {} should need {}; try a batch of {}",
                    core::one_line(work.model->name), error.what(), options.batch_size, bytes_text(bytes),
                    std::max<std::int64_t>(1, largest_batch(backend, work, options, kToUse * bytes))));
  }
}

/// The times of each repetition.
struct Samples {
  explicit Samples(std::size_t layers) : forward(layers), backward(layers) {}

  std::vector<std::vector<double>> forward;  ///< indexed by layer of the model
  std::vector<std::vector<double>> backward;
  std::vector<double> iterations;
  std::vector<double> loops;
};

void repeat(Session& session, const ProfileOptions& options, const ProfileProgress& progress,
            Samples& samples) {
  const std::size_t layers = samples.forward.size();
  std::vector<double> forward(layers);
  std::vector<double> backward(layers);
  for (int i = 0; i < options.warm_up + options.repetitions; ++i) {
    const double loop = time_fixed_loop_us();
    session.time_layers(forward, backward);
    const double iteration = session.time_iteration();
    if (progress) progress(i + 1, options.warm_up + options.repetitions);
    if (i < options.warm_up) continue;
    samples.loops.push_back(loop);
    samples.iterations.push_back(iteration);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      samples.forward[layer].push_back(forward[layer]);
      samples.backward[layer].push_back(backward[layer]);
    }
  }
}

/// Simulated time counts nanoseconds; digits below are a clock's.
double to_nanosecond(double us) {
  constexpr double kNsPerUs = 1e3;
  return std::round(us * kNsPerUs) / kNsPerUs;
}

core::ProfileLayer layer_of(const LayerWork& work, const Samples& samples, std::int64_t batch_size,
                            core::Dtype dtype) {
  const core::Layer& layer = *work.layer;
  const core::Statistics forward = core::statistics(samples.forward[work.index]);
  const core::Statistics backward = core::statistics(samples.backward[work.index]);
  core::ProfileLayer out = {
      .name = layer.name,
      .kind = std::string(core::name(layer.kind)),
      .forward_us = to_nanosecond(forward.median),
      .backward_us = to_nanosecond(backward.median),
      .tensors = {},
      .forward_spread_us = to_nanosecond(forward.spread),
      .backward_spread_us = to_nanosecond(backward.spread),
      .activation_bytes = batch_size * layer.activation_elements * core::bytes_per_element(dtype)};
  for (const core::Tensor& tensor : layer.tensors)
    out.tensors.push_back({.name = tensor.name, .elements = tensor.elements, .shape = tensor.shape});
  return out;
}

std::string source(const MeasuredProfile& measured, const ProfileOptions& options,
                   const std::string& conditions) {
  const core::Statistics& loop = measured.noise.loop;
  std::string out = fmt::format(
      "fusewise profile: medians of {} repetitions after {} to warm up, spreads are interquartile ranges; a "
      "whole iteration takes {:.1f} us (spread {:.1f}, p99 {:.1f}), its layers add up to {:.1f} us; {} of "
      "memory; {}a fixed loop beside it took {:.1f} us (spread {:.1f}, p99 {:.1f})",
      options.repetitions, options.warm_up, measured.iteration.median, measured.iteration.spread,
      measured.iteration.p99, measured.layers_us, bytes_text(measured.bytes),
      conditions.empty() ? "" : conditions + "; ", loop.median, loop.spread, loop.p99);
  if (const auto& share = measured.noise.busy_elsewhere)
    out += fmt::format(", other processes {:.0f} % of the processors", 100 * *share);
  if (measured.noise.is_noisy())
    return out + fmt::format("; machine: noisy ({})", fmt::join(measured.noise.reasons, "; "));
  return out + "; machine: quiet";
}

std::vector<std::string> warnings(const MeasuredProfile& measured) {
  std::vector<std::string> out;
  if (measured.noise.is_noisy())
    out.push_back(fmt::format("the machine is noisy, so these times are unreliable: {}",
                              fmt::join(measured.noise.reasons, "; ")));
  constexpr double kMaxLost = 0.05;
  const double lost = measured.layers_us / measured.iteration.median - 1;
  if (lost > kMaxLost || lost < -kMaxLost)
    out.push_back(fmt::format("layers add up to {:.1f} us, a whole iteration takes {:.1f} us: {:+.1f} %",
                              measured.layers_us, measured.iteration.median, 100 * lost));
  return out;
}

}  // namespace

std::int64_t largest_batch(const Backend& backend, const ModelWork& work, const SessionOptions& options,
                           double max_bytes) {
  std::int64_t fits = 0;
  std::int64_t too_many = options.batch_size + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (backend.bytes(work, static_cast<double>(middle), options) <= max_bytes ? fits : too_many) = middle;
  }
  return fits;
}

MeasuredProfile measure_profile(const core::Model& model, const Backend& backend,
                                const ProfileOptions& options, const ProfileProgress& progress) {
  backend.check(options.session);
  const ModelWork work = make_work(model);
  check_memory(backend, work, options);
  MeasuredProfile out;
  out.bytes = backend.bytes(work, static_cast<double>(options.session.batch_size), options.session);
  const std::unique_ptr<Session> session = open(backend, work, options.session, out.bytes);
  Samples samples(work.layers.size());
  const auto before = processor_times();
  repeat(*session, options, progress, samples);
  out.noise = noise_verdict(samples.loops, samples.iterations, before, processor_times());
  out.iteration = core::statistics(samples.iterations);
  out.profile = {.model = model.name,
                 .batch_size = options.session.batch_size,
                 .dtype = options.session.dtype,
                 .device = session->device(),
                 .origin = {.kind = core::OriginKind::measured, .source = {}},
                 .layers = {}};
  for (const LayerWork& layer : work.layers)
    if (layer.is_measured())
      out.profile.layers.push_back(
          layer_of(layer, samples, options.session.batch_size, options.session.dtype));
  out.layers_us = core::forward_us(out.profile) + core::backward_us(out.profile);
  out.bytes = session->peak_bytes().value_or(out.bytes);
  out.profile.origin.source = source(out, options, session->conditions());
  out.warnings = warnings(out);
  return out;
}

}  // namespace profiler
