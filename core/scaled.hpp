// What-ifs: a network or a worker that is so many times slower or faster than the one measured.

#pragma once

#include "core/network.hpp"
#include "core/profile.hpp"

namespace core {

/// The network whose messages start up `startup_factor` times and move `per_byte_factor` times as slowly;
/// both at least 0. Links, of levels too: alpha and beta; gamma, which is the worker's own work, stays. Of a
/// measured curve the first value f is the startup and what comes on top of it the per-byte part: each of its
/// lines y becomes startup_factor f + per_byte_factor (y - f), not under 0. The line rate goes with the
/// per-byte part (none where that costs nothing); a fit stays only where both factors are the same.
Network scaled(const Network& network, double startup_factor, double per_byte_factor);

/// The worker that computes `compute_factor` times as slowly, at least 0; spreads grow with the times.
Profile scaled(const Profile& profile, double compute_factor);

}  // namespace core
