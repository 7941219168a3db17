// What collectives are measured on. To add a backend: a file that defines one, and its line in the table.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "profiler/measure/collective.hpp"

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
  /// So many collectives that are started one after the other have a buffer of their own each, all loaded:
  /// store() then gives what has come of the first, the second, ...
  virtual std::uint32_t keeps() const { return 1; }
  /// Before another thread than the one that has made it uses it.
  virtual void enter_thread() {}
  /// Another buffer of this rank; what is started on any of them runs in that order. Null where a rank has
  /// one.
  virtual std::unique_ptr<Engine> another() const { return nullptr; }
  /// What ran, as a network file has it; empty where the library decides by itself.
  virtual std::string algorithm(Collective kind) const = 0;
  /// What is known of how this size ran last, for people: "tree/ll128". The algorithm where that says all.
  virtual std::string ran(Collective kind) const { return algorithm(kind); }
  /// For the network's origin: what carried the bytes, in a few words.
  virtual std::string description() const = 0;
};

struct EngineOptions {
  std::string algorithm;  ///< of the all-reduce; empty: the backend's own choice
  std::string protocol;   ///< likewise, of a backend that has them
  bool share_gpu = false;
  bool computes = false;                       ///< layers run on the GPU that a rank sees first
  std::string interface;                       ///< of the network, where it must be a certain one
  std::chrono::milliseconds deadline{60'000};  ///< of whatever waits
  std::function<void()> check_others = [] {};  ///< throws if another rank has failed; from any thread
};

struct CollectiveBackend {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> (*algorithms)();
  std::vector<std::string_view> (*protocols)();
  /// Whether bytes go over `control`, which then may pace them.
  bool uses_control;
  /// Ranks that this host can have. EnvironmentError where it is none. In a process that is not needed
  /// afterwards.
  std::uint32_t (*max_ranks)(const EngineOptions& options);
  /// `control` connects the ranks; a backend may run its collectives over it. What is missing here is a
  /// EnvironmentError.
  std::unique_ptr<Engine> (*make)(transport::Transport& control, const EngineOptions& options);
};

std::span<const CollectiveBackend> collective_backends();

/// InputError where this host cannot have so many ranks, EnvironmentError where it can have none. Looks in a
/// process of its own, as one that has looked for GPUs cannot fork any more; call it with a single thread.
void check_ranks(const CollectiveBackend& backend, const EngineOptions& options, std::uint32_t ranks);

/// nullptr: none has this name.
const CollectiveBackend* find_backend(std::string_view name);

}  // namespace measure
