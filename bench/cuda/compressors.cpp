// Benchmarks compression on a GPU, including the host's part: the time, and the share of a large copy's
// bandwidth; one JSON line per compressor and size. With a file name, writes the times of encoding and
// decoding there as fusewise.compressors. Run build/cuda_compressors [FILE] from a release build.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/cuda/costs.hpp"
#include "bench/cuda/timing.hpp"
#include "collectives/compression/cuda/device.hpp"
#include "core/files.hpp"

namespace {

using bench::Timing;
using compression::cuda::Buffer;
using compression::cuda::Device;
using compression::cuda::DeviceBytes;
using compression::cuda::DeviceFloats;
using compression::cuda::DeviceKept;

/// Total size of the inputs to rotate among, several times an L2 cache.
constexpr std::size_t kInputBytes = std::size_t{512} << 20U;

double gigabytes_per_s(double bytes, double ms) { return bytes / ms / 1e6; }

/// The benchmark of one size: several inputs, and memory for results.
class Bench {
 public:
  /// Rates are reported relative to a copy at `copy_gb_per_s`.
  Bench(Device& device, std::size_t elements, double copy_gb_per_s)
      : device_(device), elements_(elements), copy_gb_per_s_(copy_gb_per_s) {
    const std::size_t bytes = elements * sizeof(float);
    const std::size_t sets = std::max<std::size_t>(kInputBytes / bytes, 1);
    const std::vector<float> x = bench::gradient_like(elements, 1);
    for (std::size_t i = 0; i < sets; ++i) inputs_.emplace_back(device, std::span<const float>(x));
    to_ = std::make_unique<Buffer>(device, bytes);
  }

  /// A copy reads and writes, so a pass that only reads moves half the bytes of a copy of the same elements.
  double copy() {
    const double bytes = 2.0 * static_cast<double>(elements_) * sizeof(float);
    const Timing timing = bench::time(device_, [&](std::size_t i) {
      device_.engine().copy(to_->floats(), input(i).data, elements_ * sizeof(float));
    });
    const double rate = gigabytes_per_s(bytes, timing.median_ms);
    if (copy_gb_per_s_ == 0) copy_gb_per_s_ = rate;
    print("copy", 0, timing, bytes, 1);
    return rate;
  }

  /// `bytes` is the minimum that must be read and written; `passes` is the number of passes of the kernels
  /// over the elements.
  void run(const std::string& name, double density, double bytes, double passes,
           const std::function<void(DeviceFloats)>& work) {
    print(name, density, bench::time(device_, [&](std::size_t i) { work(input(i)); }), bytes, passes);
  }

  void selections(double density) {
    const std::size_t k = compression::kept_elements(elements_, density);
    const double bytes = dense_bytes() + 8.0 * static_cast<double>(k);
    const float threshold = last_value(compression::cuda::top_k(device_, input(0), k));
    run("at_least", density, bytes, 1, [&](DeviceFloats x) { at_least(device_, x, threshold); });
    run("top-k", density, bytes, 2, [&](DeviceFloats x) { top_k(device_, x, k); });
    run("mstopk", density, bytes, 2, [&](DeviceFloats x) { mstopk(device_, x, k, 1); });
    run("dgc", density, bytes, 1.08, [&](DeviceFloats x) { dgc(device_, x, k, 1); });
    run("random-k", density, 12.0 * static_cast<double>(k), 0,
        [&](DeviceFloats x) { random_k(device_, x, k, 1); });
    run("gaussian-k", density, bytes, 2, [&](DeviceFloats x) { gaussian_k(device_, x, k); });
    compression::ReusedThreshold reused;
    run("threshold", density, bytes, 1, [&](DeviceFloats x) { reuse_threshold(device_, x, k, reused); });
    const DeviceKept kept = top_k(device_, input(0), k);
    run("add kept", density, 16.0 * static_cast<double>(k), 0,
        [&](DeviceFloats) { device_.engine().add_kept(kept, to_->floats(), false); });
  }

  void signs() {
    const double sign_bytes = static_cast<double>(elements_) / 8;
    run("efsignsgd", 0, dense_bytes() + sign_bytes, 1, [&](DeviceFloats x) { efsignsgd(device_, x); });
    run("onebit", 0, dense_bytes() + sign_bytes, 1, [&](DeviceFloats x) { onebit(device_, x); });
    const DeviceBytes encoded = efsignsgd(device_, input(0));
    run("add signs", 0, 2 * dense_bytes() + sign_bytes, 1, [&](DeviceFloats) {
      device_.engine().add_signs(encoded.data + sizeof(float), {1, -1}, to_->floats(), elements_, false);
    });
  }

  void halves() {
    using compression::cuda::Half;
    for (const auto& [name, kind] : {std::pair{"fp16", Half::float16}, std::pair{"bf16", Half::bfloat16}})
      run(name, 0, dense_bytes() * 1.5, 1,
          [&, kind = kind](DeviceFloats x) { compression::cuda::halves(device_, x, kind); });
    const DeviceBytes encoded = compression::cuda::halves(device_, input(0), Half::float16);
    run("add fp16", 0, 2.5 * dense_bytes(), 1, [&](DeviceFloats) {
      device_.engine().add_halves(encoded.data, Half::float16, to_->floats(), elements_, false);
    });
  }

 private:
  DeviceFloats input(std::size_t i) const {
    return {.data = inputs_[i % inputs_.size()].floats(), .count = elements_};
  }
  double dense_bytes() const { return static_cast<double>(elements_ * sizeof(float)); }

  /// Returns the smallest magnitude kept.
  float last_value(const DeviceKept& kept) {
    const compression::SparseVector here = download(device_, kept);
    return here.values.empty() ? 0 : compression::kth_magnitude(here.values, here.values.size());
  }

  void print(const std::string& name, double density, const Timing& timing, double bytes,
             double passes) const {
    const double rate = gigabytes_per_s(bytes, timing.median_ms);
    fmt::print(
        R"({{"bench": "{}", "elements": {}, "density": {}, "median_us": {:.3f}, "least_us": {:.3f}, )"
        R"("quartile_range_us": {:.3f}, "bytes": {:.0f}, "gb_per_s": {:.1f}, "of_copy": {:.4f}, "passes": {}}})"
        "\n",
        name, elements_, density, timing.median_ms * 1e3, timing.min_ms * 1e3, timing.quartile_range_ms * 1e3,
        bytes, rate, rate / copy_gb_per_s_, passes);
    std::fflush(stdout);
  }

  Device& device_;
  std::size_t elements_;
  std::vector<Buffer> inputs_;
  std::unique_ptr<Buffer> to_;
  double copy_gb_per_s_;
};

void run(const std::string& costs_file) {
  Device device;
  const compression::cuda::DeviceInfo info = device.info();
  fmt::print(R"({{"device": "{}", "multiprocessors": {}, "memory_bytes": {}}})"
             "\n",
             info.name, info.multiprocessors, info.memory_bytes);
  constexpr std::size_t kMax = std::size_t{128} << 20U;
  const double copy_gb_per_s = Bench(device, kMax, 0).copy();
  for (std::size_t elements = std::size_t{256} << 10U; elements <= kMax; elements *= 2) {
    Bench bench(device, elements, copy_gb_per_s);
    bench.copy();
    for (const double density : {0.001, 0.01, 0.1}) bench.selections(density);
    bench.signs();
    bench.halves();
  }
  if (!costs_file.empty())
    core::write_file(costs_file,
                     core::compressor_costs_text(bench::costs_on(device, {}, "cuda_compressors")));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
