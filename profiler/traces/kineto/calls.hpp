// Attributes each piece of GPU work: every kernel is traced back, through its launch and the operator around
// it, to a call of a layer, the optimizer, communication, or nothing known.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/kineto/process_groups.hpp"
#include "profiler/traces/kineto/step.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

enum class Role : std::uint8_t { forward, backward, optimizer, communication, copy, other };
constexpr std::size_t kRoles = 6;

/// A parameter whose gradient was accumulated in a call's backward pass.
struct Gradient {
  TextId shapes{};
  std::int64_t elements = 0;  ///< see find_gradient_sizes()
  std::int64_t at_ns = 0;     ///< on the host, when it was handed over
  /// The time of the call's backward kernels launched since the previous gradient, and of waits for them.
  std::int64_t ns = 0;
};

/// One call of a layer in one step: an nn.Module's own operators, or an operator outside all modules.
struct Call {
  std::int32_t step = -1;  ///< or none, if keep_last_micro_batches() left it out
  TextId name{};           ///< of the module, or of the operator
  TextId operation{};      ///< the first that ran something on the GPU, or the first
  TextId shapes{};         ///< of its first operator
  bool is_module = false;
  bool has_kernel = false;
  bool has_backward = false;
  std::int64_t start_ns = 0;
  std::int64_t forward_ns = 0;       ///< of its kernels, where no earlier kernel still ran
  std::int64_t forward_wait_ns = 0;  ///< the device waited for the host to launch them
  std::int64_t backward_ns = 0;
  std::int64_t backward_wait_ns = 0;
  std::int64_t forward_host_ns = 0;  ///< see add_host_times()
  std::int64_t backward_host_ns = 0;
  std::vector<Gradient> gradients = {};  ///< in the order in which they became ready
};

/// The attribution of a kernel.
struct Work {
  Role role = Role::other;
  std::int32_t step = -1;  ///< none: launched outside all steps
  std::int32_t call = -1;  ///< index into the calls, or none
  std::int64_t launched_ns = 0;
  bool has_launch = false;   ///< in the trace; otherwise it counts as launched when it starts
  bool is_exchange = false;  ///< communication that belongs to a layer, and not to gradients or parameters
  std::uint32_t group = 0;   ///< of communication: index into the process groups
  std::int64_t idle_before_ns =
      0;            ///< of the device between iterations: it waits for what the host does there
  DeviceTime time;  ///< zero for communication and copies, which run beside other kernels
};

/// Whether a kernel is an exchange that kernels of layers wait for with the time in which it queues. DDP's
/// broadcast of its buffers is none, though a forward pass launches it: what it waits for slower workers is
/// no time of a layer.
bool is_in_pass(const Trace& trace, const Kernel& kernel, const Work& work);

struct Calls {
  std::vector<Step> steps;
  bool has_steps = false;   ///< marked steps; otherwise they were found by the update, or the trace is one
  std::size_t updates = 1;  ///< of a step that was found by them, see joined_updates()
  bool has_ambiguous_updates = false;  ///< likewise
  std::vector<Call> calls;             ///< sorted by time
  std::vector<Work> work;              ///< of each kernel
  std::vector<ProcessGroup> groups;
  std::optional<std::uint32_t> gradient_group;  ///< see find_uses()
  Spans waits;                                  ///< the device waited for the host, see split_device_time()
  Spans gaps;                                   ///< of the device between kernels, likewise
  Spans in_passes;                              ///< exchanges of passes run or queue, see OtherSpans
  /// Time of unattributed kernels, indexed by the kernel's name.
  std::map<std::string, std::int64_t> other_ns;
};

/// Also sorts the trace's ranges, launches and kernels, and completes what kernels say about collectives.
/// Steps are annotations whose names begin with `step`.
Calls find_calls(Trace& trace, std::string_view step);

}  // namespace kineto
