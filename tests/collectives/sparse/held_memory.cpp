#include "tests/collectives/sparse/held_memory.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "collectives/sparse/gradients.hpp"
#include "collectives/transport/in_process.hpp"

namespace {

/// The memory of one rank. Other ranks add the messages that they send to it.
struct HeldMemory {
  std::atomic<std::int64_t> now = 0;
  std::atomic<std::int64_t> max = 0;

  void add(std::int64_t bytes) {
    const std::int64_t is = now.fetch_add(bytes) + bytes;
    for (std::int64_t was = max.load(); was < is && !max.compare_exchange_weak(was, is);) continue;
  }
};
/// Where this thread's memory is counted; nowhere if null.
thread_local HeldMemory* held = nullptr;

std::int64_t size_of(void* memory) { return static_cast<std::int64_t>(malloc_usable_size(memory)); }

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (held != nullptr) held->add(size_of(memory));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr && held != nullptr) held->add(-size_of(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }

namespace {

using transport::Bytes;
using transport::Transport;

/// Counts messages for their receiver, and not what the transport itself allocates.
class CountingTransport final : public Transport {
 public:
  CountingTransport(Transport& inner, std::vector<HeldMemory>& ranks) : inner_(inner), ranks_(ranks) {}

  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override {
    const std::int64_t bytes = message.capacity() == 0 ? 0 : size_of(message.data());
    ranks_[to].add(bytes);
    held->add(-bytes);
    held = nullptr;
    inner_.send(to, tag, std::move(message));
    held = &ranks_[rank()];
  }

 private:
  Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override {
    held = nullptr;
    Bytes message = inner_.recv(from, tag, max_bytes);
    held = &ranks_[rank()];
    return message;
  }

  Transport& inner_;
  std::vector<HeldMemory>& ranks_;
};

}  // namespace

namespace held_memory {

Gradients sampled_gradients(std::size_t elements, std::uint32_t ranks) {
  Gradients out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    out.push_back(sparse::gradient({.layers = 4}, elements, rank, 0));
  return out;
}

double max_held(const aggregate::Method& method, double density, std::uint32_t ranks,
                const Gradients& gradients) {
  constexpr int kIterations = 3;
  const aggregate::Options options = {.density = density};
  std::vector<HeldMemory> all(ranks);
  std::vector<std::int64_t> max(ranks);
  transport::run_ranks(ranks, [&](Transport& inner) {
    CountingTransport transport(inner, all);
    HeldMemory& own = all[transport.rank()];
    held = &own;
    aggregate::State state = aggregate::initial_state(options);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      std::vector<float> gradient = gradients[transport.rank()];
      own.max = own.now.load();  // messages of this iteration may have arrived already
      method.aggregate(method, transport, options, state, gradient);
      max[transport.rank()] = std::max(max[transport.rank()], own.max.load());
    }
    held = nullptr;
  });
  return static_cast<double>(*std::max_element(max.begin(), max.end())) /
         static_cast<double>(gradients.front().size() * sizeof(float));
}

}  // namespace held_memory
