// Ranks that measure together. This command starts them on this host, optionally in network namespaces; or
// mpirun, srun or torchrun has started them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "profiler/measure/backend.hpp"

namespace cli {

struct RankOptions {
  std::string backend = "tcp";
  std::string algorithm;  ///< empty: the backend chooses
  std::string protocol;
  bool share_gpu = false;
  std::uint32_t workers = 0;
  std::string rate;
  std::string delay;
  std::string netlab;
  bool has_netlab = false;
  bool paced = false;
  double deadline_s = 60;
};

void add_rank_options(const Command& command, const std::shared_ptr<RankOptions>& options);

/// Where and how the ranks communicate; `where` and `transport` are descriptions for people.
struct RankContext {
  std::uint32_t ranks = 1;
  std::string where;
  std::string transport;
  std::optional<double> bits_per_second;
  std::int64_t burst_bytes = 0;  ///< passes a link faster than its rate after a pause
};

struct RankJob {
  /// Runs on every rank.
  std::function<void(transport::Tcp& control, measure::Engine& engine, const RankContext& context)> work;
  /// Runs on rank 0 after the work of all ranks, and prints the result.
  std::function<void(const RankContext& context)> report;
  /// Whether `work` computes on the first visible GPU; each rank then sees only its own.
  bool computes = false;
};

/// Throws InputError for an unknown name.
const measure::CollectiveBackend& collective_backend(const std::string& name);

/// Set if this process was started as one of several, for example by mpirun, srun or torchrun.
std::optional<transport::Membership> given_membership();

/// Throws InputError for options that contradict each other, and EnvironmentError with the messages of the
/// ranks if one fails.
void on_ranks(const RankOptions& options, const RankJob& job);

}  // namespace cli
