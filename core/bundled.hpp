// Files that the program contains (traces/ and models/), so that a scenario can name a profile, a network or
// a model from anywhere.

#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"

namespace core {

struct BundledFile {
  std::string_view name;
  std::string_view text;
};

/// Each list is sorted by name.
std::span<const BundledFile> bundled_profiles();
std::span<const BundledFile> bundled_models();
/// Networks measured in machines (traces/networks).
std::span<const BundledFile> bundled_networks();
/// The networks of the bundled scenarios (traces).
std::span<const BundledFile> networks_of_scenarios();

/// The names of bundled_networks(), then of networks_of_scenarios().
std::vector<std::string_view> bundled_network_names();
/// The text of the network file of this name; empty if there is none.
std::string_view bundled_network_text(std::string_view name);
/// Returns the network file of this name, if there is one.
std::optional<Field> find_bundled_network(std::string_view name);

/// Each reads what a file refers to: an object, the path of a file, or the name of a bundled one.
Network read_network_reference(const Field& field);
Field follow_profile(const Field& field);
Field follow_model(const Field& field);

}  // namespace core
