// Counts what one rank sends and receives, by phase.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "collectives/transport/transport.hpp"

namespace transport {

/// Payload bytes and messages, without the overhead of the network.
struct Counts {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
  bool operator==(const Counts&) const = default;
};

Counts& operator+=(Counts& sum, const Counts& counts);

/// Forwards everything to another transport, which must outlive it, and counts.
class Counted final : public Transport {
 public:
  explicit Counted(Transport& inner) : inner_(inner) {}

  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override;
  std::chrono::nanoseconds scheduling_delay() override { return inner_.scheduling_delay(); }
  void enter_phase(std::string_view name) override;
  void leave_phase() override;

  /// Sorted by name; nested phases are "outer/inner", messages outside all phases are "". An outer phase does
  /// not include its inner ones.
  const std::map<std::string, Counts, std::less<>>& phases() const { return phases_; }
  /// Returns zeros if nothing was sent or received in it.
  Counts phase(std::string_view name) const;
  Counts total() const;
  /// Resets all counts.
  void reset() { phases_.clear(); }

 private:
  Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override;

  Transport& inner_;
  std::map<std::string, Counts, std::less<>> phases_;
  std::string current_;
};

}  // namespace transport
