#include "core/printable.hpp"

#include <cstdint>
#include <optional>

#include <fmt/format.h>

namespace core {
namespace {

constexpr std::size_t kLongestShown = 60;

/// A character at the beginning of a text. Bytes that are not UTF-8 have length 1 and no code.
struct Character {
  std::size_t length = 1;
  std::optional<std::uint32_t> code;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {.length = 1, .code = first};
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return {};
  std::uint32_t code = first & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3fU);
  }
  const bool is_too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (is_too_long || is_surrogate || code > 0x10ffff) return {};
  return {.length = length, .code = code};
}

/// Control characters, and separators of lines and paragraphs.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.code)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (is_control(*character.code))
      out += fmt::format("\\u{:04x}", *character.code);
    else
      out += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return out;
}

std::string printable(std::string_view text) {
  if (text.size() <= kLongestShown) return one_line(text);
  std::size_t cut = kLongestShown;  // not inside a UTF-8 character
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0U) == 0x80U) --cut;
  return one_line(text.substr(0, cut)) + "...";
}

}  // namespace core
