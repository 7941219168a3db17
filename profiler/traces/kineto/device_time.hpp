// Splits the time of a GPU: every instant belongs to one kernel, to communication, or to a wait before a
// kernel.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kineto {

/// From, to; ns.
using Span = std::pair<std::int64_t, std::int64_t>;
using Spans = std::vector<Span>;

/// Returns disjoint spans in order.
Spans united(Spans spans);
std::int64_t length_ns(const Spans& spans);
/// Returns what two lists of disjoint, ordered spans have in common.
Spans common(const Spans& a, const Spans& b);
/// Returns what is left of disjoint, ordered spans without others.
Spans without(const Spans& spans, const Spans& parts);

/// A kernel that computes, when it ran and when the host launched it.
struct ComputeKernel {
  Span ran;
  std::int64_t launched_ns = 0;
  bool is_of_layer = false;  ///< forward or backward
};

/// How a compute kernel and the idle time before it share the time of the device.
struct DeviceTime {
  std::int64_t busy_ns = 0;      ///< it ran, and no kernel that began earlier did; with the gap before it
  std::int64_t exchange_ns = 0;  ///< it, or the host, waited for what other workers send to its layer
  std::int64_t wait_ns = 0;      ///< the device waited for its launch
  std::int64_t exposed_ns = 0;   ///< it, or the host that would launch it, waited for communication
  std::int64_t copying_ns = 0;   ///< the device did nothing but copy
};

/// When an exchange runs or queues, and when the host launched it.
struct LaunchedSpan {
  Span span;
  std::int64_t launched_ns = 0;
  bool operator==(const LaunchedSpan&) const = default;
};

/// What runs beside the compute kernels; spans are disjoint and in order.
struct OtherSpans {
  Spans gradients;  ///< collectives of gradients and parameters
  Spans exchanges;  ///< other communication, which belongs to the layers
  /// Those of the exchanges that passes launch, in the order of their begins. Each includes the time in which
  /// it queues behind another collective of its process group, and kernels of layers that are launched after
  /// it wait for it.
  std::vector<LaunchedSpan> in_passes;
  Spans copies;
  Spans blocked;  ///< a host thread waited for the GPU
};

struct DeviceSplit {
  std::vector<DeviceTime> kernels;
  Spans waits;  ///< all wait_ns, in order
  Spans gaps;   ///< of the device, which are part of busy_ns, in order
  /// The parts of exchange_ns in which kernels of layers waited for OtherSpans::in_passes, in order.
  Spans in_passes;
};

/// Idle time before a launch is a wait for the host, unless the host was blocked while communication ran.
/// Idle time after the launch is communication where some ran: before a kernel of a layer first the exchanges
/// of passes, because backward does not wait for collectives of gradients. What is left is a wait for the
/// host, unless it is a short gap before a kernel that was launched well in time: then it is the device's own
/// time for that kernel. Returns the share of each kernel; `kernels` are in order of their starts. The first
/// kernel has no time before it.
DeviceSplit split_device_time(const std::vector<ComputeKernel>& kernels, const OtherSpans& others);

}  // namespace kineto
