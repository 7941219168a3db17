#include "planner/report/page.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"

namespace report {
namespace {

/// JSON without '<': neither "</script" nor "<!--" can occur in it.
std::string embedded(const nlohmann::ordered_json& data) {
  std::string out;
  for (const char c : data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

/// Text for an element, on one line.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : core::one_line(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string page(const std::string& title, const nlohmann::ordered_json& data) {
  std::string style;
  std::string script;
  for (const PageFile& file : page_files()) {
    if (ends_with(file.name, ".css")) style += file.text;
    if (ends_with(file.name, "LICENSE")) script += fmt::format("/*\n{}*/\n", file.text);
    if (ends_with(file.name, ".js")) script += file.text;
  }
  const std::array<std::pair<std::string_view, std::string>, 4> parts = {
      {{"@TITLE@", escaped(title)}, {"@STYLE@", style}, {"@SCRIPT@", script}, {"@DATA@", embedded(data)}}};
  std::string out;
  std::string_view left = page_files().front().text;
  while (!left.empty()) {
    const auto part = std::ranges::find_if(
        parts, [&](const auto& each) { return left.substr(0, each.first.size()) == each.first; });
    out += part == parts.end() ? std::string(1, left.front()) : part->second;
    left.remove_prefix(part == parts.end() ? 1 : part->first.size());
  }
  return out;
}

}  // namespace report
