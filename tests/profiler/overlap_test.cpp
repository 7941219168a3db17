#include "profiler/measure/overlap/overlap.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"

namespace {

using measure::Collective;

/// Records when its thread communicates.
class Busy final : public measure::Engine {
 public:
  explicit Busy(std::atomic<bool>& is_busy) : is_busy_(is_busy) {}
  void load(std::span<const float> /*values*/) override {}
  void store(std::span<float> /*values*/) override {}
  void start(Collective /*kind*/) override {}
  void finish() override { std::this_thread::sleep_for(std::chrono::microseconds(200)); }
  void enter_thread() override { thread_local const Until end_of_thread(is_busy_); }
  std::string algorithm(Collective /*kind*/) const override { return ""; }
  std::string description() const override { return ""; }

 private:
  struct Until {
    explicit Until(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
    ~Until() { flag_ = false; }
    std::atomic<bool>& flag_;
  };
  std::atomic<bool>& is_busy_;
};

TEST_CASE("overlap: what an iteration takes beside communication, against alone, on every rank") {
  std::vector<std::vector<profiler::OverlapSamples>> seen(2);
  transport::run_ranks(2, [&](transport::Transport& end) {
    std::atomic<bool> is_busy = false;
    Busy engine(is_busy);
    const std::thread::id own = std::this_thread::get_id();
    // Twice as long on rank 1, and half as long again beside communication, so that results are known without
    // a clock.
    const auto compute = [&] {
      REQUIRE(std::this_thread::get_id() == own);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return (end.rank() == 1 ? 2000.0 : 1000.0) * (is_busy ? 1.5 : 1.0);
    };
    seen[end.rank()] =
        profiler::measure_overlap(end, engine, compute, {.bytes = 64, .warm_up = 1, .repetitions = 7});
  });
  for (const auto& ranks : seen) {
    REQUIRE(ranks.size() == 2);
    CHECK(ranks[0].compute_alone.at(0) == 1000);
    CHECK(ranks[1].compute_alone.at(0) == 2000);
    for (const profiler::OverlapSamples& rank : ranks) {
      CHECK(rank.compute_overlapped.size() >= 7);
      CHECK(rank.communication_alone.size() >= 7);
      CHECK(!rank.communication_overlapped.empty());
      CHECK(rank.compute_slowdown() == doctest::Approx(0.5));
    }
  }
}

/// Fails in the thread that communicates.
class Failing final : public measure::Engine {
 public:
  void load(std::span<const float> /*values*/) override {}
  void store(std::span<float> /*values*/) override {}
  void start(Collective /*kind*/) override {
    if (has_entered_) throw core::EnvironmentError("the cable is out");
  }
  void finish() override {}
  void enter_thread() override { has_entered_ = true; }
  std::string algorithm(Collective /*kind*/) const override { return ""; }
  std::string description() const override { return ""; }

 private:
  std::atomic<bool> has_entered_ = false;
};

TEST_CASE("overlap: a failure of the thread that communicates is the rank's") {
  const auto run = [](transport::Transport& end) {
    Failing engine;
    (void)profiler::measure_overlap(end, engine, [] { return 1.0; }, {.bytes = 4, .repetitions = 3});
  };
  CHECK_THROWS_WITH_AS(transport::run_ranks(2, run), "the cable is out", core::EnvironmentError);
}

}  // namespace
