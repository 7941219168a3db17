#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/inputs.hpp"
#include "bench/measure.hpp"
#include "planner/run/predict.hpp"
#include "sim/cluster/messages.hpp"

namespace bench {
namespace {

constexpr std::uint32_t kRanks = 2048;

/// Each rank always sends to the rank `ahead` of it; in the second half it no longer sums.
class Ring : public cluster::Pattern {
 public:
  explicit Ring(std::uint32_t rounds, std::uint32_t ahead = 1) : rounds_(rounds), ahead_(ahead) {}

  std::uint32_t ranks() const override { return kRanks; }
  std::uint32_t rounds() const override { return rounds_; }
  cluster::Exchange exchange(std::uint32_t rank, std::uint32_t round) const override {
    return {.to = (rank + ahead_) % kRanks,
            .from = (rank + kRanks - ahead_) % kRanks,
            .bytes_out = kBytes,
            .bytes_in = kBytes,
            .sums = round < rounds_ / 2};
  }

 private:
  static constexpr std::int64_t kBytes = 12'500;
  std::uint32_t rounds_;
  std::uint32_t ahead_;
};

cluster::Links links_of(double sigma) {
  return {.levels = {{.ranks = 8, .link = {.startup_us = 5, .us_per_byte = 0.00002}},
                     {.ranks = kRanks, .link = {.startup_us = 30, .us_per_byte = 0.00034}}},
          .sum_us_per_byte = 0.00001,
          .slowdown = {},
          .sigma = sigma};
}

/// Two levels, like the links above, so that each message of a ring between neighbours has a link of its own.
cluster::Topology topology_of() {
  return cluster::make_topology({.kind = cluster::TopologyKind::leaf_spine,
                                 .startup_us = 5,
                                 .gpus_per_node = 8,
                                 .inside = {.us_per_byte = 0.00002},
                                 .nic = {.latency_us = 1, .us_per_byte = 0.00034},
                                 .nodes_per_leaf = 16,
                                 .spines = 4,
                                 .uplink_latency_us = 1},
                                kRanks);
}

/// Returns the number of messages.
std::uint64_t run(const cluster::Links& links, std::optional<cluster::Topology> topology,
                  const std::shared_ptr<const cluster::Pattern>& pattern) {
  cluster::Messages messages(links, std::move(topology));
  const std::uint32_t collective = messages.add(pattern, 1);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) messages.enter(collective, rank, sim::Time::zero());
  while (messages.next(sim::Time::max())) {
  }
  return messages.delivered();
}

void bench_events() {
  const auto ring = std::make_shared<Ring>(1000);
  const cluster::Links links = links_of(0.1);
  std::uint64_t messages = 0;
  const Measurement result = measure(3, [&] { messages = run(links, std::nullopt, ring); });
  fmt::print("{:<80} {:>10.2f} million/s  bound 20{}\n", "events, 2048 pending, each with a draw",
             static_cast<double>(messages) / result.ms / 1e3,
             static_cast<double>(messages) / result.ms / 1e3 < 20 ? ", OVER" : "");
  fmt::print("{:<80} {:>10.1f} bytes  bound 40\n", "memory per pending event",
             static_cast<double>(result.peak_bytes) / kRanks);
}

void bench_ring(const std::string& what, double sigma, const std::optional<cluster::Topology>& topology,
                const Bound& bound) {
  const cluster::Links links = links_of(sigma);
  const auto ring = std::make_shared<Ring>(2 * (kRanks - 1));
  std::uint64_t messages = 0;
  const Measurement result = measure(2, [&] { messages = run(links, topology, ring); });
  report(fmt::format("ring all-reduce, {} ranks, {}: {} messages", kRanks, what, messages), result, bound);
}

/// All messages of a node leave by one NIC and cross a spine: each that begins or ends changes many others.
void bench_shared() {
  const cluster::Links links = links_of(0.1);
  const auto across = std::make_shared<Ring>(4, kRanks / 2);
  std::uint64_t messages = 0;
  const Measurement result = measure(1, [&] { messages = run(links, topology_of(), across); });
  report(
      fmt::format("half the cluster ahead, {} ranks, all links shared, draws: {} messages", kRanks, messages),
      result);
}

/// Rings that share no link are not simulated message by message.
void bench_alone() {
  const core::Profile profile = profile_of(161);
  const core::Network network = network_of();
  for (const double sigma : {0.0, 0.1}) {
    planner::Conditions conditions = {.iterations = 1, .fidelity = planner::Fidelity::messages};
    conditions.links.sigma = sigma;
    const planner::Setting setting(profile, network, kRanks, {}, conditions);
    const Measurement result = measure(1, [&] { (void)planner::run(setting, schedule_of(R"("ddp")")); });
    report(fmt::format("messages that share no link, ddp, 161 tensors on {} ranks, critical path, {}", kRanks,
                       sigma > 0 ? "draws" : "alike"),
           result);
  }
}

}  // namespace

void messages() {
  bench_events();
  bench_ring("alike", 0, std::nullopt, {.ms = 2500, .mb = 500});
  bench_ring("draws", 0.1, std::nullopt, {.ms = 2500, .mb = 500});
  bench_ring("links not shared", 0, topology_of(), {});
  bench_ring("links not shared, draws", 0.1, topology_of(), {});
  bench_shared();
  bench_alone();
}

}  // namespace bench
