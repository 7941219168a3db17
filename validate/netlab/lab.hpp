// A network of our own on one host: a namespace for each worker, all on one switch or in nodes with a switch
// of their own, each link held to a rate in both directions. Everything is held by one process, the keeper,
// and gone when that is.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace netlab {

constexpr std::uint32_t kMaxWorkers = 64;
/// A worker's link as it sees it.
constexpr const char* kInterface = "eth0";

struct Shape {
  std::uint32_t workers = 2;  ///< 2 to kMaxWorkers
  double bits_per_second = 1e9;
  double delay_us = 0;  ///< added to each packet that a worker sends; needs a kernel with netem
  /// So many workers share a switch, whose link to the others' is held to a rate of its own; 0: all are on
  /// one.
  std::uint32_t workers_per_node = 0;
  double between_bits_per_second = 0;  ///< of such a link
  bool operator==(const Shape&) const = default;
};

/// Where the namespaces are: descriptors of the keeper.
struct Lab {
  Shape shape;
  pid_t keeper = 0;
  std::uint64_t keeper_started = 0;  ///< so that a process that comes to have the same id is not taken for it
  std::vector<int> namespaces;       ///< by worker
  bool operator==(const Lab&) const = default;
};

enum class Lifetime : std::uint8_t {
  of_thread,   ///< the keeper is killed when the thread that builds the lab dies
  until_down,  ///< it stays when this process ends
};

/// As root, or in a user namespace. EnvironmentError, one line, says what is missing where it cannot be had;
/// nothing is left behind then. To be called from processes with a single thread.
Lab build(const Shape& shape, Lifetime lifetime);

/// Kills the keeper and returns when it is gone, and with it the network unless a process still is inside.
void remove(const Lab& lab);

/// What a link of this rate lets pass at once, faster than its rate, after it has been idle.
std::int64_t burst_bytes(double bits_per_second);

/// Whether its keeper lives.
bool is_up(const Lab& lab);

/// Puts this process, which has a single thread, where the worker is. EnvironmentError if that fails.
void enter(const Lab& lab, std::uint32_t worker);

/// The worker's on its link.
std::string address(std::uint32_t worker);

/// A lab that lasts as long as this.
class Loan {
 public:
  explicit Loan(const Shape& shape) : lab_(build(shape, Lifetime::of_thread)) {}
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  const Lab& lab() const { return lab_; }

 private:
  Lab lab_;
};

}  // namespace netlab
