// What summing compressed gradients takes in memory: `sparse_memory [ELEMENTS [DENSITY]...]` runs every
// method of training/ with error feedback on ranks that are threads, and prints the most that a rank holds,
// in gradients: its gradient and residual, what it works with, and messages from when they are made until
// they are used. Those that wait in the transport count for the rank that they wait for, so that the figures
// differ a little from run to run, as threads do.

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sparse/gradients.hpp"
#include "training/aggregate.hpp"
#include "transport/in_process.hpp"

namespace {

/// Of one rank. Others add the messages that they send to it.
struct Held {
  std::atomic<std::int64_t> now = 0;
  std::atomic<std::int64_t> most = 0;

  void add(std::int64_t bytes) {
    const std::int64_t is = now.fetch_add(bytes) + bytes;
    for (std::int64_t was = most.load(); was < is && !most.compare_exchange_weak(was, is);) continue;
  }
};
/// Where this thread's memory is counted; nowhere while null.
thread_local Held* held = nullptr;

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

/// Does not count what the transport itself allocates, and hands messages over as they are sent.
class Handing final : public Transport {
 public:
  Handing(Transport& inner, std::vector<Held>& ranks) : inner_(inner), ranks_(ranks) {}

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
  Bytes recv(std::uint32_t from, std::uint32_t tag) override {
    held = nullptr;
    Bytes message = inner_.recv(from, tag);
    held = &ranks_[rank()];
    return message;
  }

 private:
  Transport& inner_;
  std::vector<Held>& ranks_;
};

struct Problem {
  std::size_t elements;
  std::uint32_t ranks;
  double density;
};

/// The most of any rank, in gradients. Three iterations: thresholds are found in the first.
double most_held(const training::Method& method, const Problem& problem) {
  const training::AggregateOptions options = {.density = problem.density};
  std::vector<Held> ranks(problem.ranks);
  std::vector<std::int64_t> most(problem.ranks);
  transport::run_ranks(problem.ranks, [&](Transport& inner) {
    Handing transport(inner, ranks);
    Held& own = ranks[transport.rank()];
    held = &own;
    training::AggregateState state = training::initial_state(options);
    for (std::uint64_t iteration = 0; iteration < 3; ++iteration) {
      std::vector<float> gradient =
          sparse::gradient({.layers = 4}, problem.elements, transport.rank(), iteration);
      own.most = own.now.load();  // drawing it is not what is looked at
      method.aggregate(method, transport, options, state, gradient);
      most[transport.rank()] = std::max(most[transport.rank()], own.most.load());
    }
    held = nullptr;
  });
  return static_cast<double>(*std::max_element(most.begin(), most.end())) /
         static_cast<double>(problem.elements * sizeof(float));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t elements = argc > 1 ? std::stoul(argv[1]) : 65'536;
  const std::string only = std::getenv("METHODS") == nullptr ? "" : std::getenv("METHODS");
  std::vector<double> densities;
  for (int i = 2; i < argc; ++i) densities.push_back(std::stod(argv[i]));
  if (densities.empty()) densities = {0.01, 0.05, 0.1};
  constexpr std::uint32_t kRanks[] = {4, 8, 16, 32, 64};
  fmt::print("| method | density |");
  for (const std::uint32_t ranks : kRanks) fmt::print(" {} ranks |", ranks);
  fmt::print("\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (const training::Method& method : training::methods()) {
    if (!only.empty() && (',' + only + ',').find(fmt::format(",{},", method.name)) == std::string::npos)
      continue;
    for (const double density : densities) {
      fmt::print("| {} | {} |", method.name, density);
      for (const std::uint32_t ranks : kRanks)
        fmt::print(" {:.2f} |", most_held(method, {elements, ranks, density}));
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
}
