// Models, networks and schedules to measure with.

#pragma once

#include <cstddef>
#include <string>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/schedule/schedule.hpp"

namespace bench {

/// A model of `tensors` tensors, a weight and small ones by turns as in convolution and batch norm, in layers
/// of one, backward 200 ms in all.
core::Profile profile_of(std::size_t tensors);

/// One of traces/.
core::Profile bundled_profile(const std::string& name);

/// A flat network; 10 Gb/s Ethernet unless told otherwise.
core::Network network_of(double alpha_us = 45.25, double beta_us_per_byte = 0.00099,
                         double gamma_us_per_byte = 0.0001);

/// As a scenario would spell it.
planner::Schedule schedule_of(const std::string& json);

}  // namespace bench
