// The own kernels' threads together: every thread of a block as a fiber, beside a single one for each row.

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/compression/half.hpp"
#include "profiler/layers/cuda/kernels_on.hpp"
#include "sim/draws.hpp"
#include "tests/collectives/compression/cuda/host_lanes.hpp"
#include "tests/profiler/layers/cuda/alone.hpp"
#include "tests/profiler/layers/cuda/every_kernel.hpp"

namespace {

using profiler::cuda::Kernels;
using profiler::cuda::Type;

/// Rows by one thread each, or by blocks of fibers.
class Launch {
 public:
  explicit Launch(bool by_fibers) : by_fibers_(by_fibers) {}

  void hold(const int* /*flag*/, int /*ticket*/, std::int64_t /*max_ns*/, int* /*late*/) {}
  template <typename Body>
  void each(const Body& body, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  template <typename Body>
  void rows(const Body& body, std::int64_t count) {
    if (by_fibers_) return fibers_.run(profiler::cuda::RowsBody<Body>{body, count}, 3);
    for (std::int64_t i = 0; i < count; ++i) body(support::Alone{}, i);
  }
  template <typename Body>
  void short_rows(const Body& body, std::int64_t count) {
    if (by_fibers_) return fibers_.run(profiler::cuda::ShortRowsBody<Body>{body, count}, 3);
    rows(body, count);
  }

 private:
  bool by_fibers_;
  support::HostBackend fibers_{7};
};

using HostKernels = profiler::cuda::KernelsOn<Launch>;

std::vector<float> sampled(std::size_t count, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(sim::standard_normal(sim::hash(seed, i))));
  return out;
}

void check_near(const std::vector<float>& got, const std::vector<float>& expected, double tolerance = 1e-5) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::abs(static_cast<double>(got[i] - expected[i])) <= tolerance);
  }
}

/// What all kernels of rows leave.
std::vector<float> run_rows(Kernels& kernels, std::int64_t rows, std::int64_t n) {
  const auto size = static_cast<std::size_t>(rows * n);
  const std::vector<float> x = sampled(size, 1);
  const std::vector<float> dy = sampled(size, 2);
  const std::vector<float> weight = sampled(static_cast<std::size_t>(n), 3);
  std::vector<float> out;
  const auto keep = [&](const std::vector<float>& more) { out.insert(out.end(), more.begin(), more.end()); };
  for (const bool has_mean : {false, true}) {
    const profiler::cuda::RowNorm norm = {rows, n, 1e-5F, has_mean};
    std::vector<float> y(size);
    std::vector<float> kept(2 * static_cast<std::size_t>(rows));
    std::vector<float> dx(size, 0.25F);
    kernels.row_norm(Type::float32, norm, x.data(), weight.data(), has_mean ? weight.data() : nullptr,
                     y.data(), kept.data());
    kernels.row_norm_back(Type::float32, norm, x.data(), dy.data(), weight.data(), kept.data(),
                          {dx.data(), true});
    keep(y);
    keep(kept);
    keep(dx);
  }
  for (const bool is_causal : {false, true}) {
    if (is_causal && n < rows) continue;
    const profiler::cuda::Scores scores = {rows, rows, n, 0.3F, is_causal};
    std::vector<float> weights = x;
    std::vector<float> slopes = dy;
    kernels.softmax(Type::float32, scores, weights.data());
    kernels.softmax_back(Type::float32, scores, {11, 1 << 14, 4.0F / 3}, weights.data(), slopes.data());
    keep(weights);
    keep(slopes);
  }
  const profiler::cuda::Channels channels = {3, rows, n / 3};
  if (n % 3 == 0) {
    std::vector<float> y(size);
    std::vector<float> kept(2 * static_cast<std::size_t>(rows));
    std::vector<float> sums(kept.size());
    std::vector<float> to(2 * static_cast<std::size_t>(rows), 1.0F);
    std::vector<float> dx(size);
    const std::int64_t parts = n < 100 ? 1 : 4;
    std::vector<float> partial(2 * static_cast<std::size_t>(rows * parts));
    kernels.channel_norm(Type::float32, channels, parts, 1e-5F, x.data(), dy.data(), dy.data(), y.data(),
                         kept.data(), partial.data());
    kernels.channel_norm_back(Type::float32, channels, parts, x.data(), dy.data(), dy.data(), kept.data(),
                              sums.data(), partial.data(), {dx.data(), false}, {to.data(), true},
                              {to.data() + rows, false});
    kernels.sum_channels(Type::float32, channels, parts, x.data(), partial.data(), {sums.data(), true});
    for (const auto* each : {&y, &kept, &sums, &to, &dx}) keep(*each);
  }
  std::vector<float> logarithms(size);
  kernels.log_softmax(Type::float32, x.data(), logarithms.data(), rows, n);
  keep(logarithms);
  const profiler::cuda::Loss loss = {1, rows, n, 0.7F};
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(rows), static_cast<std::int32_t>(n - 1));
  std::vector<float> lost(1);
  kernels.loss(Type::float32, loss, x.data(), labels.data(), lost.data());
  keep(lost);
  return out;
}

TEST_CASE("cuda kernels: a row by 256 threads is what it is by one, of few and many elements") {
  for (const std::int64_t n : {1, 2, 31, 33, 255, 256, 257, 700}) {
    CAPTURE(n);
    HostKernels alone(false);
    HostKernels together(true);
    check_near(run_rows(together, 5, n), run_rows(alone, 5, n), 1e-4);
  }
}

TEST_CASE("cuda kernels: every one, of each type, by 256 threads is what it is by one, and near float32's") {
  HostKernels alone(false);
  HostKernels together(true);
  const std::vector<float> whole = support::every_kernel_here(alone, Type::float32);
  CHECK(whole.size() > 3000);
  for (const Type type : {Type::float32, Type::float16, Type::bfloat16}) {
    const std::vector<float> expected = support::every_kernel_here(alone, type);
    check_near(support::every_kernel_here(together, type), expected, support::order_tolerance(type));
    check_near(expected, whole, type == Type::bfloat16 ? 0.1 : 0.02);
  }
}

std::vector<std::uint16_t> narrowed(const std::vector<float>& values, Type type) {
  std::vector<std::uint16_t> out;
  for (const float value : values)
    out.push_back(type == Type::float16 ? compression::to_float16(value) : compression::to_bfloat16(value));
  return out;
}

std::vector<float> widened(const std::vector<std::uint16_t>& bits, Type type) {
  std::vector<float> out;
  for (const std::uint16_t each : bits)
    out.push_back(type == Type::float16 ? compression::from_float16(each) : compression::from_bfloat16(each));
  return out;
}

TEST_CASE("cuda kernels: narrow types are read, computed in float32 and rounded once") {
  HostKernels kernels(false);
  for (const Type type : {Type::float16, Type::bfloat16}) {
    const std::vector<std::uint16_t> a = narrowed(sampled(300, 5), type);
    const std::vector<std::uint16_t> b = narrowed(sampled(300, 6), type);
    const std::vector<float> wide_a = widened(a, type);
    const std::vector<float> wide_b = widened(b, type);
    std::vector<std::uint16_t> sum(300);
    std::vector<std::uint16_t> product = b;
    kernels.add(type, a.data(), b.data(), sum.data(), 300);
    kernels.multiply(type, a.data(), b.data(), {product.data(), true}, 300);
    std::vector<float> expected_sum;
    std::vector<float> expected_product;
    for (std::size_t i = 0; i < 300; ++i) {
      expected_sum.push_back(wide_a[i] + wide_b[i]);
      expected_product.push_back(wide_b[i] + wide_a[i] * wide_b[i]);
    }
    CHECK(sum == narrowed(expected_sum, type));
    CHECK(product == narrowed(expected_product, type));
  }
}

TEST_CASE("cuda kernels: the rows' weights are the same in one part and in many") {
  constexpr std::int64_t kRows = 37;
  constexpr std::int64_t kFeatures = 12;
  HostKernels kernels(false);
  const std::vector<float> x = sampled(kRows * kFeatures, 8);
  const std::vector<float> dy = sampled(kRows * kFeatures, 9);
  const std::vector<float> kept = sampled(2 * kRows, 10);
  const auto run = [&](std::int64_t parts) {
    std::vector<float> out(2 * kFeatures);
    std::vector<float> partial(static_cast<std::size_t>(2 * parts * kFeatures));
    kernels.row_norm_weights(Type::float32, {kRows, kFeatures, 1e-5F, true}, x.data(), dy.data(), kept.data(),
                             partial.data(), parts, {out.data(), false}, {out.data() + kFeatures, false});
    return out;
  };
  for (const std::int64_t parts : {2, 5, 37}) check_near(run(parts), run(1), 1e-4);
}

}  // namespace
