// Fibers by ucontext. One runs at a time, so no access is a race in C++; where it stops is a barrier, a
// shuffle, a word published or awaited.

#include "tests/collectives/compression/cuda/host_lanes.hpp"

#include <ucontext.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "sim/draws.hpp"

namespace support {

using compression::cuda::kThreads;
using compression::cuda::kWarp;
using compression::cuda::kWarps;

namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

/// Where some fibers wait until all have come.
struct Barrier {
  std::uint64_t generation = 0;
  unsigned arrived = 0;
};

struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  const std::uint64_t* awaited = nullptr;  // it runs on when this is no longer `passed`
  std::uint64_t passed = 0;
  bool is_done = true;
};

struct Slot {
  std::uint32_t block = 0;
  unsigned left = 0;  // fibers that are not done
  Barrier barrier;
  std::array<Barrier, kWarps> warp_barriers;
  std::array<std::uint64_t, kThreads> words{};
};

}  // namespace

struct HostRun {
  std::vector<Fiber> fibers;
  std::vector<Slot> slots;
  std::uint32_t blocks = 0;
  ucontext_t scheduler = {};
  unsigned current = 0;
  const std::function<void(const HostLane&, unsigned)>* work = nullptr;

  Slot& slot_of(unsigned fiber) { return slots[fiber / kThreads]; }

  void yield() {
    Fiber& fiber = fibers[current];
    swapcontext(&fiber.context, &scheduler);
  }

  void arrive(unsigned fiber, Barrier& barrier, unsigned expected) {
    if (++barrier.arrived == expected) {
      barrier.arrived = 0;
      ++barrier.generation;
      return;
    }
    fibers[fiber].awaited = &barrier.generation;
    fibers[fiber].passed = barrier.generation;
    yield();
    fibers[fiber].awaited = nullptr;
  }

  void resume(unsigned fiber) {
    current = fiber;
    swapcontext(&scheduler, &fibers[fiber].context);
  }

  void begin(unsigned slot, std::uint32_t block);
  void step(unsigned slot, bool from_last);
};

namespace {

/// makecontext() passes only ints, so an address comes in halves.
void enter(unsigned high, unsigned low) {
  HostRun& run = *reinterpret_cast<HostRun*>(std::uintptr_t{high} << 32U | low);  // NOLINT
  const unsigned fiber = run.current;
  (*run.work)(HostLane(run, fiber), fiber / kThreads);
  run.fibers[fiber].is_done = true;
  --run.slot_of(fiber).left;
  run.yield();
}

}  // namespace

void HostRun::begin(unsigned slot, std::uint32_t block) {
  slots[slot] = Slot{.block = block, .left = kThreads, .barrier = {}, .warp_barriers = {}};
  for (unsigned i = 0; i < kThreads; ++i) {
    Fiber& fiber = fibers[slot * kThreads + i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(enter), 2, static_cast<unsigned>(address >> 32U),
                static_cast<unsigned>(address));
    fiber.awaited = nullptr;
    fiber.is_done = false;
  }
}

/// Every fiber of a block that can run does, once.
void HostRun::step(unsigned slot, bool from_last) {
  for (unsigned i = 0; i < kThreads; ++i) {
    const unsigned fiber = slot * kThreads + (from_last ? kThreads - 1 - i : i);
    const Fiber& it = fibers[fiber];
    if (!it.is_done && (it.awaited == nullptr || *it.awaited != it.passed)) resume(fiber);
  }
}

void run_on_host(std::uint32_t blocks, unsigned slots, std::uint64_t seed,
                 const std::function<void(const HostLane&, unsigned)>& work) {
  if (blocks == 0) return;
  static thread_local HostRun run;  // stacks are kept from run to run
  run.slots.resize(slots);
  run.fibers.resize(std::size_t{slots} * kThreads);
  run.blocks = blocks;
  run.work = &work;
  std::uint32_t begun = 0;
  std::uint32_t live = 0;
  for (std::uint64_t round = 0; begun < blocks || live > 0; ++round) {
    live = 0;
    for (unsigned slot = 0; slot < slots; ++slot) {
      if (run.slots[slot].left == 0 && begun < blocks) run.begin(slot, begun++);
      const std::uint64_t sampled = sim::hash(seed, round, slot);
      if (run.slots[slot].left > 0 && sampled % 4 != 0) run.step(slot, sampled >> 32U & 1U);
      live += run.slots[slot].left > 0 ? 1U : 0U;
    }
  }
}

unsigned HostLane::thread() const { return fiber_ % kThreads; }
unsigned HostLane::block() const { return run_->slot_of(fiber_).block; }
unsigned HostLane::blocks() const { return run_->blocks; }
void HostLane::sync() const { run_->arrive(fiber_, run_->slot_of(fiber_).barrier, kThreads); }
void HostLane::pause() const { run_->yield(); }

std::uint64_t HostLane::exchange_xor(std::uint64_t word, unsigned mask) const {
  Slot& slot = run_->slot_of(fiber_);
  Barrier& barrier = slot.warp_barriers[thread() / kWarp];
  slot.words[thread()] = word;
  run_->arrive(fiber_, barrier, kWarp);
  const std::uint64_t other = slot.words[thread() ^ mask];
  run_->arrive(fiber_, barrier, kWarp);
  return other;
}

std::uint64_t HostLane::shuffle_up(std::uint64_t word, unsigned apart) const {
  Slot& slot = run_->slot_of(fiber_);
  Barrier& barrier = slot.warp_barriers[thread() / kWarp];
  slot.words[thread()] = word;
  run_->arrive(fiber_, barrier, kWarp);
  const std::uint64_t earlier = slot.words[thread() % kWarp >= apart ? thread() - apart : thread()];
  run_->arrive(fiber_, barrier, kWarp);
  return earlier;
}

std::uint32_t HostLane::ballot(bool is_set) const {
  Slot& slot = run_->slot_of(fiber_);
  Barrier& barrier = slot.warp_barriers[thread() / kWarp];
  slot.words[thread()] = is_set ? 1 : 0;
  run_->arrive(fiber_, barrier, kWarp);
  std::uint32_t ballot = 0;
  const unsigned first = thread() / kWarp * kWarp;
  for (unsigned i = 0; i < kWarp; ++i) ballot |= static_cast<std::uint32_t>(slot.words[first + i]) << i;
  run_->arrive(fiber_, barrier, kWarp);
  return ballot;
}

void* HostBackend::allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0x5a, bytes);
  return memory;
}

void HostBackend::release(void* memory) noexcept { std::free(memory); }

}  // namespace support
