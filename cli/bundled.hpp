// Data that come with the program (scenarios, models and profiles), found by name from any folder.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"

namespace cli {

enum class Bundled { scenario, model, profile };

/// The folder that holds them: FUSEWISE_DATA where it is set, share/fusewise beside the folder of the
/// program, or the source tree in which the program was built. None where there is no such folder.
std::optional<std::filesystem::path> data_folder();

/// Throws EnvironmentError if there is no such folder, for a name that needs it.
void check_data_folder(const std::string& name);

/// The names of this kind, sorted.
std::vector<std::string> bundled_names(Bundled kind);

/// The file with this name, if it comes with the program.
std::optional<std::filesystem::path> find_bundled(Bundled kind, const std::string& name);

/// Whether a text can be the name of what comes with the program: what holds a '/' or a '.' is a path.
bool is_name(const std::string& text);

/// The path of an input: a file, otherwise the name of what comes with the program. Throws
/// InputError for a name that is neither.
std::string input_path(Bundled kind, const std::string& name);

/// Throws InputError if the file is a profile, model or network; it says how to make a scenario of it.
/// `expected` names the formats that the command takes.
void check_is_scenario(const core::Field& file, const std::string& name,
                       std::string_view expected = "fusewise.scenario");

/// Loads the scenario of that path or name, and checks it so.
core::Field load_scenario(const std::string& name);

}  // namespace cli
