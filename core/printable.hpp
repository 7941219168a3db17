// Text from files, safe to print.

#pragma once

#include <string>
#include <string_view>

namespace core {

/// Returns the text safe for one terminal line: control characters, line separators and bytes that are not
/// UTF-8 are escaped.
std::string one_line(std::string_view text);

/// one_line(), truncated to 60 bytes.
std::string printable(std::string_view text);

}  // namespace core
