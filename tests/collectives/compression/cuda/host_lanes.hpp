// Runs the device's kernels on the host: each thread of a block is a fiber, barriers and shuffles wait for
// the others, and a few blocks run at once in an order drawn by a seed, so that what one block must wait for
// another for is waited for. Slow; for tests.

#pragma once

#include <cstdint>
#include <functional>

#include "collectives/compression/cuda/engine.hpp"

namespace support {

struct HostRun;

/// A thread of a block that runs on the host.
class HostLane {
 public:
  HostLane(HostRun& run, unsigned fiber) : run_(&run), fiber_(fiber) {}

  unsigned thread() const;
  unsigned block() const;
  unsigned blocks() const;
  void sync() const;
  std::uint32_t ballot(bool is_set) const;
  std::uint64_t shuffle_up(std::uint64_t word, unsigned apart) const;
  template <typename Word>
  Word shuffle_xor(Word word, unsigned mask) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &word, sizeof word);
    bits = exchange_xor(bits, mask);
    std::memcpy(&word, &bits, sizeof word);
    return word;
  }
  void pause() const;

  std::uint32_t add(std::uint32_t* to, std::uint32_t count) const {
    const std::uint32_t before = *to;
    *to += count;
    return before;
  }
  void raise(std::uint32_t* to, std::uint32_t min) const { *to = std::max(*to, min); }
  void set(std::uint32_t* to, std::uint32_t bits) const { *to |= bits; }
  void lower(std::uint64_t* to, std::uint64_t max) const { *to = std::min(*to, max); }
  std::uint64_t swap_if(std::uint64_t* at, std::uint64_t expected, std::uint64_t word) const {
    const std::uint64_t before = *at;
    if (before == expected) *at = word;
    return before;
  }
  void publish(std::uint64_t* to, std::uint64_t word) const {
    *to = word;
    pause();
  }
  std::uint64_t observe(const std::uint64_t* from) const { return *from; }

 private:
  std::uint64_t exchange_xor(std::uint64_t word, unsigned mask) const;

  HostRun* run_;
  unsigned fiber_;
};

/// Runs work(lane, block's slot) for `blocks` blocks, `slots` of them at once.
void run_on_host(std::uint32_t blocks, unsigned slots, std::uint64_t seed,
                 const std::function<void(const HostLane&, unsigned)>& work);

class HostBackend {
 public:
  static constexpr unsigned kSlots = 3;

  explicit HostBackend(std::uint64_t seed) : seed_(seed) {}

  compression::cuda::DeviceInfo info() const { return {"host", 0, kSlots}; }
  void* allocate(std::size_t bytes);
  void release(void* memory) noexcept;
  void upload(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void fill(void* memory, int byte, std::size_t bytes) { std::memset(memory, byte, bytes); }
  void synchronize() {}
  double timed_ms(const std::function<void()>& work) {
    work();
    return 0;
  }

  template <typename Body>
  void run(const Body& body, std::uint32_t blocks) {
    std::vector<typename Body::Shared> shared(kSlots);
    // as on a device, nothing may be taken to be 0
    if constexpr (sizeof(typename Body::Shared) > 1)
      std::memset(static_cast<void*>(shared.data()), 0xa5, kSlots * sizeof(typename Body::Shared));
    run_on_host(std::min(blocks, kSlots), kSlots, ++seed_,
                [&](const HostLane& lane, unsigned slot) { body(lane, shared[slot]); });
  }

 private:
  std::uint64_t seed_;
};

inline std::unique_ptr<compression::cuda::Engine> host_engine(std::uint64_t seed) {
  return std::make_unique<compression::cuda::EngineOn<HostBackend>>(seed);
}

}  // namespace support
