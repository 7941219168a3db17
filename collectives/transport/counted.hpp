// Counts what one rank sends and receives, by phase.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "collectives/transport/transport.hpp"

namespace transport {

/// What a message holds, without what a network adds to it.
struct Counts {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
  bool operator==(const Counts&) const = default;
};

Counts& operator+=(Counts& sum, const Counts& counts);

/// Passes everything on to another transport, which must outlive it, and counts.
class Counted final : public Transport {
 public:
  explicit Counted(Transport& inner) : inner_(inner) {}

  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, Bytes message) override;
  Bytes recv(std::uint32_t from, std::uint32_t tag) override;
  void enter_phase(std::string_view name) override;
  void leave_phase() override;

  /// By name; of phases in phases "outer/inner", outside all phases "". The outer does not contain the inner.
  const std::map<std::string, Counts, std::less<>>& phases() const { return phases_; }
  /// Zeros if nothing was sent or received in it.
  Counts phase(std::string_view name) const;
  Counts total() const;
  /// Starts to count anew.
  void reset() { phases_.clear(); }

 private:
  Transport& inner_;
  std::map<std::string, Counts, std::less<>> phases_;
  std::string current_;
};

}  // namespace transport
