// Ranks as processes on this host: started together, watched, and gone together, whatever happens to any of
// them or to the one that started them.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace transport {

struct LaunchOptions {
  /// Of all ranks; whoever still runs then is killed.
  std::chrono::milliseconds limit{600'000};
  /// What the others have, once one has failed, to find out and end by themselves.
  std::chrono::milliseconds grace{10'000};
  /// Called with each line that a rank writes to standard error, as it comes.
  std::function<void(std::uint32_t rank, std::string_view line)> on_line;
  /// Called once all run, with their process ids.
  std::function<void(const std::vector<pid_t>& pids)> on_started;
};

/// How a rank ended, and what it printed.
struct RankEnd {
  pid_t pid = 0;
  int exit_code = -1;  ///< -1: killed by `signal`
  int signal = 0;
  bool was_ended = false;  ///< by us: too late, or after another had failed
  std::string out;
  std::string err;

  bool is_good() const { return exit_code == 0; }
};

/// Runs `rank` in processes of their own, in one process group, and returns when all have ended: exit codes
/// are what it returns; what it throws goes to standard error, and the code is 1. They are killed when the
/// thread that calls this dies. SIGINT, SIGTERM and SIGHUP end them, then this process, unless it ignores
/// them. To be called from processes with a single thread. std::system_error where processes are not to be
/// had.
std::vector<RankEnd> launch(std::uint32_t ranks, const std::function<int(std::uint32_t rank)>& rank,
                            const LaunchOptions& options = {});

/// Of what a rank has written; the empty ones at its end do not count.
std::string_view last_line(std::string_view text);

/// In one line, which ranks failed and how; empty if none.
std::string failures(const std::vector<RankEnd>& ends);

}  // namespace transport
