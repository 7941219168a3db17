// A subset of the ranks as a transport of its own, for collectives inside a node or between nodes.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace transport {

/// Rank i of the group is rank members[i] of `all`, which must outlive it. Members must be distinct and
/// include this rank; otherwise std::invalid_argument. Only tags distinguish the messages of two groups
/// between the same two ranks.
class Group final : public Transport {
 public:
  Group(Transport& all, std::vector<std::uint32_t> members);

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(members_.size()); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override;
  std::chrono::nanoseconds scheduling_delay() override { return all_.scheduling_delay(); }
  void enter_phase(std::string_view name) override { all_.enter_phase(name); }
  void leave_phase() override { all_.leave_phase(); }

 private:
  Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override;
  std::uint32_t member(std::uint32_t rank) const;

  Transport& all_;
  std::vector<std::uint32_t> members_;
  std::uint32_t rank_;
};

}  // namespace transport
