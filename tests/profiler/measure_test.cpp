#include "profiler/measure/report.hpp"

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "tests/support/corrupting_transport.hpp"

namespace {

using measure::Collective;
using measure::Samples;

TEST_CASE("measure: every collective of every backend is timed and checked, isolated and in a row") {
  for (const measure::CollectiveBackend& backend : measure::collective_backends())
    if (backend.uses_control)
      for (const measure::Timing timing :
           {measure::Timing::isolated, measure::Timing::back_to_back, measure::Timing::following})
        for (const std::uint32_t size : {2U, 3U, 4U}) {
          CAPTURE(backend.name);
          CAPTURE(size);
          measure::RunOptions wanted = {.collectives = {},
                                        .sizes = {4, 4096, 100'000},
                                        .repetitions = 3,
                                        .warm_up = 1,
                                        .timing = timing};
          for (const measure::CollectiveEntry& entry : measure::collectives())
            wanted.collectives.push_back(entry.kind);
          std::vector<Samples> samples;
          transport::run_ranks(size, [&](transport::Transport& end) {
            const auto engine = backend.make(end, {.algorithm = "ring"});
            std::vector<Samples> own = measure::run(end, *engine, wanted);
            if (end.rank() == 0)
              samples = std::move(own);
            else if (!own.empty())
              throw std::runtime_error("only rank 0 has samples");
          });
          REQUIRE(samples.size() == 15);
          CHECK(samples[0].algorithm == "ring");
          CHECK(samples[4].bytes == 4096);
          for (const Samples& each : samples) {
            CHECK(each.workers == size);
            CHECK(each.us.size() == 3);
            for (const double us : each.us) CHECK(us > 0);
          }
        }
}

/// Leaves every buffer unchanged.
class Lazy final : public measure::Engine {
 public:
  void load(std::span<const float> values) override { values_.assign(values.begin(), values.end()); }
  void store(std::span<float> values) override { std::copy(values_.begin(), values_.end(), values.begin()); }
  void start(Collective /*kind*/) override {}
  void finish() override {}
  std::string algorithm(Collective /*kind*/) const override { return ""; }
  std::string description() const override { return ""; }

 private:
  std::vector<float> values_;
};

TEST_CASE("measure: a collective that does nothing is found out, whatever it should have done") {
  for (const measure::CollectiveEntry& entry : measure::collectives()) {
    CAPTURE(entry.name);
    const auto run = [&](transport::Transport& end) {
      Lazy engine;
      (void)measure::run(end, engine,
                         {.collectives = {entry.kind}, .sizes = {64}, .repetitions = 1, .warm_up = 1});
    };
    CHECK_THROWS_AS(transport::run_ranks(3, run), core::EnvironmentError);
  }
}

/// Sums two ranks; of several collectives in a row, one result is wrong.
class OneWrong final : public measure::Engine {
 public:
  OneWrong(std::uint32_t in_a_row, std::uint32_t wrong) : in_a_row_(in_a_row), wrong_(wrong) {}

  void load(std::span<const float> /*values*/) override { started_ = 0; }
  void store(std::span<float> values) override {
    std::vector<float> other(values.size());
    const measure::TestData data(2);
    data.fill(0, values);
    data.fill(1, other);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other[i];
    if (started_ == in_a_row_ && stored_++ == wrong_) values.back() += 1;
  }
  void start(Collective /*kind*/) override { ++started_; }
  void finish() override {}
  std::uint32_t keeps() const override { return in_a_row_; }
  std::string algorithm(Collective /*kind*/) const override { return ""; }
  std::string description() const override { return ""; }

 private:
  std::uint32_t in_a_row_;
  std::uint32_t wrong_;
  std::uint32_t started_ = 0;
  std::uint32_t stored_ = 0;
};

TEST_CASE("measure: one wrong sum of several in a row is found out, whichever it is") {
  const auto run = [](measure::Timing timing, std::uint32_t in_a_row, std::uint32_t wrong) {
    transport::run_ranks(2, [&](transport::Transport& end) {
      OneWrong engine(in_a_row, end.rank() == 1 ? wrong : UINT32_MAX);
      (void)measure::run(
          end, engine,
          {.collectives = {Collective::all_reduce}, .sizes = {64}, .repetitions = 1, .timing = timing});
    });
  };
  using enum measure::Timing;
  for (const auto& [timing, in_a_row] :
       {std::pair(back_to_back, measure::kBatch), std::pair(following, 2U)}) {
    const auto& the_in_a_row = in_a_row;  // clang 14 cannot capture a structured binding
    CAPTURE(the_in_a_row);
    run(timing, in_a_row, in_a_row);
    for (std::uint32_t wrong = 0; wrong < in_a_row; ++wrong)
      CHECK_THROWS_AS(run(timing, in_a_row, wrong), core::EnvironmentError);
  }
}

TEST_CASE("measure: a changed byte of what drains the link is found out") {
  const auto run = [](std::size_t changed) {
    transport::run_ranks(3, [&](transport::Transport& end) {
      tests::CorruptingTransport changing(end, changed, changed);
      const auto engine = measure::collective_backends().front().make(end, {.algorithm = "ring"});
      (void)measure::run(
          changing, *engine,
          {.collectives = {Collective::all_reduce}, .sizes = {64}, .repetitions = 1, .drain_bytes = 77'777});
    });
  };
  run(77'776);
  CHECK_THROWS_AS(run(77'777), core::EnvironmentError);
}

TEST_CASE("measure: a wrong value is named") {
  const measure::TestData data(2);
  std::vector<float> values(4);
  data.fill(1, values);
  CHECK(values == std::vector<float>{-900, -863, -826, -789});
  CHECK(data.fault(Collective::send_receive, 0, values) == "");
  CHECK(data.fault(Collective::broadcast, 1, values) == "value 0 of 4 must be -1001 and is -900");
  const std::vector<float> sums = {-1901, -1827, -1753, -1679};
  CHECK(data.fault(Collective::all_reduce, 1, sums) == "");
  const std::vector<float> own = {0, 0, -1753, -1679};
  CHECK(data.fault(Collective::reduce_scatter, 1, own) == "");
  CHECK(data.fault(Collective::reduce_scatter, 0, own) == "value 0 of 4 must be -1901 and is 0");
}

Samples samples(Collective kind, std::int64_t bytes, std::vector<double> us) {
  return {.collective = kind,
          .algorithm = "ring",
          .ran = "ring",
          .workers = 4,
          .bytes = bytes,
          .us = std::move(us)};
}

TEST_CASE("measure: medians become curves, send_receive the link, and what is written can be read") {
  const std::vector<Samples> all = {
      samples(Collective::all_reduce, 1000, {30, 10, 20}), samples(Collective::all_reduce, 2000, {30}),
      samples(Collective::broadcast, 1000, {5}), samples(Collective::send_receive, 1000, {12}),
      samples(Collective::send_receive, 2000, {14})};
  const core::Network network = measure::network(all, {.name = "n", .source = "s", .line_rate_gbps = 1});
  REQUIRE(network.measured.size() == 1);
  CHECK(network.measured[0].curve.points() == std::vector<std::pair<double, double>>{{1000, 20}, {2000, 30}});
  CHECK(network.measured[0].algorithm == "ring");
  CHECK(network.measured[0].workers == 4);
  CHECK(network.measured[0].fit->mean_relative_error == doctest::Approx(0));
  CHECK(network.link->alpha_us == doctest::Approx(10));
  CHECK(network.link->beta_us_per_byte == doctest::Approx(0.002));
  CHECK(core::read_network(core::Field::parse(core::network_text(network), "n.json")) == network);
  CHECK(measure::csv({all[0]}) ==
        "collective,algorithm,workers,bytes,repetition,us\nall_reduce,ring,4,1000,1,30\nall_reduce,ring,4,"
        "1000,2,10\n"
        "all_reduce,ring,4,1000,3,20\n");
  CHECK_THROWS_AS(measure::network({all[2]}, {.name = "n", .source = ""}), core::EnvironmentError);
}

}  // namespace
