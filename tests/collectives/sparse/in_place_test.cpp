// Collectives that sum in place: the same bytes and words as those that do not, whether selections are
// gathered at once or go round one at a time.

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/gradients.hpp"
#include "collectives/sparse/hitopk.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace sparse {
namespace {

using transport::Transport;

constexpr std::size_t kElements = 4'000;

std::vector<float> sampled(std::uint32_t rank) {
  return gradient({.seed = 9, .layers = 3}, kElements, rank, 0);
}

std::vector<float> dense(const SparseVector& sum) {
  std::vector<float> out(kElements);
  for (std::size_t i = 0; i < sum.indexes.size(); ++i) out[sum.indexes[i]] = sum.values[i];
  return out;
}

TEST_CASE("in place: topk_a and topk_dsa give the bytes that they give elsewhere, for as many words") {
  for (const std::uint32_t size : {1U, 2U, 5U, 16U})
    for (const std::size_t k : {std::size_t{0}, std::size_t{40}, kElements / 4}) {
      CAPTURE(size);
      CAPTURE(k);
      const auto own = [&](Transport& t) { return compression::top_k(sampled(t.rank()), k); };
      const auto plain = ranks::run(size, [&](Transport& t) { return topk_a(t, own(t), kElements); });
      std::vector<std::size_t> counts(size);
      const auto placed = ranks::run(size, [&](Transport& t) {
        std::vector<float> sum(kElements, 7);
        counts[t.rank()] = topk_a(t, own(t), k, sum);
        return sum;
      });
      const auto parts = ranks::run(size, [&](Transport& t) {
        std::vector<float> sum(kElements, 7);
        topk_dsa(t, own(t), std::span(sum));
        return sum;
      });
      const auto parts_elsewhere =
          ranks::run(size, [&](Transport& t) { return topk_dsa(t, own(t), kElements).sum; });
      for (std::size_t rank = 0; rank < size; ++rank) {
        CHECK(ranks::same(placed.results[rank], dense(plain.results[rank])));
        CHECK(counts[rank] == plain.results[rank].indexes.size());
        CHECK(placed.words_received(rank) == plain.words_received(rank));
        CHECK(placed.counts(rank, "gather").messages_received ==
              plain.counts(rank, "gather").messages_received);
        CHECK(ranks::same(parts.results[rank], parts_elsewhere.results[rank]));
      }
    }
}

TEST_CASE("in place: hitopk gives the bytes that it gives elsewhere, whatever may be gathered at once") {
  for (const std::uint32_t workers : {1U, 2U, 4U})
    for (const std::size_t k : {std::size_t{10}, std::size_t{300}}) {
      CAPTURE(workers);
      CAPTURE(k);
      const Selector select = [&](std::span<const float> shard) { return compression::top_k(shard, k); };
      const auto plain =
          ranks::run(8, [&](Transport& t) { return hitopk(t, sampled(t.rank()), workers, select); });
      std::vector<std::vector<float>> rests(8);
      const auto placed = ranks::run(8, [&](Transport& t) {
        std::vector<float> x = sampled(t.rank());
        std::vector<float>& rest = rests[t.rank()];
        rest.resize(hitopk_shard(t, kElements, workers).size());
        const std::size_t count =
            hitopk(t, std::span(x), {.workers_per_node = workers, .max = k}, select, rest);
        CHECK(count == kElements - static_cast<std::size_t>(std::ranges::count(x, 0.0F)));
        return x;
      });
      for (std::size_t rank = 0; rank < 8; ++rank) {
        CHECK(ranks::same(placed.results[rank], dense(plain.results[rank].sum)));
        CHECK(ranks::same(rests[rank], plain.results[rank].rest));
        CHECK(placed.words_received(rank) == plain.words_received(rank));
      }
    }
}

/// Tracks the messages that have been sent and not received, and the message for which each rank waits.
class Traffic {
 public:
  using Channel = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  ///< receiver, sender and tag

  void send(const Channel& channel, bool has_content) {
    const std::scoped_lock lock(mutex_);
    ++messages_[channel];
    if (has_content) max_ = std::max(max_, ++waiting_[std::get<0>(channel)]);
  }
  void begin_receive(const Channel& channel) {
    const std::scoped_lock lock(mutex_);
    receiving_[std::get<0>(channel)] = channel;
  }
  void end_receive(const Channel& channel, bool has_content) {
    const std::scoped_lock lock(mutex_);
    receiving_.erase(std::get<0>(channel));
    --messages_[channel];
    if (has_content) --waiting_[std::get<0>(channel)];
  }
  /// Returns whether `ranks` ranks wait for messages that nobody has sent.
  bool are_blocked(std::size_t ranks) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(
               receiving_, [&](const auto& each) { return messages_[each.second] == 0; })) == ranks;
  }
  /// The maximum number of messages with content that waited for one rank.
  std::size_t max_waiting() const { return max_; }

 private:
  std::mutex mutex_;
  std::map<Channel, std::size_t> messages_;
  std::map<std::uint32_t, Channel> receiving_;
  std::map<std::uint32_t, std::size_t> waiting_;
  std::size_t max_ = 0;
};

class Watched final : public Transport {
 public:
  Watched(Transport& inner, Traffic& traffic) : inner_(inner), traffic_(traffic) {}
  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, transport::Bytes message) override {
    traffic_.send({to, rank(), tag}, !message.empty());
    inner_.send(to, tag, std::move(message));
  }

 private:
  transport::Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override {
    traffic_.begin_receive({rank(), from, tag});
    transport::Bytes message = inner_.recv(from, tag, max_bytes);
    traffic_.end_receive({rank(), from, tag}, !message.empty());
    return message;
  }

  Transport& inner_;
  Traffic& traffic_;
};

/// The maximum number of messages that wait for one rank if rank 1 begins only when no other rank can
/// continue without it.
std::size_t max_waiting(std::uint32_t size, Window window, bool is_in_order) {
  Traffic traffic;
  transport::run_ranks(size, [&](Transport& end) {
    Watched watched(end, traffic);
    if (end.rank() == 1) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!traffic.are_blocked(size - 1)) {
        if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("others still go on");
        std::this_thread::yield();
      }
    }
    if (is_in_order)
      all_gather_in_order(
          watched, transport::Bytes(8), [](std::span<const std::byte>) {}, window);
    else
      all_gather_each(
          watched, transport::Bytes(8), [](std::uint32_t, std::span<const std::byte>) {}, window);
  });
  return traffic.max_waiting();
}

TEST_CASE("in place: no more messages wait for a late rank than the window lets") {
  for (const std::uint32_t size : {1U, 2U, 3U, 9U})
    for (const Window window : {1U, 2U, 5U})
      for (const bool is_in_order : {false, true}) {
        const std::size_t waiting = max_waiting(size, window, is_in_order);
        CHECK(waiting <= window);
        if (!is_in_order) CHECK(waiting == std::min(window, size - 1));
      }
}

TEST_CASE("in place: one at a time all are visited in the order of ranks, in as many messages") {
  for (const std::uint32_t size : {1U, 2U, 3U, 7U}) {
    const auto ran = ranks::run(size, [](Transport& t) {
      std::vector<std::size_t> sizes;
      all_gather_in_order(t, transport::Bytes(t.rank() + std::size_t{1}),
                          [&](std::span<const std::byte> bytes) { sizes.push_back(bytes.size()); });
      return sizes;
    });
    for (std::size_t rank = 0; rank < size; ++rank) {
      REQUIRE(ran.results[rank].size() == size);
      for (std::size_t i = 0; i < size; ++i) CHECK(ran.results[rank][i] == i + 1);
      CHECK(ran.counts(rank, "").messages_received == size - 1);
      CHECK(ran.counts(rank, "").messages_sent == size - 1);
    }
  }
}

}  // namespace
}  // namespace sparse
