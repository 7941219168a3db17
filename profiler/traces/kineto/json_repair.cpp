#include "profiler/traces/kineto/json_repair.hpp"

#include <algorithm>
#include <string_view>

namespace kineto {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_any_of(char c, std::string_view of) { return of.find(c) != std::string_view::npos; }
unsigned byte(char c) { return static_cast<unsigned char>(c); }

/// The length of a character of UTF-8 by its first byte; 0 if none begins so.
std::ptrdiff_t length_of(char first) {
  const unsigned value = byte(first);
  if (value < 0x80) return 1;
  if (value >= 0xC2 && value < 0xE0) return 2;
  if (value >= 0xE0 && value < 0xF0) return 3;
  return value >= 0xF0 && value < 0xF5 ? 4 : 0;
}

/// The length of the character at the begin, or 0 if it is none.
std::ptrdiff_t character(const char* at, const char* last) {
  const std::ptrdiff_t length = length_of(*at);
  if (length == 0 || last - at < length) return 0;
  for (std::ptrdiff_t i = 1; i < length; ++i)
    if ((byte(at[i]) & 0xC0U) != 0x80) return 0;
  if (length < 3) return length;
  const unsigned begin = byte(at[0]) << 8U | byte(at[1]);
  const bool is_too_long = (begin >= 0xE080 && begin < 0xE0A0) || (begin >= 0xF080 && begin < 0xF090);
  const bool is_surrogate = begin >= 0xEDA0 && begin < 0xEDC0;
  const bool is_too_large = begin >= 0xF490 && begin < 0xF500;
  return is_too_long || is_surrogate || is_too_large ? 0 : length;
}

/// Whether a word that begins so is a number that is none: NaN, nan, Infinity, inf; and not null.
bool is_no_number(const char* at, const char* last) {
  if (last - at < 2 || !is_letter(at[1])) return false;
  return is_any_of(*at, "NIi") || (*at == 'n' && at[1] == 'a');
}

}  // namespace

bool JsonRepair::more_needed(const char* first, const char* last) {
  if (first == last) return false;
  if (is_any_of(*(last - 1), "\\-NIin")) return true;
  for (std::ptrdiff_t back = 1; back <= std::min<std::ptrdiff_t>(3, last - first); ++back)
    if (const std::ptrdiff_t length = length_of(*(last - back)); length > 0) return length > back;
  return false;
}

void JsonRepair::repair(char* first, char* last) {
  for (char* at = first; at < last;) at = in_text_ ? repair_text(at, last) : repair_outside(at, last);
}

char* JsonRepair::repair_text(char* at, const char* last) {
  if (is_escaped_) {
    is_escaped_ = false;
    if (byte(*at) < 0x80) return at + 1;
  } else if (*at == '\\') {
    is_escaped_ = at + 1 == last || is_any_of(at[1], "\"\\/bfnrtu");
    if (!is_escaped_) {
      *at = '?';
      ++count_;
    }
    return at + 1;
  } else if (*at == '"') {
    in_text_ = false;
    return at + 1;
  }
  if (const std::ptrdiff_t length = character(at, last); length > 0) return at + length;
  *at = '?';
  ++count_;
  return at + 1;
}

char* JsonRepair::repair_outside(char* at, const char* last) {
  if (!is_letter(*at)) {
    in_word_ = false;
    letters_ = 0;
    in_text_ = *at == '"';
    if (*at == '-' && last - at > 1 && is_no_number(at + 1, last)) *at = ' ';
    return at + 1;
  }
  if (!in_word_ && is_no_number(at, last)) {
    letters_ = 1;
    ++count_;
  }
  in_word_ = true;
  if (letters_ > 0) *at = letters_++ <= 2 ? '"' : ' ';
  return at + 1;
}

}  // namespace kineto
