#include "cli/bundled.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "core/errors.hpp"

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
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<fs::path> find_bundled(Bundled kind, const std::string& name) {
  const std::vector<std::string> known = bundled_names(kind);
  if (std::find(known.begin(), known.end(), name) == known.end()) return std::nullopt;
  const Place at = place(kind);
  return *data_folder() / at.folder / (name + std::string(at.ending));
}

std::string input_path(Bundled kind, const std::string& name) {
  std::error_code none;
  const bool is_name = name.find('/') == std::string::npos && name.find('.') == std::string::npos;
  if (!is_name || (fs::exists(name, none) && !fs::is_directory(name, none))) return name;
  if (const auto found = find_bundled(kind, name)) return found->string();
  const std::vector<std::string> names = bundled_names(kind);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string similar = core::suggestion(name, known);
  const Place at = place(kind);
  throw core::InputError(
      fmt::format("{}: /: expected a file, or a {} that 'fusewise show {}' lists, got neither{}",
                  core::one_line(name), at.what, at.list, similar));
}

void check_is_scenario(const core::Field& file, const std::string& name) {
  const auto format = file.is_object() ? file.find("format") : std::nullopt;
  if (!format || !format->is_text()) return;
  for (const std::string_view part : {"profile", "model", "network"})
    if (format->text() == fmt::format("fusewise.{}", part))
      format->expected("fusewise.scenario",
                       fmt::format("a {} (fusewise init --{} {} makes a scenario of it)", part,
                                   part == "network" ? "network" : "model", core::printable(name)));
}

core::Field load_scenario(const std::string& name) {
  core::Field file = core::Field::load(input_path(Bundled::scenario, name));
  check_is_scenario(file, name);
  return file;
}

}  // namespace cli
