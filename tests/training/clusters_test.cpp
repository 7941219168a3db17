#include "training/clusters.hpp"

#include <bit>
#include <map>

#include <doctest/doctest.h>

#include "sim/draws.hpp"

namespace {

using training::Batch;
using training::Clusters;
using training::Matrix;

std::map<std::uint32_t, int> counts(const Batch<float>& batch) {
  std::map<std::uint32_t, int> out;
  for (const std::uint32_t label : batch.labels) ++out[label];
  return out;
}

std::uint64_t fingerprint(const Matrix<float>& x) {
  std::uint64_t out = 0;
  for (Eigen::Index i = 0; i < x.size(); ++i)
    out = sim::hash_on(out, std::bit_cast<std::uint32_t>(x.data()[i]));
  return out;
}

}  // namespace

TEST_CASE("clusters: the same bits on any machine") {
  const Clusters clusters = {.seed = 7};
  const Matrix<float> centres = training::centres(clusters);
  CHECK(fingerprint(centres) == 0xd8ccc2716063897d);
  const Batch<float> batch =
      training::draw_batch(clusters, centres, {.worker = 1, .workers = 4, .iteration = 9, .samples = 50});
  CHECK(fingerprint(batch.inputs) == 0x64e373217dda582d);
  CHECK(fingerprint(training::draw_held_out(clusters, centres, 50).inputs) == 0x4def34fb7454eae2);
}

TEST_CASE("clusters: samples lie about the centres of their class, a unit of deviation each way") {
  const Clusters clusters = {.dimensions = 8, .classes = 3, .per_class = 1, .spread = 2};
  const Matrix<float> centres = training::centres(clusters);
  const Batch<float> batch = training::draw_batch(clusters, centres, {.samples = 5000});
  double sum = 0;
  for (Eigen::Index i = 0; i < 5000; ++i)
    sum += static_cast<double>(
        (batch.inputs.col(i) - centres.col(batch.labels[static_cast<std::size_t>(i)])).squaredNorm());
  CHECK(sum / (5000 * 8) == doctest::Approx(1).epsilon(0.03));
}

TEST_CASE("clusters: workers see all classes alike, or with skew mostly their own") {
  const Clusters alike = {.classes = 6};
  Clusters skewed = alike;
  skewed.skew = 1;
  const Matrix<float> centres = training::centres(alike);
  for (const std::uint32_t worker : {0U, 1U, 3U}) {
    const training::Draw draw = {.worker = worker, .workers = 4, .samples = 6000};
    for (const auto& [label, count] : counts(training::draw_batch(alike, centres, draw)))
      CHECK(count == doctest::Approx(1000).epsilon(0.12));
    for (const auto& [label, count] : counts(training::draw_batch(skewed, centres, draw)))
      CHECK(label % 4 == worker);
  }
  CHECK(counts(training::draw_batch(skewed, centres, {.workers = 4, .samples = 100})).size() == 2);
  CHECK(counts(training::draw_held_out(alike, centres, 60)) ==
        std::map<std::uint32_t, int>{{0, 10}, {1, 10}, {2, 10}, {3, 10}, {4, 10}, {5, 10}});
}

TEST_CASE("clusters: no two workers or iterations see the same batch") {
  const Clusters clusters;
  const Matrix<float> centres = training::centres(clusters);
  const auto first = [&](std::uint32_t worker, std::uint64_t iteration) {
    return training::draw_batch(clusters, centres,
                                {.worker = worker, .workers = 4, .iteration = iteration, .samples = 1})
        .inputs(0, 0);
  };
  CHECK(first(0, 0) == first(0, 0));
  CHECK(first(0, 0) != first(1, 0));
  CHECK(first(0, 0) != first(0, 1));
  CHECK(first(0, 1) != first(1, 0));
}
