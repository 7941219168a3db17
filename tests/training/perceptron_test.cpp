#include "training/perceptron.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include "sim/draws.hpp"
#include "training/clusters.hpp"

namespace {

using training::Batch;
using training::Matrix;
using training::Shape;
using training::Vector;

Batch<double> random_batch(const Shape& shape, std::size_t samples, std::uint64_t seed) {
  Batch<double> out{
      Matrix<double>(static_cast<Eigen::Index>(shape.front()), static_cast<Eigen::Index>(samples)), {}};
  for (Eigen::Index i = 0; i < out.inputs.size(); ++i)
    out.inputs.data()[i] = sim::standard_normal(sim::hash(seed, i));
  for (std::size_t i = 0; i < samples; ++i)
    out.labels.push_back(static_cast<std::uint32_t>(sim::hash(seed, samples, i) % shape.back()));
  return out;
}

/// Biases included, which start at 0.
Vector<double> random_parameters(const Shape& shape, std::uint64_t seed) {
  Vector<double> out(static_cast<Eigen::Index>(training::parameter_count(shape)));
  for (Eigen::Index i = 0; i < out.size(); ++i) out[i] = 0.5 * sim::standard_normal(sim::hash(seed, i, 1));
  return out;
}

}  // namespace

TEST_CASE("perceptron: parameters are a weight for each pair of neighbours and a bias for each output") {
  CHECK(training::parameter_count({3, 4, 2}) == 3 * 4 + 4 + 4 * 2 + 2);
  CHECK(training::parameter_count({32, 84, 84, 6}) == 10422);
}

TEST_CASE("perceptron: two layers by hand") {
  // weights column by column: hidden = (1 x0 + 3 x1 + 0, 2 x0 - 1 x1 - 1), outputs = (h0, h1)
  const Shape shape = {2, 2, 2};
  Vector<double> parameters(12);
  parameters << 1, 2, 3, -1, 0, -1, 1, 0, 0, 1, 0, 0;
  Batch<double> batch{Matrix<double>(2, 1), {1}};
  batch.inputs << 1, 2;  // hidden = (7, 2 - 2 - 1 = -1 -> 0)
  Vector<double> gradient;
  CHECK(training::loss(shape, parameters, batch, &gradient) ==
        doctest::Approx(std::log(1 + std::exp(7.0))).epsilon(1e-12));
  const double p = 1 / (1 + std::exp(-7.0));  // of class 0: the outputs' gradient is (p, -p)
  Vector<double> expected(12);
  expected << p, 0, 2 * p, 0, p, 0, 7 * p, -7 * p, 0, 0, p, -p;
  CHECK((gradient - expected).norm() < 1e-12);
}

TEST_CASE("perceptron: parameters that are all 0 lose log(classes) nats") {
  const Shape shape = {5, 7, 3};
  const Vector<double> zeros =
      Vector<double>::Zero(static_cast<Eigen::Index>(training::parameter_count(shape)));
  CHECK(training::loss(shape, zeros, random_batch(shape, 4, 1)) == doctest::Approx(std::log(3.0)));
}

TEST_CASE("perceptron: the gradient is what finite differences say") {
  for (const Shape& shape : {Shape{4, 3}, Shape{5, 8, 3}, Shape{6, 9, 7, 4}})
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      const Batch<double> batch = random_batch(shape, 5, seed);
      Vector<double> parameters = random_parameters(shape, seed);
      Vector<double> gradient;
      training::loss(shape, parameters, batch, &gradient);
      for (Eigen::Index i = 0; i < parameters.size(); ++i) {
        constexpr double kStep = 1e-5;
        const double at = parameters[i];
        parameters[i] = at + kStep;
        const double above = training::loss(shape, parameters, batch);
        parameters[i] = at - kStep;
        const double below = training::loss(shape, parameters, batch);
        parameters[i] = at;
        REQUIRE(std::abs((above - below) / (2 * kStep) - gradient[i]) < 1e-8);
      }
    }
}

TEST_CASE("perceptron: first weights have variance 2 / inputs, first biases are 0") {
  const Shape shape = {200, 100, 4};
  const Vector<float> parameters = training::initial_parameters(shape, 3);
  const auto weights = parameters.head(20000);
  CHECK(weights.squaredNorm() / 20000 * 200 / 2 == doctest::Approx(1).epsilon(0.02));
  CHECK(std::abs(weights.mean()) < 0.003);
  CHECK(parameters.segment(20000, 100).norm() == 0);
  CHECK(parameters.tail(4).norm() == 0);
  CHECK(training::initial_parameters(shape, 3) == parameters);
  CHECK(training::initial_parameters(shape, 4) != parameters);
}
