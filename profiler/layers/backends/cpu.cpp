// Runs layers on this machine's processors with Eigen, in float32.

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "profiler/common/host.hpp"
#include "profiler/layers/backend.hpp"
#include "profiler/layers/cpu/executor.hpp"

namespace profiler::list {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

class CpuSession : public Session {
 public:
  CpuSession(const ModelWork& work, const SessionOptions& options)
      : set_(instruction_sets().front()),
        threads_(options.threads),
        layers_(work.layers.size()),
        executor_(work, options.batch_size, options.threads, set_) {}

  std::string device() const override {
    return fmt::format("{}, {} thread{}, {}", processor_name(), threads_, threads_ == 1 ? "" : "s",
                       set_.name);
  }

  void time_layers(std::span<double> forward_us, std::span<double> backward_us) override {
    Clock::time_point before = Clock::now();
    const auto lap = [&] {
      const Clock::time_point now = Clock::now();
      return us_between(std::exchange(before, now), now);
    };
    for (std::size_t i = 0; i < layers_; ++i) {
      executor_.forward(i);
      forward_us[i] = lap();
    }
    for (std::size_t i = layers_; i-- > 0;) {
      executor_.backward(i);
      backward_us[i] = lap();
    }
  }

  double time_iteration() override {
    const Clock::time_point begun = Clock::now();
    forward(0, layers_);
    backward(0, layers_);
    return us_between(begun, Clock::now());
  }

  void forward(std::size_t from, std::size_t to) override {
    for (std::size_t i = from; i < to; ++i) executor_.forward(i);
  }
  void backward(std::size_t from, std::size_t to) override {
    for (std::size_t i = to; i-- > from;) executor_.backward(i);
  }

 private:
  InstructionSet set_;
  int threads_;
  std::size_t layers_;
  CpuExecutor executor_;
};

void check(const SessionOptions& options) {
  if (options.dtype != core::Dtype::float32)
    throw core::InputError(
        fmt::format("--dtype: expected float32 with --backend cpu, got '{}'", name(options.dtype)));
  if (options.tf32) throw core::InputError("--tf32: expected --backend cuda, got cpu");
}

double bytes(const ModelWork& work, double batch_size, const SessionOptions& options) {
  return cpu_bytes(work, batch_size, options.threads);
}

std::unique_ptr<Session> open(const ModelWork& work, const SessionOptions& options) {
  return std::make_unique<CpuSession>(work, options);
}

}  // namespace

Backend cpu() {
  return {.name = "cpu",
          .summary = "this machine's processors, by Eigen, in float32",
          .check = check,
          .bytes = bytes,
          .free_bytes = free_memory_bytes,
          .open = open};
}

}  // namespace profiler::list
