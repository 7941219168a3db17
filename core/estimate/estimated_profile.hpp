// Reads an estimated profile where a profile is expected: {"estimate": MODEL, "device": ...}.

#pragma once

#include "core/field.hpp"
#include "core/model/division.hpp"
#include "core/profile.hpp"

namespace core {

/// Accepts a profile, the path of one, or an object with the key `estimate` that names a model and a device.
/// Layers take what they are simulated with (with_host_stream).
/// An estimate is that of one worker of groups that divide the model like this. Throws InputError.
Profile read_or_estimate_profile(const core::Field& field, const ModelDivision& division = {});

/// Whether the field asks for an estimate, which a division applies to.
bool asks_for_estimate(const core::Field& field);

}  // namespace core
