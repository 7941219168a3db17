// What summing compressed gradients takes in memory: `sparse_memory [ELEMENTS [DENSITY]...]` runs every
// method of training/ with error feedback on ranks that are threads, and prints the most that a rank holds,
// in gradients: its gradient and residual, what it works with, and messages from when they are made until
// they are sent and from when they have arrived. What waits in between is the transport's.

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sparse/gradients.hpp"
#include "training/aggregate.hpp"
#include "transport/in_process.hpp"

namespace {

/// Of this thread; what it allocates is its own until it hands it over.
struct Held {
  std::int64_t now = 0;
  std::int64_t most = 0;
  bool is_counting = false;

  void add(std::int64_t bytes) {
    if (!is_counting) return;
    now += bytes;
    most = std::max(most, now);
  }
};
thread_local Held held;

std::int64_t size_of(void* memory) { return static_cast<std::int64_t>(malloc_usable_size(memory)); }

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  held.add(size_of(memory));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr) held.add(-size_of(memory));
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { operator delete(memory); }

namespace {

using transport::Bytes;
using transport::Transport;

/// Does not count what the transport itself allocates, and counts messages as they change hands.
class Handing final : public Transport {
 public:
  explicit Handing(Transport& inner) : inner_(inner) {}

  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override {
    held.add(-bytes_of(message));
    held.is_counting = false;
    inner_.send(to, tag, std::move(message));
    held.is_counting = true;
  }
  Bytes recv(std::uint32_t from, std::uint32_t tag) override {
    held.is_counting = false;
    Bytes message = inner_.recv(from, tag);
    held.is_counting = true;
    held.add(bytes_of(message));
    return message;
  }

 private:
  static std::int64_t bytes_of(Bytes& message) {
    return message.capacity() == 0 ? 0 : size_of(message.data());
  }

  Transport& inner_;
};

struct Problem {
  std::size_t elements;
  std::uint32_t ranks;
  double density;
};

/// The most of any rank, in gradients. Three iterations: thresholds are found in the first.
double most_held(const training::Method& method, const Problem& problem) {
  const training::AggregateOptions options = {.density = problem.density};
  std::vector<std::int64_t> most(problem.ranks);
  transport::run_ranks(problem.ranks, [&](Transport& inner) {
    Handing transport(inner);
    held = {.is_counting = true};
    training::AggregateState state = training::initial_state(options);
    for (std::uint64_t iteration = 0; iteration < 3; ++iteration) {
      std::vector<float> gradient =
          sparse::gradient({.layers = 4}, problem.elements, transport.rank(), iteration);
      held.most = held.now;  // drawing it is not what is looked at
      method.aggregate(method, transport, options, state, gradient);
      most[transport.rank()] = std::max(most[transport.rank()], held.most);
    }
    held.is_counting = false;
  });
  return static_cast<double>(*std::max_element(most.begin(), most.end())) /
         static_cast<double>(problem.elements * sizeof(float));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t elements = argc > 1 ? std::stoul(argv[1]) : 65'536;
  std::vector<double> densities;
  for (int i = 2; i < argc; ++i) densities.push_back(std::stod(argv[i]));
  if (densities.empty()) densities = {0.01, 0.05, 0.1};
  constexpr std::uint32_t kRanks[] = {8, 16, 32, 64};
  fmt::print("| method | density |");
  for (const std::uint32_t ranks : kRanks) fmt::print(" {} ranks |", ranks);
  fmt::print("\n| --- | --- | --- | --- | --- | --- |\n");
  for (const training::Method& method : training::methods())
    for (const double density : densities) {
      fmt::print("| {} | {} |", method.name, density);
      for (const std::uint32_t ranks : kRanks)
        fmt::print(" {:.2f} |", most_held(method, {elements, ranks, density}));
      fmt::print("\n");
      std::fflush(stdout);
    }
}
