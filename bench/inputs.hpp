// Models, networks and schedules for benchmarks.

#pragma once

#include <cstddef>
#include <string>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/schedule/schedule.hpp"

namespace bench {

/// Returns a model of `tensors` tensors, alternating a weight and small ones as in convolution and batch
/// norm, one per layer, with 200 ms of backward time in total.
core::Profile profile_of(std::size_t tensors);

std::string traces_folder();

/// Returns a profile of traces/.
core::Profile bundled_profile(const std::string& name);

/// Returns a flat network; by default 10 Gb/s Ethernet.
core::Network network_of(double alpha_us = 45.25, double beta_us_per_byte = 0.00099,
                         double gamma_us_per_byte = 0.0001);

/// Reads a schedule as in a scenario.
planner::Schedule schedule_of(const std::string& json);

}  // namespace bench
