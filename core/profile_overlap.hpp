// How much computing a profile's layers and communicating were measured to slow each other down.

#pragma once

#include <optional>
#include <string>

#include "core/field.hpp"
#include "core/profile.hpp"

namespace core {

/// While the other runs, either takes 1 + slowdown times as long.
struct ProfileOverlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;
  bool operator==(const ProfileOverlap&) const = default;
};

/// What a scenario and a profile take at most.
constexpr double kMaxOverlapSlowdown = 1e6;

/// Of what a scenario has as its profile; nothing where it was not measured.
std::optional<ProfileOverlap> read_profile_overlap(const core::Field& profile);

/// The file's text with it.
std::string profile_text(const Profile& profile, const ProfileOverlap& overlap);

}  // namespace core
