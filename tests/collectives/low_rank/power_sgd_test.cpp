#include "collectives/low_rank/power_sgd.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "sim/draws.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace low_rank {
namespace {

using Floats = std::vector<float>;

float draw(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  return static_cast<float>(sim::standard_normal(sim::hash(seed, a, b)));
}

/// One worker's gradient of the tensors: noise.
Floats noise(std::span<const Matrix> tensors, std::uint64_t seed, std::uint32_t worker) {
  Floats out;
  for (const Matrix& tensor : tensors)
    for (std::size_t i = 0; i < tensor.elements(); ++i) out.push_back(draw(seed, worker, out.size()));
  return out;
}

/// The workers of a job, called again and again.
struct Job {
  std::vector<Matrix> tensors;
  PowerSgdOptions options = {};
  std::uint32_t workers = 1;
  std::vector<PowerSgd> states = std::vector(workers, PowerSgd(tensors, options));
  std::vector<std::int64_t> words_sent = {};

  /// Returns the sum, after checking that all workers have the same.
  Floats sum(const std::vector<Floats>& gradients) {
    const auto ran = ranks::run(workers, [&](transport::Transport& end) {
      Floats own = gradients[end.rank()];
      states[end.rank()].sum(end, own);
      return own;
    });
    words_sent.clear();
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      CHECK(std::equal(ran.results[worker].begin(), ran.results[worker].end(), ran.results[0].begin(),
                       [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
      words_sent.push_back(ran.words_sent(worker));
    }
    return ran.results[0];
  }
};

std::vector<Floats> gradients_of(const Job& job, std::uint64_t seed) {
  std::vector<Floats> out;
  for (std::uint32_t worker = 0; worker < job.workers; ++worker)
    out.push_back(noise(job.tensors, seed, worker));
  return out;
}

std::vector<double> plain_sum(const std::vector<Floats>& gradients) {
  std::vector<double> out(gradients[0].size());
  for (const Floats& each : gradients)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += static_cast<double>(each[i]);
  return out;
}

double length(const std::vector<double>& x) {
  double out = 0;
  for (const double each : x) out += each * each;
  return std::sqrt(out);
}

/// ||sum - wanted|| / ||wanted||
double off(const Floats& sum, std::vector<double> wanted) {
  const double whole = length(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] -= static_cast<double>(sum[i]);
  return length(wanted) / whole;
}

TEST_CASE("power-sgd: a tensor is approximated where that sends less by the factor asked for") {
  // (10 + 20) x 3 x 2 = 180 < 200; with rank 4, 240
  CHECK(is_approximated({.rows = 10, .columns = 20}, {.rank = 3}));
  CHECK_FALSE(is_approximated({.rows = 10, .columns = 20}, {.rank = 4}));
  // (4 + 4) x 1 x 2 = 16 is not less than 16
  CHECK_FALSE(is_approximated({.rows = 4, .columns = 4}, {.rank = 1}));
  CHECK(is_approximated({.rows = 4, .columns = 4}, {.rank = 1, .min_compression_rate = 1.9}));
  CHECK_FALSE(is_approximated({.rows = 1000}, {.rank = 1}));
}

TEST_CASE("power-sgd: what travels are the factors, and the tensors that are not approximated") {
  Job job = {.tensors = {{.rows = 40, .columns = 60}, {.rows = 24}, {.rows = 30, .columns = 20}},
             .options = {.rank = 2},
             .workers = 4};
  CHECK(job.states[0].rest().size() == 24);
  CHECK(job.states[0].p().size() == 40 * 2 + 30 * 2);
  CHECK(job.states[0].q().size() == 60 * 2 + 20 * 2);
  (void)job.sum(gradients_of(job, 1));
  // a ring's 2 (P-1)/P of the three messages, which 4 workers divide evenly
  for (const std::int64_t words : job.words_sent) CHECK(words == 2 * 3 * (24 + 140 + 160) / 4);
}

TEST_CASE("power-sgd: matrices of at most the rank are summed exactly, and so are small tensors") {
  for (const std::size_t rank : {1U, 2U, 3U}) {
    CAPTURE(rank);
    Job job = {
        .tensors = {{.rows = 30, .columns = 50}, {.rows = 7}}, .options = {.rank = rank}, .workers = 3};
    // All workers have the same `rank` rows, weighted differently.
    std::vector<Floats> gradients;
    for (std::uint32_t worker = 0; worker < job.workers; ++worker) {
      Floats own = noise(job.tensors, 5, worker);
      for (std::size_t i = 0; i < 30; ++i)
        for (std::size_t j = 0; j < 50; ++j) {
          own[i * 50 + j] = 0;
          for (std::size_t r = 0; r < rank; ++r) own[i * 50 + j] += draw(7 + r, worker, i) * draw(9, r, j);
        }
      gradients.push_back(own);
    }
    CHECK(off(job.sum(gradients), plain_sum(gradients)) < 1e-5);
  }
}

/// The first step of a matrix in double: the sum of M projected on the columns of the sum of M Q, for a given
/// Q.
std::vector<double> projected(const Matrix& m, const std::vector<double>& sum, const Floats& q,
                              std::size_t rank) {
  std::vector<std::vector<double>> columns;
  for (std::size_t r = 0; r < rank; ++r) {
    std::vector<double> column(m.rows);
    for (std::size_t i = 0; i < m.rows; ++i)
      for (std::size_t j = 0; j < m.columns; ++j)
        column[i] += sum[i * m.columns + j] * static_cast<double>(q[r * m.columns + j]);
    for (const std::vector<double>& other : columns) {
      double along = 0;
      for (std::size_t i = 0; i < m.rows; ++i) along += column[i] * other[i];
      for (std::size_t i = 0; i < m.rows; ++i) column[i] -= along * other[i];
    }
    const double size = length(column);
    for (double& each : column) each /= size;
    columns.push_back(column);
  }
  std::vector<double> out(sum.size());
  for (const std::vector<double>& column : columns)
    for (std::size_t j = 0; j < m.columns; ++j) {
      double along = 0;
      for (std::size_t i = 0; i < m.rows; ++i) along += column[i] * sum[i * m.columns + j];
      for (std::size_t i = 0; i < m.rows; ++i) out[i * m.columns + j] += column[i] * along;
    }
  return out;
}

TEST_CASE("power-sgd: every call projects the sum of gradients and residuals, as in double precision") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const std::size_t rank = 1 + seed % 4;
    Job job = {.tensors = {{.rows = 20 + seed, .columns = 33}},
               .options = {.rank = rank, .min_compression_rate = 1},
               .workers = 1 + static_cast<std::uint32_t>(seed % 5)};
    (void)job.sum(gradients_of(job, 100 + seed));
    const std::span<const float> factors = job.states[0].q();  // from which the next call goes on
    const Floats q(factors.begin(), factors.end());
    std::vector<Floats> given = gradients_of(job, 200 + seed);
    std::vector<double> wanted = plain_sum(given);
    for (const PowerSgd& state : job.states)
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += static_cast<double>(state.residual()[i]);
    CHECK(off(job.sum(given), projected(job.tensors[0], wanted, q, rank)) < 1e-4);
  }
}

TEST_CASE(
    "power-sgd: what a sum leaves out is kept, and the mean of many sums of one gradient is the gradient") {
  Job job = {.tensors = {{.rows = 20, .columns = 30}, {.rows = 5}}, .options = {.rank = 2}, .workers = 4};
  const std::vector<Floats> gradients = gradients_of(job, 3);
  const std::vector<double> whole = plain_sum(gradients);
  std::vector<double> sent(whole.size());
  constexpr int kCalls = 40;
  double first = 0;
  for (int call = 1; call <= kCalls; ++call) {
    const Floats sum = job.sum(gradients);
    if (call == 1) first = off(sum, whole);
    std::vector<double> left(whole.size());
    for (const PowerSgd& state : job.states)
      for (std::size_t i = 0; i < left.size(); ++i) left[i] += static_cast<double>(state.residual()[i]);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      sent[i] += static_cast<double>(sum[i]);
      CHECK(sent[i] + left[i] == doctest::Approx(call * whole[i]).epsilon(1e-4).scale(call));
    }
  }
  for (double& each : sent) each /= kCalls;
  CHECK(off(Floats(sent.begin(), sent.end()), whole) < first / 3);
}

TEST_CASE("power-sgd: nothing stays broken or silent for ever") {
  Job job = {.tensors = {{.rows = 10, .columns = 12}}, .options = {.rank = 2}, .workers = 2};
  const std::vector<Floats> gradients = gradients_of(job, 8);
  const Floats zeros(120);
  for (const float each : job.sum({zeros, zeros})) CHECK(each == 0);
  CHECK(off(job.sum(gradients), plain_sum(gradients)) < 1);
  std::vector<Floats> broken = gradients;
  broken[1][5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(job.sum(broken)[0]));
  const Floats after = job.sum(gradients);
  CHECK(off(after, plain_sum(gradients)) < 1);
}

TEST_CASE("power-sgd: without error feedback nothing is kept but the factors") {
  Job job = {.tensors = {{.rows = 10, .columns = 12}},
             .options = {.rank = 1, .error_feedback = false},
             .workers = 2};
  const std::vector<Floats> gradients = gradients_of(job, 8);
  Floats sum;
  for (int call = 0; call < 300; ++call) sum = job.sum(gradients);
  CHECK(job.states[0].residual().empty());
  // The power iteration converges: one more call gives the same.
  const Floats again = job.sum(gradients);
  CHECK(off(again, std::vector<double>(sum.begin(), sum.end())) < 1e-3);
}

TEST_CASE("power-sgd: a gradient of another size and a rank of 0 are refused") {
  const std::vector<Matrix> tensors = {{.rows = 4}};
  Floats gradient(5);
  CHECK_THROWS_WITH_AS(PowerSgd(tensors, {}).encode(gradient),
                       "power_sgd: the tensors have other sizes than the gradient", std::invalid_argument);
  CHECK_THROWS_WITH_AS(PowerSgd(tensors, {.rank = 0}), "power_sgd: a rank of at least 1 is needed",
                       std::invalid_argument);
}

}  // namespace
}  // namespace low_rank
