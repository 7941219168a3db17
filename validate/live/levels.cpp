#include "validate/live/levels.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "collectives/sparse/nodes.hpp"
#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "core/errors.hpp"
#include "core/line_fit.hpp"
#include "core/statistics.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/fusion_buffer.hpp"

namespace live {
namespace {

using transport::Group;
using transport::Transport;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Times one kind of link.
class LinkTimer {
 public:
  /// `ring` is a ring that includes this rank; ranks that do not take part wait.
  LinkTimer(Transport& all, Transport& ring, bool takes_part, std::int64_t burst_bytes)
      : all_(all),
        ring_(ring),
        takes_part_(takes_part),
        burst_bytes_(burst_bytes),
        one_clock_(share_clock(all)) {}

  /// Valid on rank 0 only.
  core::Link link(const std::vector<std::int64_t>& sizes, std::uint32_t rounds) {
    std::vector<std::pair<double, double>> points;
    for (const std::int64_t bytes : sizes) {
      std::vector<double> us;
      (void)once_us(bytes);
      for (std::uint32_t i = 0; i < rounds; ++i) us.push_back(once_us(bytes));
      points.emplace_back(static_cast<double>(bytes), std::max(1e-3, core::statistics(us).median));
    }
    const core::LineFit fit = core::fit_line(points);
    return {.alpha_us = std::max(0.0, fit.startup_us), .beta_us_per_byte = std::max(0.0, fit.us_per_byte)};
  }

 private:
  /// The time from the last begin to the last end; without a shared clock, the time of the slowest rank.
  double once_us(std::int64_t bytes) {
    std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float),
                              static_cast<float>(ring_.rank()));
    std::vector<float> drained(static_cast<std::size_t>(bytes < burst_bytes_ ? 0 : burst_bytes_) /
                               sizeof(float));
    if (takes_part_) transport::send_receive(ring_, drained, tag_of(Tag::dense));
    transport::barrier(all_, tag_of(Tag::barrier));
    std::array<std::int64_t, 2> own = {now_ns(), 0};
    if (takes_part_) transport::send_receive(ring_, values, tag_of(Tag::dense));
    own[1] = now_ns();
    if (takes_part_) check(values);
    if (all_.rank() != 0) {
      all_.send(0, tag_of(Tag::record), transport::to_bytes(std::span<const std::int64_t>(own)));
      return 0;
    }
    std::array<std::int64_t, 2> last = own;
    std::int64_t longest = own[1] - own[0];
    for (std::uint32_t rank = 1; rank < all_.size(); ++rank) {
      std::array<std::int64_t, 2> other{};
      transport::recv_into<std::int64_t>(all_, rank, tag_of(Tag::record), other);
      last = {std::max(last[0], other[0]), std::max(last[1], other[1])};
      longest = std::max(longest, other[1] - other[0]);
    }
    return static_cast<double>(one_clock_ ? last[1] - last[0] : longest) / 1000;
  }

  void check(const std::vector<float>& values) const {
    const auto from = static_cast<float>((ring_.rank() + ring_.size() - 1) % ring_.size());
    const auto wrong = std::ranges::find_if(values, [&](float value) { return value != from; });
    if (wrong != values.end())
      throw core::EnvironmentError(fmt::format("a message between two workers: value {} is {}, expected {}",
                                               wrong - values.begin(), *wrong, from));
  }

  Transport& all_;
  Transport& ring_;
  bool takes_part_;
  std::int64_t burst_bytes_;
  bool one_clock_;
};

}  // namespace

std::vector<core::Level> measured_levels(Transport& transport, std::uint32_t workers_per_node,
                                         const std::vector<std::int64_t>& sizes, std::uint32_t rounds,
                                         std::int64_t burst_bytes) {
  sparse::check_full_nodes(transport, workers_per_node, "levels");
  Group node = sparse::node_of(transport, workers_per_node);
  Group peers = sparse::peers_of(transport, workers_per_node);
  std::vector<core::Level> out;
  const auto measured = [&](Group& ring, bool takes_part) {
    return LinkTimer(transport, ring, takes_part, burst_bytes).link(sizes, rounds);
  };
  if (workers_per_node > 1) out.push_back({.name = "inside", .size = {}, .link = measured(node, true)});
  if (peers.size() > 1) {
    const core::Link alone = measured(peers, transport.rank() % workers_per_node == 0);
    const MaybeShared between = workers_per_node == 1
                                    ? MaybeShared{.link = alone}
                                    : shared_link(alone, measured(peers, true), workers_per_node);
    if (out.empty()) out.push_back({.name = "inside", .size = {}, .link = between.link});
    out.front().size = workers_per_node;
    out.push_back({.name = "between", .size = {}, .link = between.link, .shared = between.shared});
  }
  return transport.rank() == 0 ? out : std::vector<core::Level>();
}

MaybeShared shared_link(const core::Link& alone, const core::Link& together, std::uint32_t workers) {
  const double halfway = (1 + static_cast<double>(workers)) / 2;
  MaybeShared out = {.link = together,
                     .shared = together.beta_us_per_byte > halfway * alone.beta_us_per_byte};
  if (out.shared) out.link.beta_us_per_byte /= workers;
  return out;
}

}  // namespace live
