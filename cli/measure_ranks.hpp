// Ranks that measure together: started here, in network namespaces if asked, or from outside.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "collectives/transport/tcp/tcp.hpp"
#include "profiler/measure/backend.hpp"

namespace cli {

struct RankOptions {
  std::string backend = "tcp";
  std::string algorithm;  ///< empty: the backend's own choice
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

/// What a rank knows of where it is.
struct RankPlace {
  std::uint32_t ranks = 1;
  std::string where;    ///< in words: "loopback"
  std::string carried;  ///< by what, in words
  std::optional<double> bits_per_second;
  std::int64_t burst_bytes = 0;  ///< that a link lets pass at once after a pause; 0: keeps to its rate
};

struct RankJob {
  /// On every rank.
  std::function<void(transport::Tcp& control, measure::Engine& engine, const RankPlace& place)> work;
  /// On rank 0 afterwards, when all have done; what it prints is printed.
  std::function<void(const RankPlace& place)> report;
  /// Whether work computes on the GPU that a rank sees first: then each sees its own alone.
  bool computes = false;
};

const measure::CollectiveBackend& backend_of(const RankOptions& options);

/// InputError for options that do not go together, EnvironmentError with what ranks say where one fails.
void on_ranks(const RankOptions& options, const RankJob& job);

}  // namespace cli
