// Reads an estimated profile where a profile is expected: {"estimate": MODEL, "device": ...}.

#pragma once

#include "core/field.hpp"
#include "core/profile.hpp"

namespace core {

/// Accepts a profile, the path of one, or an object with the key `estimate` that names a model and a device.
/// Layers take what they are simulated with (with_host_stream).
/// Throws InputError.
Profile read_or_estimate_profile(const core::Field& field);

}  // namespace core
