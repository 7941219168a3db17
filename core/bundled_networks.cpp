#include "core/bundled_networks.hpp"

#include <string>
#include <vector>

#include <fmt/format.h>

namespace core {

std::optional<Field> find_bundled_network(std::string_view name) {
  for (const BundledNetwork& network : bundled_networks())
    if (network.name == name) return Field::parse(network.text, fmt::format("bundled network {}", name));
  return std::nullopt;
}

Network read_network_reference(const Field& field) {
  if (!field.is_text()) return read_network(field.follow());
  const std::string text = field.text();
  if (const auto bundled = find_bundled_network(text)) return read_network(*bundled);
  std::vector<std::string_view> names;
  for (const BundledNetwork& network : bundled_networks()) names.push_back(network.name);
  const bool is_path = text.find('/') != std::string::npos || text.find('.') != std::string::npos;
  const std::string similar = suggestion(text, names);
  if (!is_path && !similar.empty())
    field.expected("an object, the path of a file, or a name that 'fusewise show networks' lists",
                   fmt::format("'{}'{}", printable(text), similar));
  return read_network(field.follow());
}

}  // namespace core
