// What collectives are measured on: TCP now, others by one file and one line in the table.

#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "profiler/measure/collective.hpp"
#include "transport/transport.hpp"

namespace measure {

/// One rank's buffer, and collectives on it in place.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Into the buffer, which has as many values from then on.
  virtual void load(std::span<const float> values) = 0;
  virtual void store(std::span<float> values) = 0;
  /// May return before the collective is done; those that were started run in order.
  virtual void start(Collective kind) = 0;
  /// Returns when all that was started is done on this rank.
  virtual void finish() = 0;
  /// What ran, as a network file has it; empty where the library decides by itself.
  virtual std::string algorithm(Collective kind) const = 0;
  /// For the network's origin: what carried the bytes, in a few words.
  virtual std::string description() const = 0;
};

struct CollectiveBackend {
  std::string_view name;
  std::string_view summary;
  /// `control` connects the ranks; a backend may run its collectives over it. `algorithm` is the
  /// all-reduce's. What is missing here is a WorldError.
  std::unique_ptr<Engine> (*make)(transport::Transport& control, std::string_view algorithm);
};

std::span<const CollectiveBackend> collective_backends();

/// nullptr: none has this name.
const CollectiveBackend* find_backend(std::string_view name);

}  // namespace measure
