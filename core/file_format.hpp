// The message for a file that does not say which format it has.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace core {

/// "expected one of FORMATS, got nothing"; where the keys show what the file is, also that, and what to do
/// with it.
std::string no_format(std::span<const std::string_view> formats,
                      const std::function<bool(std::string_view)>& has_key);

}  // namespace core
