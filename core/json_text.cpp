#include "core/json_text.hpp"

#include <cassert>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

namespace core {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kWidth = 120;

/// Text from a log may hold bytes that are not UTF-8; they become U+FFFD.
std::string plain(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string quoted(const std::string& text) { return plain(ordered_json(text)); }

/// Appends the value on one line, with a space after colons and commas; returns false when it exceeds `room`.
bool on_one_line(const ordered_json& value, std::size_t room, std::string& out) {
  const std::size_t start = out.size();
  const auto too_long = [&] { return out.size() - start > room; };
  if (!value.is_structured()) {
    assert(!value.is_number_float() || std::isfinite(value.get<double>()));
    out += plain(value);
    return !too_long();
  }
  out += value.is_array() ? '[' : '{';
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!std::exchange(first, false)) out += ", ";
    if (value.is_object()) out += quoted(item.key()) + ": ";
    if (too_long() || !on_one_line(*item, room - (out.size() - start), out)) return false;
  }
  out += value.is_array() ? ']' : '}';
  return !too_long();
}

void write(const ordered_json& value, std::size_t indent, std::size_t used, std::string& out) {
  std::string line;
  if (on_one_line(value, used < kWidth ? kWidth - used : 0, line) || !value.is_structured() ||
      value.empty()) {
    out += value.is_structured() && !value.empty() ? line : plain(value);
    return;
  }
  out += value.is_array() ? "[\n" : "{\n";
  bool first = true;
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (!std::exchange(first, false)) out += ",\n";
    const std::size_t start = out.size();
    out.append(indent + 2, ' ');
    if (value.is_object()) out += quoted(item.key()) + ": ";
    write(*item, indent + 2, out.size() - start + 1, out);
  }
  out += '\n';
  out.append(indent, ' ');
  out += value.is_array() ? ']' : '}';
}

}  // namespace

std::string json_text(const ordered_json& value) {
  std::string out;
  write(value, 0, 0, out);
  out += '\n';
  return out;
}

}  // namespace core
