// Names whose case does not matter, as on the command line.

#pragma once

#include <span>
#include <string>
#include <string_view>

namespace core {

std::string in_small_letters(std::string_view text);

/// The only candidate that differs from `word` in nothing but the case of letters, otherwise `word`, also
/// where it is a candidate itself.
std::string ignoring_case(const std::string& word, std::span<const std::string_view> candidates);

}  // namespace core
