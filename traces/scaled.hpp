// What-ifs: a network with other startups or bandwidth, a profile of faster or slower compute.

#pragma once

#include "traces/network.hpp"
#include "traces/profile.hpp"

namespace traces {

/// Links' alpha and beta times the factors, gamma as it is. Of a measured curve the first value counts as
/// startup and what comes on top of it as cost of bytes; of a segment what it says of both. The line rate is
/// divided by the factor of bytes, and unknown where that is 0.
Network scaled(const Network& network, double startup_factor, double per_byte_factor);

/// Forward and backward times and their spreads times the factor.
Profile scaled(const Profile& profile, double compute_factor);

}  // namespace traces
