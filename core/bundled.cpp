#include "core/bundled.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "core/quantities.hpp"

namespace core {
namespace {

using Files = std::span<const BundledFile>;

std::optional<Field> find(Files files, std::string_view what, std::string_view name) {
  for (const BundledFile& file : files)
    if (file.name == name) return Field::parse(file.text, fmt::format("bundled {} {}", what, name));
  return std::nullopt;
}

std::vector<std::string_view> names(Files files) {
  std::vector<std::string_view> out;
  for (const BundledFile& file : files) out.push_back(file.name);
  return out;
}

/// Refuses a text that is neither a known name nor a path: what holds a '/' or a '.' is a path.
void check_is_path(const Field& field, std::string_view what, const std::vector<std::string_view>& known) {
  const std::string text = field.text();
  std::error_code none;
  if (text.find('/') != std::string::npos || text.find('.') != std::string::npos ||
      text.find('\0') != std::string::npos || std::filesystem::exists(field.path(), none))
    return;
  field.expected(fmt::format("an object, the path of a file, or a name that 'fusewise show {}s' lists", what),
                 fmt::format("'{}'{}", printable(text),
                             what == "network" && parse_rate(text).has_value()
                                 ? "; fusewise init --network makes a network of this rate"
                                 : suggestion(text, known)));
}

Field follow(const Field& field, Files files, std::string_view what) {
  if (!field.is_text()) return field.follow();
  if (auto bundled = find(files, what, field.text())) return *bundled;
  check_is_path(field, what, names(files));
  return field.follow();
}

}  // namespace

std::vector<std::string_view> bundled_network_names() {
  std::vector<std::string_view> out = names(bundled_networks());
  for (const BundledFile& file : networks_of_scenarios()) out.push_back(file.name);
  return out;
}

std::string_view bundled_network_text(std::string_view name) {
  for (const Files files : {bundled_networks(), networks_of_scenarios()})
    for (const BundledFile& file : files)
      if (file.name == name) return file.text;
  return {};
}

std::optional<Field> find_bundled_network(std::string_view name) {
  const std::string_view text = bundled_network_text(name);
  if (text.empty()) return std::nullopt;
  return Field::parse(text, fmt::format("bundled network {}", name));
}

Network read_network_reference(const Field& field) {
  if (!field.is_text()) return read_network(field.follow());
  if (const auto bundled = find_bundled_network(field.text())) return read_network(*bundled);
  check_is_path(field, "network", bundled_network_names());
  return read_network(field.follow());
}

Field follow_profile(const Field& field) {
  const std::vector<std::string_view> models = names(bundled_models());
  if (field.is_text() && std::ranges::find(models, field.text()) != models.end() &&
      !find(bundled_profiles(), "profile", field.text()))
    if (std::error_code none; !std::filesystem::exists(field.path(), none))
      field.expected(
          R"(a profile, or for a model an object such as {"estimate": "resnet50", "device": "a100"})",
          fmt::format("the model '{}'", printable(field.text())));
  return follow(field, bundled_profiles(), "profile");
}
Field follow_model(const Field& field) { return follow(field, bundled_models(), "model"); }

}  // namespace core
