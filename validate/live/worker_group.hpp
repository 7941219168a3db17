// The workers of live runs: processes that this one starts, in network namespaces or on loopback, or this
// process together with others that mpirun, srun or torchrun started.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "profiler/measure/backend.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Callbacks while workers run that this process has started.
struct WorkerGroupHooks {
  std::function<void(const std::vector<pid_t>& pids)> on_started = {};
  /// Called when a worker enters a phase: "warm-up 1", "iteration 3", "calibration".
  std::function<void(std::uint32_t rank, const std::string& phase)> on_phase = {};
};

class WorkerGroup {
 public:
  /// If namespaces are unavailable, workers are paced on loopback and take_warnings() says so. Throws
  /// EnvironmentError if the place is unavailable, InputError if it is inconsistent.
  explicit WorkerGroup(const Place& place);
  /// This process is one of several; `place` determines pacing and deadlines.
  WorkerGroup(const Place& place, const transport::Membership& membership);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  std::uint32_t workers() const;
  /// Those that this process starts, or itself.
  std::uint32_t workers_here() const { return here_ ? workers() : 1; }
  const Place& place() const { return place_; }
  /// Whether this process writes files and prints.
  bool is_first() const;
  /// "4 processes, network namespaces, each link held to 1 Gb/s"
  std::string where() const;
  /// Returns the warnings since the last call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  /// The rate of the links, including those of a netlab.
  std::optional<double> bits_per_second() const { return bits_per_second_; }
  /// The burst that an idle link lets pass at once.
  std::int64_t burst_bytes() const;

  /// Runs `rank` on every worker and returns the result of rank 0. If this process is one of several, all
  /// call it and all get the result. The EnvironmentError names the worker that was lost or failed, and its
  /// phase.
  using OnPhase = std::function<void(const std::string& phase)>;
  /// `engine` transfers dense groups if the transport does not; otherwise null.
  using Task = std::function<transport::Bytes(transport::Transport& transport, measure::Engine* engine,
                                              const OnPhase& on_phase)>;
  transport::Bytes run(const Task& rank, const WorkerGroupHooks& hooks = {});

  /// To be called by a task: the layers in the memory of its process, which are made on the first call. A
  /// process that carries out several tasks has the same for all, so `layers` have to be.
  RunningLayers& layers(const RealLayers& layers);

 private:
  struct Here;
  struct Given;

  std::unique_ptr<measure::Engine> engine(transport::Tcp& end) const;

  Place place_;
  const measure::CollectiveBackend* backend_;
  std::optional<double> bits_per_second_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Here> here_;
  std::unique_ptr<Given> given_;
  std::unique_ptr<RunningLayers> layers_;
};

}  // namespace live
