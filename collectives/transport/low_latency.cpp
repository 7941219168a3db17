#include "collectives/transport/low_latency.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <thread>

namespace transport {

namespace {

/// The first version of the kernel's struct sched_attr; its header and sched.h cannot both be included.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

constexpr std::uint64_t kTurnNs = 100'000;

}  // namespace

void use_low_latency_scheduling() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0U) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = kTurnNs;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

void run_with_low_latency(const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread([&] {
    use_low_latency_scheduling();
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace transport
