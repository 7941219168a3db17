// An emulated network on one host: a network namespace for each worker, connected to one switch or to one
// switch per node, with a rate limit on each link in both directions. One process, the keeper, holds
// everything; the network disappears with it.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace netlab {

constexpr std::uint32_t kMaxWorkers = 64;
/// The interface of a worker's link in its namespace.
constexpr const char* kInterface = "eth0";

struct Shape {
  std::uint32_t workers = 2;  ///< 2 to kMaxWorkers
  double bits_per_second = 1e9;
  double delay_us = 0;  ///< added to each packet that a worker sends; needs a kernel with netem
  /// Workers per switch; the link between switches has its own rate. 0: all workers are on one switch.
  std::uint32_t workers_per_node = 0;
  double between_bits_per_second = 0;  ///< rate of a link between switches
  bool operator==(const Shape&) const = default;
};

/// A running network: the keeper and its descriptors of the namespaces.
struct Lab {
  Shape shape;
  pid_t keeper = 0;
  /// Start time, which distinguishes it from a later process with the same id.
  std::uint64_t keeper_started = 0;
  std::vector<int> namespaces;  ///< indexed by worker
  bool operator==(const Lab&) const = default;
};

enum class Lifetime : std::uint8_t {
  of_thread,   ///< the keeper is killed when the thread that builds the lab dies
  until_down,  ///< it stays when this process ends, once the lab is on record
};

/// Works as root or in a user namespace. Otherwise throws EnvironmentError, one line that says what is
/// missing; nothing is left behind then. To be called from single-threaded processes. With until_down,
/// `record` writes down how the lab is found again. Until it has returned, the keeper is killed when this
/// process dies, so that no lab is ever up without a record.
Lab build(const Shape& shape, Lifetime lifetime, const std::function<void(const Lab&)>& record = {});

/// Kills the keeper and returns when it has ended; the network ends with it unless a process is still inside.
void remove(const Lab& lab);

/// Returns the bytes that an idle link of this rate lets pass at once.
std::int64_t burst_bytes(double bits_per_second);

/// Returns whether its keeper lives.
bool is_up(const Lab& lab);

/// Moves this single-threaded process into the worker's namespace. Throws EnvironmentError on failure.
void enter(const Lab& lab, std::uint32_t worker);

/// Returns the IP address of a worker.
std::string address(std::uint32_t worker);

/// A lab that is removed at the end of its scope.
class ScopedLab {
 public:
  explicit ScopedLab(const Shape& shape) : lab_(build(shape, Lifetime::of_thread)) {}
  ~ScopedLab();
  ScopedLab(const ScopedLab&) = delete;
  ScopedLab& operator=(const ScopedLab&) = delete;
  const Lab& lab() const { return lab_; }

 private:
  Lab lab_;
};

}  // namespace netlab
