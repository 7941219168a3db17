// Tests the linear cost model: ring all-reduces of 4 workers, 128 KiB to 16 MiB, over links of 1 Gb/s in
// network namespaces (or on paced loopback), compared with startup + bytes x time per byte at the limited
// rate.

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "collectives/transport/launch.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "core/errors.hpp"
#include "profiler/measure/report.hpp"
#include "validate/netlab/lab.hpp"

namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr double kBitsPerSecond = 1e9;
/// Payload per byte of a full Ethernet frame of 1,514 bytes, for TCP with time stamps.
constexpr double kPayload = 1448.0 / 1514.0;

int rank_of(std::uint32_t rank, const netlab::ScopedLab* lab, const transport::Descriptor& listener,
            const transport::Address& master) {
  if (lab != nullptr) netlab::enter(lab->lab(), rank);
  transport::TcpOptions options;
  if (lab == nullptr) options.bytes_per_second = kBitsPerSecond / 8;
  const transport::Membership membership = {.rank = rank,
                                            .size = kWorkers,
                                            .master = master,
                                            .job = "line",
                                            .listener = rank == 0 ? listener.get() : -1};
  transport::run_rank(membership, options, [&](transport::Tcp& end) {
    const auto engine = measure::find_backend("tcp")->make(end, {.algorithm = "ring"});
    measure::RunOptions wanted = {.repetitions = 20};
    if (lab != nullptr) wanted.drain_bytes = netlab::burst_bytes(kBitsPerSecond);
    for (std::int64_t bytes = 128 << 10; bytes <= 16 << 20; bytes *= 2) wanted.sizes.push_back(bytes);
    const std::vector<measure::Samples> samples = measure::run(end, *engine, wanted);
    if (rank != 0) return;
    fmt::print("{}", measure::table(samples));
    const double bound =
        2.0 * (kWorkers - 1) / kWorkers * 8e6 / kBitsPerSecond / (lab != nullptr ? kPayload : 1);
    const core::Network network = measure::network(samples, {.name = "line", .source = ""});
    std::vector<std::pair<double, double>> points = network.measured[0].curve.points();
    const core::LineFit line = core::fit_line(points);
    fmt::print(
        "straight line: {:.2f} % mean error (bound 2 %), {:.2f} % worst; its slope is {:.4f} of the shaped "
        "rate's {:.6g} us/byte\n",
        100 * line.mean_relative_error, 100 * line.max_relative_error, line.us_per_byte / bound, bound);
  });
  return 0;
}

}  // namespace

int main() {
  std::unique_ptr<netlab::ScopedLab> lab;
  try {
    lab = std::make_unique<netlab::ScopedLab>(
        netlab::Shape{.workers = kWorkers, .bits_per_second = kBitsPerSecond});
  } catch (const core::EnvironmentError& error) {
    fmt::print(stderr, "{}: paced loopback instead\n", error.what());
  }
  transport::Descriptor listener;
  if (!lab) listener = transport::listen_on({.host = "127.0.0.1", .port = 0});
  const transport::Address master =
      lab ? transport::Address{.host = netlab::address(0), .port = 29500} : local_address(listener);
  const auto ends = transport::launch(
      kWorkers, [&](std::uint32_t rank) { return rank_of(rank, lab.get(), listener, master); });
  fmt::print("{}", ends[0].out);
  const std::string failed = transport::failures(ends);
  if (!failed.empty()) fmt::print(stderr, "{}\n", failed);
  return failed.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
