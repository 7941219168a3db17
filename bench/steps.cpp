#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/measure.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/steps.hpp"
#include "sim/draws.hpp"

namespace bench {
namespace {

constexpr std::uint32_t kTensors = 54;
constexpr std::int64_t kBytes = 102'400'000 / kTensors;
constexpr double kBackwardUs = 2000;  // per tensor

/// Returns a fixed value from 1 to 1 + max, different for every purpose and rank.
double spread(double max, std::uint32_t purpose, std::uint32_t rank) {
  return 1 + max * sim::uniform(sim::hash(7, purpose, rank));
}

/// A cluster in which no two links and no two workers are alike.
struct Cluster {
  cluster::Links links;
  std::vector<sim::Time> backward;  ///< per tensor, indexed by rank
};

Cluster cluster_of(std::uint32_t ranks, double sigma) {
  Cluster out;
  out.links = {.levels = {{.ranks = ranks, .link = {.startup_us = 5, .us_per_byte = 8e-5}}},
               .sum_us_per_byte = 2.5e-6,
               .slowdown = {},
               .sigma = sigma};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    out.links.slowdown.push_back(spread(0.2, 0, rank));
    out.backward.push_back(sim::from_us(kBackwardUs * spread(0.1, 1, rank)));
  }
  return out;
}

/// One backward pass: each tensor's ring begins on a rank when its gradient is ready and the previous ring
/// has ended.
void run_backward(const Cluster& on) {
  std::vector<sim::Time> times(on.backward.size());
  const cluster::Shape shape = {.ranks = static_cast<std::uint32_t>(times.size()), .bytes = kBytes};
  const cluster::Collective ring = cluster::find_pattern("ring")->make(shape);
  for (std::uint32_t tensor = 0; tensor < kTensors; ++tensor) {
    for (std::size_t i = 0; i < times.size(); ++i)
      times[i] = std::max(times[i], on.backward[i] * (tensor + 1));
    cluster::run_steps(ring, on.links, tensor, times);
  }
  if (times.front() == sim::Time::zero()) fmt::print("never\n");
}

struct Size {
  std::uint32_t ranks = 0;
  Bound bound = {};
};

void bench_sizes(const std::vector<Size>& sizes, double sigma, int repetitions, const std::string& what) {
  double first = 0;
  for (const Size& size : sizes) {
    const Cluster on = cluster_of(size.ranks, sigma);
    const Measurement result = measure(repetitions, [&] { run_backward(on); });
    report(fmt::format("steps, wfbp, {} rings on {} ranks, {}", kTensors, size.ranks, what), result,
           size.bound);
    const double ns = result.ms * 1e6 / size.ranks / kTensors;
    if (first == 0) first = ns;
    fmt::print("{:<80} {:>10.1f} ns, {:.2f} x that of {} ranks, {:.3f} ns a message\n",
               "  by rank and tensor", ns, ns / first, sizes.front().ranks, ns / 2 / (size.ranks - 1));
  }
}

}  // namespace

/// Computes when each rank leaves each of many rings, where every link and every worker has its own speed.
void steps() {
  const std::vector<Size> sizes = {{.ranks = 256},
                                   {.ranks = 512},
                                   {.ranks = 1024},
                                   {2048, {.ms = 2, .mb = 50}},
                                   {131'072, {.ms = 500, .mb = 200}}};
  bench_sizes(sizes, 0, 5, "each link its own speed");
  bench_sizes({{.ranks = 256}, {.ranks = 512}, {.ranks = 1024}}, 0.1, 1, "each message its own draw");
}

}  // namespace bench
