// What-if variants: a network or a worker that is slower or faster than the measured one by given factors.

#pragma once

#include "core/network.hpp"
#include "core/profile.hpp"

namespace core {

/// Returns the network with startups multiplied by `startup_factor` and times per byte by `per_byte_factor`;
/// both at least 0. In links, of levels too, alpha and beta are scaled; gamma, which is the worker's own
/// work, stays. The first value f of a measured curve counts as its startup and the rest as its per-byte
/// part: each line y becomes startup_factor f + per_byte_factor (y - f), at least 0. The line rate is scaled
/// with the per-byte part (removed if that becomes 0); a fit stays only if both factors are equal.
Network scaled(const Network& network, double startup_factor, double per_byte_factor);

/// Returns the worker with times and spreads multiplied by `compute_factor`, at least 0.
Profile scaled(const Profile& profile, double compute_factor);

}  // namespace core
