// Layers on this machine's processors, by Eigen, in float32.

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "models/errors.hpp"
#include "profiler/backend.hpp"
#include "profiler/common/host.hpp"
#include "profiler/cpu/executor.hpp"

namespace profiler::list {
namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

class CpuSession : public Session {
 public:
  CpuSession(const ModelWork& work, const SessionWishes& wishes)
      : set_(instruction_sets().front()),
        threads_(wishes.threads),
        layers_(work.layers.size()),
        executor_(work, wishes.batch_size, wishes.threads, set_) {}

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

void check(const SessionWishes& wishes) {
  if (wishes.dtype != traces::Dtype::float32)
    throw models::InputError(
        fmt::format("--dtype: expected float32 with --backend cpu, got '{}'", name(wishes.dtype)));
  if (wishes.tf32) throw models::InputError("--tf32: expected --backend cuda, got cpu");
}

double bytes(const ModelWork& work, double batch_size, const SessionWishes& wishes) {
  return cpu_bytes(work, batch_size, wishes.threads);
}

std::unique_ptr<Session> open(const ModelWork& work, const SessionWishes& wishes) {
  return std::make_unique<CpuSession>(work, wishes);
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
