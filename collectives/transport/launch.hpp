// Runs ranks as processes on this host: they start together, are monitored, and end together, whatever
// happens to one of them or to the parent.

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
  /// Time limit for all ranks; those that still run then are killed.
  std::chrono::milliseconds limit{600'000};
  /// Time that the other ranks have to end by themselves after one has failed.
  std::chrono::milliseconds grace{10'000};
  /// Called with each line that a rank writes to standard error, as it arrives.
  std::function<void(std::uint32_t rank, std::string_view line)> on_line;
  /// Called once when all are running, with their process ids.
  std::function<void(const std::vector<pid_t>& pids)> on_started;
};

/// How a rank ended, and its output.
struct RankEnd {
  pid_t pid = 0;
  int exit_code = -1;  ///< -1: killed by `signal`
  int signal = 0;
  bool was_ended = false;  ///< killed by launch(): too late, or after another rank had failed
  std::string out;
  std::string err;

  bool is_good() const { return exit_code == 0; }
};

/// Runs `rank` in processes of their own, in one process group, and returns when all have ended. The exit
/// code is the return value; an exception is printed to standard error, with code 1. The ranks are killed
/// when the calling thread dies. SIGINT, SIGTERM and SIGHUP end them, then this process, unless it ignores
/// them. To be called from single-threaded processes. Throws std::system_error if processes cannot be
/// created.
std::vector<RankEnd> launch(std::uint32_t ranks, const std::function<int(std::uint32_t rank)>& rank,
                            const LaunchOptions& options = {});

/// Returns the last non-empty line.
std::string_view last_line(std::string_view text);

/// A line of standard error that begins so is a warning of a rank that goes on.
constexpr std::string_view kWarning = "warning: ";

/// Returns the warnings of all ranks, without that beginning.
std::vector<std::string> warnings(const std::vector<RankEnd>& ends);

/// Describes in one line which ranks failed and how, and what they have warned of; empty if none failed.
std::string failures(const std::vector<RankEnd>& ends);

}  // namespace transport
