#include "profiler/layers/cuda/gate.hpp"

#include <atomic>

namespace profiler::cuda {

Gate::Gate(Runtime& runtime, Kernels& kernels)
    : runtime_(runtime),
      kernels_(kernels),
      shared_(static_cast<int*>(runtime.allocate_shared(2 * sizeof(int)))) {
  shared_[0] = 0;
  shared_[1] = 0;
}

Gate::~Gate() {
  open();
  try {
    runtime_.synchronize();                  // nothing reads it any more
  } catch (const core::EnvironmentError&) {  // NOLINT(bugprone-empty-catch): the device is lost, and has been
                                             // already reported
  }
  runtime_.release_shared(shared_);
}

void Gate::close() {
  constexpr std::int64_t kMaxNs = 100'000'000;
  kernels_.hold(shared_, ++ticket_, kMaxNs, shared_ + 1);
}

void Gate::open() { std::atomic_ref<int>(shared_[0]).store(ticket_, std::memory_order_release); }

int Gate::late() const { return std::atomic_ref<int>(shared_[1]).load(std::memory_order_acquire); }

}  // namespace profiler::cuda
