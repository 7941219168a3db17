// Measures the sparse collectives, outside ctest: `sparse_bench words` prints the words that a rank receives
// beside the papers' bounds; `sparse_bench NAME [ELEMENTS RANKS]` runs one collective on 10 million elements
// and 8 ranks at 1 % density and prints its time and the memory of a rank.

#include <sys/resource.h>

#include <bit>
#include <chrono>
#include <string>

#include <fmt/format.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gradients.hpp"
#include "collectives/sparse/hitopk.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/in_process.hpp"

namespace {

using transport::Counts;
using transport::Transport;

struct Problem {
  std::uint32_t ranks;
  std::size_t elements;
  std::size_t k;
};

using Vectors = std::vector<std::vector<float>>;  // one gradient per rank

constexpr std::uint32_t kWorkersPerNode = 4;

Vectors inputs(const Problem& problem, std::uint64_t iteration) {
  const sparse::GradientSource source = {.tails = sparse::Tails::laplace, .layers = 20, .layer_sigma = 0.5};
  Vectors all(problem.ranks);
  transport::run_ranks(problem.ranks, [&](Transport& t) {
    all[t.rank()] = sparse::gradient(source, problem.elements, t.rank(), iteration);
  });
  return all;
}

/// One call on one rank. `state` is used by collectives with a state.
void call(Transport& t, std::string_view name, const Problem& problem, std::vector<float>& x,
          sparse::OkTopkState& state) {
  if (name == "dense") return sparse::ring_all_reduce(t, x);
  if (name == "ok-topk") {
    sparse::ok_topk(t, x, {.k = problem.k}, state);
  } else if (name == "hitopk") {
    const std::uint32_t workers = std::min(kWorkersPerNode, t.size());
    sparse::hitopk(t, x, workers, [&](std::span<const float> shard) {
      return compression::top_k(shard, problem.k / workers);
    });
  } else {
    const sparse::SparseVector own = compression::top_k(x, problem.k);
    if (name == "topk-a") sparse::topk_a(t, own, problem.elements);
    if (name == "topk-dsa") sparse::topk_dsa(t, own, problem.elements);
    if (name == "gtopk") sparse::gtopk(t, own, problem.elements, problem.k);
  }
}

struct Max {
  std::int64_t received = 0;
  std::int64_t sent = 0;
};

/// The maximum number of words of any rank in the last of `calls` calls.
Max max_words(std::string_view name, const Problem& problem, std::uint64_t calls) {
  std::vector<Vectors> gradients;
  for (std::uint64_t iteration = 0; iteration < calls; ++iteration)
    gradients.push_back(inputs(problem, iteration));
  std::vector<Counts> counts(problem.ranks);
  transport::run_ranks(problem.ranks, [&](Transport& end) {
    transport::Counted counted(end);
    sparse::OkTopkState state;
    for (Vectors& x : gradients) {
      counted.reset();
      call(counted, name, problem, x[end.rank()], state);
    }
    counts[end.rank()] = counted.total();
  });
  Max max;
  for (const Counts& c : counts) {
    max.received = std::max(max.received, c.bytes_received / 4);
    max.sent = std::max(max.sent, c.bytes_sent / 4);
  }
  return max;
}

void print_words() {
  constexpr std::size_t kElements = 100000;
  constexpr std::size_t kKept = 1000;
  fmt::print("words of the rank with the most, n = {}, k = {} (received / sent; bound)\n", kElements, kKept);
  for (const std::uint32_t p : {2U, 4U, 8U, 16U, 32U, 64U}) {
    const Problem problem{p, kElements, kKept};
    const auto row = [&](std::string_view name, std::uint64_t calls, double bound, std::string_view formula) {
      const Max max = max_words(name, problem, calls);
      fmt::print("P = {:2}  {:9} {:7} {:7}  {:8.0f}  {}\n", p, name, max.received, max.sent, bound, formula);
    };
    const double n = kElements;
    const double k = kKept;
    const double share = (p - 1.0) / p;
    const double lg = std::bit_width(p - 1);
    row("dense", 1, 2 * n * share, "2n(P-1)/P");
    row("topk-a", 1, 2 * k * (p - 1), "2k(P-1)");
    row("topk-dsa", 1, (2 * k + n) * share, "(2k+n)(P-1)/P");
    row("gtopk", 1, 2 * k * lg, "2k lg P each way");
    row("ok-topk", 1, 6 * k * share, "6k(P-1)/P, not in this call: it recomputes");
    row("ok-topk", 4, 6 * k * share, "6k(P-1)/P");
    const double w = std::min(kWorkersPerNode, p);
    const double nodes = p / w;
    row("hitopk", 1, n * (w - 1) / w + 2 * k / w * (nodes - 1) + 2 * k * nodes * (w - 1) / w,
        "n(w-1)/w + 2k(m-1)/w + 2km(w-1)/w, m nodes of w = 4");
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

void measure(std::string_view name, const Problem& problem) {
  Vectors x = inputs(problem, 0);
  const double before = peak_bytes();
  std::vector<sparse::OkTopkState> states(problem.ranks);
  for (const std::string_view which : {"first", "second"}) {
    const auto start = std::chrono::steady_clock::now();
    transport::run_ranks(problem.ranks,
                         [&](Transport& t) { call(t, name, problem, x[t.rank()], states[t.rank()]); });
    const double gradients =
        (peak_bytes() - before) / problem.ranks / (4.0 * static_cast<double>(problem.elements));
    fmt::print("{}, {} call: {:.2f} s, {:.2f} gradients of memory per rank besides its own\n", name, which,
               seconds_since(start), gradients);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "words";
  if (name == "words") {
    print_words();
    return 0;
  }
  const std::size_t elements = argc > 2 ? std::stoul(argv[2]) : 10'000'000;
  const auto ranks = static_cast<std::uint32_t>(argc > 3 ? std::stoul(argv[3]) : 8);
  measure(name, {ranks, elements, elements / 100});
  return 0;
}
