// A channel that goes by layer: of the collectives that become ready at one moment, the one for the layer
// nearest the input runs first, as in the simulator, and handed-over collectives are not overtaken.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/validate/live/live.hpp"
#include "validate/live/channel.hpp"

namespace {

using Items = std::vector<std::uint32_t>;

live::Request request(std::uint32_t group, std::int32_t layer, std::int64_t bytes = 40) {
  return {.label = {.kind = planner::TaskLabel::Kind::all_reduce, .item = group},
          .group = group,
          .priority = layer,
          .size = bytes};
}

/// The collectives that a channel with that credit runs, in order. The second batch is posted while the first
/// collective runs, so the result does not depend on thread timing.
Items carried(std::int64_t credit, const std::vector<live::Request>& first,
              const std::vector<live::Request>& second) {
  Items out;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_posted = false;
  transport::run_ranks(1, [&](transport::Transport& transport) {
    const auto carry = [&](const live::Request& each) {
      std::unique_lock lock(mutex);
      out.push_back(each.group);
      changed.notify_all();
      if (!changed.wait_for(lock, std::chrono::seconds(20), [&] { return is_posted; }))
        throw std::runtime_error("nothing was posted");
    };
    live::Channel channel(transport, {.credit = credit, .deadline = std::chrono::seconds(20)}, carry);
    channel.post(first);
    {
      std::unique_lock lock(mutex);
      if (!changed.wait_for(lock, std::chrono::seconds(20), [&] { return !out.empty(); }))
        throw std::runtime_error("nothing was carried");
    }
    channel.post(second);
    {
      const std::scoped_lock lock(mutex);
      is_posted = true;
      changed.notify_all();
    }
    for (std::size_t i = 0; i < first.size() + second.size(); ++i) channel.wait(i);
  });
  return out;
}

TEST_CASE("live: of partitions that are ready at once the nearest to the input goes first") {
  const std::vector<live::Request> first = {request(0, 5), request(1, 5), request(2, 3), request(3, 4)};
  const std::vector<live::Request> second = {request(4, 2), request(5, 1)};
  // one at a time: the second batch is nearer to the input than all waiting ones
  CHECK(carried(40, first, second) == Items{2, 5, 4, 3, 0, 1});
  // two are handed over at once, then one after each end
  CHECK(carried(100, first, second) == Items{2, 3, 5, 4, 0, 1});
  CHECK(carried(1000, first, second) == Items{2, 3, 0, 1, 5, 4});
  // only whole partitions are handed over; one larger than the credit runs alone
  CHECK(carried(79, {request(0, 2, 10), request(1, 1, 100)}, {request(2, 3, 60)}) == Items{1, 0, 2});
}

/// Backward takes time in the last and the first layer, so the gradients of all but the first layer are ready
/// at one moment.
core::Profile two_moments() {
  core::Profile out = live_tests::small_profile();
  const std::vector<std::vector<std::int64_t>> elements = {{50}, {100, 20}, {}, {30}, {60}};
  out.layers.resize(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    out.layers[i].tensors.clear();
    out.layers[i].backward_us = i == 0 || i + 1 == elements.size() ? 400 : 0;
    for (std::size_t t = 0; t < elements[i].size(); ++t)
      out.layers[i].tensors.push_back(
          {.name = out.layers[i].name + "." + std::to_string(t), .elements = elements[i][t]});
  }
  return out;
}

Items collectives(const live::Iteration& iteration) {
  Items out;
  for (const live::Piece& piece : iteration.pieces)
    if (piece.is_collective()) out.push_back(piece.item);
  return out;
}

TEST_CASE("live: bytescheduler's partitions run in the simulator's order") {
  live::RunSpec spec = live_tests::spec_for(
      R"({"name": "bytescheduler", "partition_bytes": 240, "credit_bytes": 1000000})", 3);
  spec.profile = two_moments();
  const live_tests::Ran ran = live_tests::run(spec);
  // partitions in backward order: layer4.0 is 0, layer3.0 is 1, layer1.1 2, layer1.0 3 and 4, layer0.0 5
  const Items order = {2, 3, 4, 1, 0, 5};
  CHECK(collectives(ran.prediction.iterations[0]) == order);
  for (const live::WorkerRecord& worker : ran.workers)
    for (const live::Iteration& iteration : worker.iterations) CHECK(collectives(iteration) == order);
}

/// One rank alone, which has waited for a processor ever since it was made, or never.
class Delayed final : public transport::Transport {
 public:
  explicit Delayed(bool is_delayed) : is_delayed_(is_delayed) {}
  std::uint32_t rank() const override { return 0; }
  std::uint32_t size() const override { return 1; }
  void send(std::uint32_t, std::uint32_t, transport::Bytes) override {}
  std::chrono::nanoseconds scheduling_delay() override {
    return is_delayed_ ? live::Clock::now() - made_ : std::chrono::nanoseconds::zero();
  }

 private:
  transport::Bytes receive(std::uint32_t, std::uint32_t, std::size_t) override { return {}; }

  live::Clock::time_point made_ = live::Clock::now();
  bool is_delayed_;
};

TEST_CASE("live: a collective that goes on for ever is given up, later where workers wait for a processor") {
  using std::chrono::milliseconds;
  for (const bool is_delayed : {false, true}) {
    CAPTURE(is_delayed);
    Delayed transport(is_delayed);
    std::atomic<bool> ends = false;
    const auto begun = live::Clock::now();
    live::Channel channel(transport, {.deadline = milliseconds(50)}, [&](const live::Request&) {
      while (!ends) std::this_thread::sleep_for(milliseconds(1));
    });
    channel.post({request(0, 0)});
    CHECK_THROWS_WITH_AS(channel.wait(0), "no collective has ended for 0.05 s", core::EnvironmentError);
    // A second more than the deadline, which grows to four times itself.
    CHECK(live::Clock::now() - begun >= milliseconds(is_delayed ? 1200 : 1050));
    ends = true;
  }
}

}  // namespace
