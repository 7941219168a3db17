// The backends on which collectives are measured. To add one: a file that defines it, and its line in the
// table.

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

/// One rank's buffer, and in-place collectives on it.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Copies into the buffer, which has that many values from then on.
  virtual void load(std::span<const float> values) = 0;
  virtual void store(std::span<float> values) = 0;
  /// May return before the collective is done; collectives run in the order in which they were started.
  virtual void start(Collective kind) = 0;
  /// Returns when all started collectives are done on this rank.
  virtual void finish() = 0;
  /// Returns how many collectives started in a row have a buffer of their own, all loaded with the same
  /// values: store() then returns the result of the first, the second, ...
  virtual std::uint32_t keeps() const { return 1; }
  /// To be called before a thread other than the creating one uses it.
  virtual void enter_thread() {}
  /// Returns another buffer of this rank; collectives on any of them run in the order in which they were
  /// started. Null if a rank has only one.
  virtual std::unique_ptr<Engine> another() const { return nullptr; }
  /// Returns the algorithm as a network file names it; empty if the library decides by itself.
  virtual std::string algorithm(Collective kind) const = 0;
  /// Returns what is known of the last run of this size, for people: "tree/ll128"; by default the algorithm.
  virtual std::string ran(Collective kind) const { return algorithm(kind); }
  /// Describes the transport in a few words, for the network's origin.
  virtual std::string description() const = 0;
};

struct EngineOptions {
  std::string algorithm;  ///< of the all-reduce; empty: the backend's own choice
  std::string protocol;   ///< of the all-reduce, for backends that have protocols
  bool share_gpu = false;
  bool computes = false;                       ///< layers run on the GPU that a rank sees first
  std::string interface;                       ///< of the network, if it must be a certain one
  std::chrono::milliseconds deadline{60'000};  ///< for every wait
  /// Throws if another rank has failed; may be called from any thread.
  std::function<void()> check_others = [] {};
};

struct CollectiveBackend {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> (*algorithms)();
  std::vector<std::string_view> (*protocols)();
  /// Whether the backend uses `control` for its data, which then may limit the rate.
  bool uses_control;
  /// Returns the maximum number of ranks on this host; throws EnvironmentError if it is 0. To be called in a
  /// process that is not needed afterwards.
  std::uint32_t (*max_ranks)(const EngineOptions& options);
  /// `control` connects the ranks; a backend may run its collectives over it. Throws EnvironmentError if
  /// something is missing on this host.
  std::unique_ptr<Engine> (*make)(transport::Transport& control, const EngineOptions& options);
};

std::span<const CollectiveBackend> collective_backends();

/// Throws InputError if this host cannot have that many ranks, EnvironmentError if it can have none. Checks
/// in a child process, because a process that has opened GPUs must not fork; to be called from a
/// single-threaded process.
void check_ranks(const CollectiveBackend& backend, const EngineOptions& options, std::uint32_t ranks);

/// Returns nullptr if there is no such name.
const CollectiveBackend* find_backend(std::string_view name);

}  // namespace measure
