// A transport that corrupts what it sends, for tests that the corruption is detected.

#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "collectives/transport/transport.hpp"

namespace tests {

/// Changes a byte in the middle of messages of `min` to `max` bytes; if a number is given, only in the
/// message of that index, counted from 0.
class CorruptingTransport final : public transport::Transport {
 public:
  CorruptingTransport(transport::Transport& inner, std::size_t min, std::size_t max,
                      std::optional<std::size_t> number = {})
      : inner_(inner), min_(min), max_(max), number_(number) {}

  std::uint32_t rank() const override { return inner_.rank(); }
  std::uint32_t size() const override { return inner_.size(); }
  void send(std::uint32_t to, std::uint32_t tag, transport::Bytes message) override {
    if (message.size() >= min_ && message.size() <= max_) {
      if (!number_ || *number_ == count_) message[message.size() / 2] ^= std::byte{16};
      ++count_;
    }
    inner_.send(to, tag, std::move(message));
  }

 private:
  transport::Bytes receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) override {
    return inner_.recv(from, tag, max_bytes);
  }

  transport::Transport& inner_;
  std::size_t min_;
  std::size_t max_;
  std::optional<std::size_t> number_;
  std::size_t count_ = 0;
};

}  // namespace tests
