// Expands the layers and blocks of a file to one flat list of layers.

#pragma once

#include <vector>

#include "core/field.hpp"
#include "core/model/arguments.hpp"
#include "core/model/layer.hpp"

namespace core {

/// `file` is a whole `fusewise.model`; `given` are its inputs, as layers, and `globals` are the "$names"
/// known everywhere. The result begins with `given`.
std::vector<Layer> expand_layers(const Field& file, std::vector<Layer> given, const Arguments& globals);

}  // namespace core
