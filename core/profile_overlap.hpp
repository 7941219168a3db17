// The measured slowdown of computation and communication when they overlap.

#pragma once

#include <optional>
#include <string>

#include "core/field.hpp"
#include "core/profile.hpp"

namespace core {

/// While the other runs, each takes 1 + slowdown times as long.
struct ProfileOverlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;
  bool operator==(const ProfileOverlap&) const = default;
};

/// The maximum that scenarios and profiles accept.
constexpr double kMaxOverlapSlowdown = 1e6;

/// Reads it from a scenario's profile; returns nothing if it was not measured.
std::optional<ProfileOverlap> read_profile_overlap(const core::Field& profile);

/// Returns the text of the profile file, with the overlap.
std::string profile_text(const Profile& profile, const ProfileOverlap& overlap);

}  // namespace core
