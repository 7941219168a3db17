// Measured networks that the program contains (traces/networks), so that a scenario can name one from
// anywhere.

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/field.hpp"
#include "core/network.hpp"

namespace core {

struct BundledNetwork {
  std::string_view name;
  std::string_view text;  ///< the network file
};

/// Sorted by name.
std::span<const BundledNetwork> bundled_networks();

/// Returns the network file of this name, if there is one.
std::optional<Field> find_bundled_network(std::string_view name);

/// Reads a network where a file refers to one: an object, the path of a file, or the name of a bundled one.
Network read_network_reference(const Field& field);

}  // namespace core
