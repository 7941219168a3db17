// How much computing a profile's layers and communicating were measured to slow each other down.

#pragma once

#include <optional>
#include <string>

#include "models/field.hpp"
#include "traces/profile.hpp"

namespace traces {

/// While the other runs, either takes 1 + slowdown times as long.
struct ProfileOverlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;
  bool operator==(const ProfileOverlap&) const = default;
};

/// What a scenario and a profile take at most.
constexpr double kMostOverlapSlowdown = 1e6;

/// Of what a scenario has as its profile; nothing where it was not measured.
std::optional<ProfileOverlap> read_profile_overlap(const models::Field& profile);

/// The file's text with it.
std::string profile_text(const Profile& profile, const ProfileOverlap& overlap);

}  // namespace traces
