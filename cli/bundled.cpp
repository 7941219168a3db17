#include "cli/bundled.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/ignoring_case.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

/// Names and place of the bundled files of one kind.
struct Place {
  std::string_view what;
  std::string_view list;  ///< the word after `fusewise show`
  std::string_view folder;
  std::string_view ending;
};

Place place(Bundled kind) {
  switch (kind) {
    case Bundled::scenario: return {"scenario", "scenarios", "scenarios", ".json"};
    case Bundled::model: return {"model", "models", "models", ".json"};
    case Bundled::profile: break;
  }
  return {"profile", "profiles", "traces", ".profile.json"};
}

bool has_data(const fs::path& folder) {
  std::error_code none;
  return fs::is_directory(folder / "scenarios", none) && fs::is_directory(folder / "traces", none);
}

}  // namespace

std::optional<fs::path> data_folder() {
  if (const char* set = std::getenv("FUSEWISE_DATA"); set != nullptr && *set != '\0') {
    if (!has_data(set))
      throw core::InputError(fmt::format(
          "FUSEWISE_DATA: expected a folder with scenarios and traces, got '{}'", core::printable(set)));
    return set;
  }
  std::vector<fs::path> candidates;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path above = program.parent_path().parent_path();
    candidates = {above / "share" / "fusewise", above, above.parent_path()};
  } else {
    candidates = {"/usr/local/share/fusewise", "/usr/share/fusewise"};  // where /proc is not mounted
  }
  for (const fs::path& candidate : candidates)
    if (has_data(candidate)) return candidate;
  return std::nullopt;
}

void check_data_folder(const std::string& name) {
  if (!data_folder())
    throw core::EnvironmentError(
        fmt::format("{}: the folder with the bundled scenarios, models and profiles was not found; set "
                    "FUSEWISE_DATA to the root of the source tree, or to share/fusewise of an installation",
                    core::one_line(name)));
}

std::vector<std::string> bundled_names(Bundled kind) {
  std::vector<std::string> out;
  const std::optional<fs::path> data = data_folder();
  if (!data) return out;
  const Place at = place(kind);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(*data / at.folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > at.ending.size() && name.substr(name.size() - at.ending.size()) == at.ending)
      out.push_back(name.substr(0, name.size() - at.ending.size()));
  }
  std::ranges::sort(out);
  return out;
}

std::optional<fs::path> find_bundled(Bundled kind, const std::string& name) {
  const std::vector<std::string> names = bundled_names(kind);
  const std::string found =
      core::ignoring_case(name, std::vector<std::string_view>(names.begin(), names.end()));
  if (std::ranges::find(names, found) == names.end()) return std::nullopt;
  const Place at = place(kind);
  return *data_folder() / at.folder / (found + std::string(at.ending));
}

bool is_name(const std::string& text) {
  return text.find('/') == std::string::npos && text.find('.') == std::string::npos;
}

namespace {

/// How to make a scenario of a bundled profile, model or network of that name; empty if there is none.
std::string other_kind(const std::string& name) {
  const bool is_network = !core::bundled_network_text(name).empty();
  const bool is_model = find_bundled(Bundled::model, name).has_value();
  if (!is_model && !is_network && !find_bundled(Bundled::profile, name)) return {};
  return fmt::format("a {0} (fusewise init --{1} {2} makes a scenario of it)",
                     is_network ? "network"
                     : is_model ? "model"
                                : "profile",
                     is_network ? "network" : "model", name);
}

}  // namespace

std::string input_path(Bundled kind, const std::string& name) {
  std::error_code none;
  if (!is_name(name) || (fs::exists(name, none) && !fs::is_directory(name, none))) return name;
  if (const auto found = find_bundled(kind, name)) return found->string();
  check_data_folder(name);
  const std::vector<std::string> names = bundled_names(kind);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const Place at = place(kind);
  const std::string other = kind == Bundled::scenario ? other_kind(name) : "";
  throw core::InputError(fmt::format(
      "{}: expected a file, or a {} that 'fusewise show {}' lists, got {}{}", core::one_line(name), at.what,
      at.list, other.empty() ? "neither" : other, other.empty() ? core::suggestion(name, known) : ""));
}

void check_is_scenario(const core::Field& file, const std::string& name, std::string_view expected) {
  const auto format = file.is_object() ? file.find("format") : std::nullopt;
  if (!format || !format->is_text()) return;
  for (const std::string_view part : {"profile", "model", "network"})
    if (format->text() == fmt::format("fusewise.{}", part))
      format->expected(expected, fmt::format("a {} (fusewise init --{} {} makes a scenario of it)", part,
                                             part == "network" ? "network" : "model", core::printable(name)));
}

core::Field load_scenario(const std::string& name) {
  core::Field file = core::Field::load(input_path(Bundled::scenario, name));
  check_is_scenario(file, name);
  return file;
}

}  // namespace cli
