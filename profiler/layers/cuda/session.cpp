#include "profiler/layers/cuda/session.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "core/statistics.hpp"
#include "profiler/layers/cuda/own_kernels.hpp"

namespace profiler::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// "1980 MHz" or "1755 to 1980 MHz".
std::string range_text(const std::vector<Reading>& readings, unsigned Reading::*which, const char* unit) {
  const auto [min, max] =
      std::minmax_element(readings.begin(), readings.end(),
                          [&](const Reading& a, const Reading& b) { return a.*which < b.*which; });
  if ((*min).*which == (*max).*which) return fmt::format("{} {}", (*min).*which, unit);
  return fmt::format("{} to {} {}", (*min).*which, (*max).*which, unit);
}

}  // namespace

Arithmetic arithmetic_of(const SessionOptions& options) {
  switch (options.dtype) {
    case core::Dtype::float16: return {.type = Type::float16};
    case core::Dtype::bfloat16: return {.type = Type::bfloat16, .is_mostly_own = true};
    case core::Dtype::float32: break;
  }
  return {.type = Type::float32, .tf32 = options.tf32};
}

Parts open_parts() {
  Parts out;
  out.runtime = open_runtime();
  out.libraries = &libraries();
  out.kernels = own_kernels(out.runtime->stream());
  out.sensors = open_sensors(out.runtime->pci_bus());
  return out;
}

DeviceSession::DeviceSession(Parts parts, const ModelWork& work, const SessionOptions& options)
    : parts_(std::move(parts)),
      arithmetic_(arithmetic_of(options)),
      free_before_(parts_.runtime->free_bytes()),
      device_(*parts_.runtime, *parts_.libraries, *parts_.kernels, arithmetic_),
      executor_(device_, work, options.batch_size),
      gate_(*parts_.runtime, *parts_.kernels),
      min_free_(free_before_) {
  for (const LayerWork& layer : work.layers) runs_.push_back(layer.runs());
  for (std::size_t i = 0; i < 2 * runs_.size(); ++i) {
    begins_.emplace_back(*parts_.runtime);
    ends_.emplace_back(*parts_.runtime);
  }
  run_once();  // loads every kernel: under a closed gate that would deadlock
  parts_.runtime->synchronize();
  find_event_cost();
  look_at_memory();
}

void DeviceSession::run_once() {
  for (std::size_t i = 0; i < runs_.size(); ++i) executor_.forward(i);
  for (std::size_t i = runs_.size(); i-- > 0;) executor_.backward(i);
}

void DeviceSession::find_event_cost() {
  constexpr int kTries = 31;
  std::vector<double> found;
  for (int i = 0; i < kTries; ++i) {
    gate_.close();
    begins_[0].record();
    ends_[0].record();
    gate_.open();
    parts_.runtime->synchronize();
    found.push_back(elapsed_us(*parts_.runtime, begins_[0], ends_[0]));
  }
  event_us_ = core::quantile(found, 0.5);
}

void DeviceSession::look_at_memory() {
  min_free_ = std::min(min_free_, parts_.runtime->free_bytes());
  if (parts_.sensors == nullptr) return;
  if (const auto reading = parts_.sensors->read()) readings_.push_back(*reading);
}

std::string DeviceSession::device() const {
  const bool is_float32 = arithmetic_.type == Type::float32;
  const char* const tf32 = arithmetic_.tf32 ? ", TF32" : ", no TF32";
  return parts_.runtime->name() + (is_float32 ? tf32 : "");
}

/// Times each layer separately behind the gate; the device may run one while the next is enqueued.
void DeviceSession::time_layers(std::span<double> forward_us, std::span<double> backward_us) {
  const std::size_t layers = runs_.size();
  double launching_us = 0;
  const auto time = [&](std::size_t event, const auto& run) {
    gate_.close();
    begins_[event].record();
    const Clock::time_point begun = Clock::now();
    run();
    launching_us += us_since(begun);
    ends_[event].record();
    gate_.open();
  };
  for (std::size_t i = 0; i < layers; ++i)
    if (runs_[i]) time(i, [&] { executor_.forward(i); });
  for (std::size_t i = layers; i-- > 0;)
    if (runs_[i]) time(layers + i, [&] { executor_.backward(i); });
  parts_.runtime->synchronize();
  const auto took = [&](std::size_t event) {
    return elapsed_us(*parts_.runtime, begins_[event], ends_[event]);
  };
  for (std::size_t i = 0; i < layers; ++i) {
    forward_us[i] = runs_[i] ? took(i) : 0;
    backward_us[i] = runs_[i] ? took(layers + i) : 0;
  }
  launches_us_.push_back(launching_us);
}

/// Runs like a training step: launches while the device works.
double DeviceSession::time_iteration() {
  begins_[0].record();
  run_once();
  ends_[0].record();
  parts_.runtime->synchronize();
  look_at_memory();
  return elapsed_us(*parts_.runtime, begins_[0], ends_[0]);
}

void DeviceSession::forward(std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) executor_.forward(i);
  parts_.runtime->synchronize();
}

void DeviceSession::backward(std::size_t from, std::size_t to) {
  for (std::size_t i = to; i-- > from;) executor_.backward(i);
  parts_.runtime->synchronize();
}

std::string DeviceSession::conditions() {
  std::string out = fmt::format(
      "CUDA events on one stream, launches held back; two with nothing in between are "
      "{:.1f} us apart, inside every layer's time",
      event_us_);
  if (gate_.late() > 0) out += fmt::format("; {} launches could not be held back to their end", gate_.late());
  if (!launches_us_.empty())
    out +=
        fmt::format("; launching an iteration takes the host {:.1f} us", core::quantile(launches_us_, 0.5));
  if (arithmetic_.type != Type::float32)
    out +=
        "; weights, results and gradients of two bytes, sums and products in float32; batch norms' weights "
        "and their gradients are float32, and there is no master copy of weights";
  out += fmt::format("; {}, {}", parts_.runtime->versions(), versions(*parts_.libraries));
  if (readings_.empty()) return out + "; clocks and temperature unknown";
  return out + fmt::format("; multiprocessors at {}, memory at {}, {}",
                           range_text(readings_, &Reading::processor_mhz, "MHz"),
                           range_text(readings_, &Reading::memory_mhz, "MHz"),
                           range_text(readings_, &Reading::celsius, "C"));
}

std::optional<double> DeviceSession::peak_bytes() { return static_cast<double>(free_before_ - min_free_); }

}  // namespace profiler::cuda
