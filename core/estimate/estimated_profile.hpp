// Where a profile is wanted, a wish for an estimated one may stand: {"estimate": MODEL, "device": ...}.

#pragma once

#include "core/field.hpp"
#include "core/profile.hpp"

namespace core {

/// What stands here: the profile itself, the path of one, or an object with the key `estimate` that says
/// which model on which device. Throws InputError.
Profile read_or_estimate_profile(const core::Field& field);

}  // namespace core
