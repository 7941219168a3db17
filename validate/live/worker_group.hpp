// The workers of live runs: processes that this one starts, in network namespaces of their own or on
// loopback, or this process and others that mpirun, srun or torchrun have started.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "profiler/measure/backend.hpp"
#include "validate/live/run.hpp"

namespace live {

/// What may be listened to while workers run that this process has started.
struct WorkerGroupHooks {
  std::function<void(const std::vector<pid_t>& pids)> on_started = {};
  /// "warm-up 1", "iteration 3", "calibration": as each worker comes to it.
  std::function<void(std::uint32_t rank, const std::string& phase)> on_phase = {};
};

class WorkerGroup {
 public:
  /// Where namespaces cannot be had workers are paced on loopback, and warnings() says so. EnvironmentError
  /// where the place cannot be had, InputError where it makes no sense.
  explicit WorkerGroup(const Place& place);
  /// This process is one of several; `place` says how they are paced and how long they wait.
  WorkerGroup(const Place& place, const transport::Membership& membership);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  std::uint32_t workers() const;
  const Place& place() const { return place_; }
  /// Whether this process is the one that writes and prints.
  bool is_first() const;
  /// "4 processes, network namespaces, each link held to 1 Gb/s"
  std::string where() const;
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// The rate that links are held to, also that of a netlab.
  std::optional<double> bits_per_second() const { return bits_per_second_; }
  /// What a link lets pass at once after a pause.
  std::int64_t burst_bytes() const;

  /// Runs `rank` on every worker and gives what rank 0's returned. Where this process is one of several all
  /// call it, and all get it. EnvironmentError names the worker that was lost or failed, and its phase.
  using Tell = std::function<void(const std::string& phase)>;
  /// `engine`: what carries dense groups where the transport does not; else null.
  using Task = std::function<transport::Bytes(transport::Transport& transport, measure::Engine* engine,
                                              const Tell& tell)>;
  transport::Bytes run(const Task& rank, const WorkerGroupHooks& hooks = {});

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
};

}  // namespace live
