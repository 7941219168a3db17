// Compares matrix products of every instruction set with plain sums, in pieces and as a whole.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "profiler/layers/cpu/kernels.hpp"
#include "sim/draws.hpp"
#include "tests/profiler/instruction_sets.hpp"
#include "tests/support/needs.hpp"

namespace {

using profiler::Product;

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>(sim::uniform(sim::hash(seed, i)) - 0.5));
  return out;
}

/// Returns the largest difference from plain sums in double; `run` computes the product.
template <typename Run>
double largest_error(Product product, const Run& run) {
  const auto count = [](std::int64_t rows, std::int64_t stride) {
    return static_cast<std::size_t>(rows * stride);
  };
  const std::vector<float> a =
      random_values(count(product.a_transposed ? product.inner : product.rows, product.a_stride), 1);
  const std::vector<float> b =
      random_values(count(product.b_transposed ? product.columns : product.inner, product.b_stride), 2);
  std::vector<float> c = random_values(count(product.rows, product.c_stride), 3);
  const std::vector<float> before = c;
  product.a = a.data();
  product.b = b.data();
  product.c = c.data();
  run(product);
  const auto element = [](const std::vector<float>& of, std::int64_t stride, bool transposed, std::int64_t i,
                          std::int64_t j) {
    return static_cast<double>(of[static_cast<std::size_t>(transposed ? j * stride + i : i * stride + j)]);
  };
  double worst = 0;
  for (std::int64_t i = 0; i < product.rows; ++i)
    for (std::int64_t j = 0; j < product.c_stride; ++j) {
      double wanted = element(before, product.c_stride, false, i, j);
      if (j < product.columns && !product.add) wanted = 0;
      for (std::int64_t k = 0; j < product.columns && k < product.inner; ++k)
        wanted += element(a, product.a_stride, product.a_transposed, i, k) *
                  element(b, product.b_stride, product.b_transposed, k, j);
      worst = std::max(worst, std::abs(wanted - element(c, product.c_stride, false, i, j)));
    }
  return worst;
}

/// Either side transposed, added or not.
void check_products(const profiler::InstructionSet& set) {
  const std::int64_t sizes[][3] = {{1, 1, 1}, {1, 37, 19}, {41, 1, 8}, {7, 5, 1}, {33, 65, 47}};
  profiler::Pool pool(2);
  for (const auto& [rows, columns, inner] : sizes)
    for (unsigned bits = 0; bits < 8; ++bits) {
      Product product = {.c_stride = columns + 2, .rows = rows, .columns = columns, .inner = inner};
      product.a_transposed = (bits & 1U) != 0;
      product.b_transposed = (bits & 2U) != 0;
      product.add = (bits & 4U) != 0;
      product.a_stride = (product.a_transposed ? rows : inner) + 3;
      product.b_stride = (product.b_transposed ? inner : columns) + 1;
      const auto& the_rows = rows;  // clang 14 cannot capture a structured binding
      CAPTURE(the_rows);
      CAPTURE(bits);
      CHECK(largest_error(product, set.product) < 1e-5);
      const profiler::Pass pass = {{}, &pool, set.product};
      CHECK(largest_error(product, [&](const Product& p) { run_product(pass, p); }) < 1e-5);
    }
}

TEST_CASE("products: plain sums within 1e-5 on every processor") {
  check_products(support::instruction_set("baseline"));
}
TEST_CASE("products: plain sums within 1e-5 with AVX2" * support::needs(support::no_avx2)) {
  check_products(support::instruction_set("avx2"));
}
TEST_CASE("products: plain sums within 1e-5 with AVX-512" * support::needs(support::no_avx512)) {
  check_products(support::instruction_set("avx512"));
}

TEST_CASE("products: shared out among threads by columns and by rows") {
  profiler::Pool pool(2);
  const auto set = profiler::instruction_sets().front();
  const profiler::Pass pass = {{}, &pool, set.product};
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{70, 90}, {90, 70}})
    for (unsigned bits = 0; bits < 4; ++bits) {
      Product product = {.c_stride = columns, .rows = rows, .columns = columns, .inner = 50};
      product.a_transposed = (bits & 1U) != 0;
      product.b_transposed = (bits & 2U) != 0;
      product.a_stride = product.a_transposed ? rows : product.inner;
      product.b_stride = product.b_transposed ? product.inner : columns;
      CAPTURE(bits);
      CHECK(largest_error(product, [&](const Product& p) { run_product(pass, p); }) < 1e-5);
    }
}

TEST_CASE("pool: every piece once, on threads that exist, again and again") {
  for (const int threads : {1, 2, 5}) {
    profiler::Pool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t count : {0, 1, 3, 100}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
        std::atomic<bool> is_known = true;
        pool.run(count, [&](std::int64_t piece, int thread) {
          ++done[static_cast<std::size_t>(piece)];
          if (thread < 0 || thread >= threads) is_known = false;
        });
        CHECK(is_known);
        CHECK(std::ranges::all_of(done, [](const auto& times) { return times == 1; }));
      }
    }
    std::vector<std::atomic<int>> covered(100);
    run_ranges(pool, 100, 7, [&](std::int64_t begin, std::int64_t end, int part) {
      CHECK_MESSAGE(part < threads, "part");
      for (std::int64_t i = begin; i < end; ++i) ++covered[static_cast<std::size_t>(i)];
    });
    CHECK(std::ranges::all_of(covered, [](const auto& times) { return times == 1; }));
  }
}

TEST_CASE("dropout: the wanted part is dropped, the mean stays, and an element's factor is its own") {
  std::vector<float> factors(40'000);
  profiler::dropout_factors(7, 0, 40'000, 0.25, factors.data());
  double sum = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    sum += static_cast<double>(factors[i]);
    if (i < 50) CHECK(profiler::dropout_factor(7, static_cast<std::int64_t>(i), 0.25) == factors[i]);
  }
  CHECK(sum / 40'000 == doctest::Approx(1).epsilon(0.02));
  CHECK(std::ranges::count(factors, 0.0F) == doctest::Approx(10'000).epsilon(0.05));
  profiler::dropout_factors(7, 0, 100, 1, factors.data());
  CHECK(std::count(factors.begin(), factors.begin() + 100, 0.0F) == 100);
}

}  // namespace
