// The stream of the host, which launches the kernels of layers one after the other, beside that of the
// device: what layers take with both.

#pragma once

#include <cstdint>

#include "core/profile.hpp"

namespace core {

/// Returns the profile with the times of layers that a simulation takes, if it has the host's times; others
/// are returned as they are. A host that never waits for the device runs ahead, so layers take what their
/// kernels take, and host_bound_us() limits the iteration. A host that waits once in an iteration begins
/// together with the device: layer after layer, forward and then backward, H += host and
/// D = max(D + device, H), and the layer takes what D grows by. None of this depends on communication.
Profile with_host_stream(Profile profile);

/// What the host takes for an iteration of this many micro-batches if it never waits for the device; 0 for a
/// profile of a host that does, or without the host's times.
double host_bound_us(const Profile& profile, std::int64_t micro_batches);

}  // namespace core
