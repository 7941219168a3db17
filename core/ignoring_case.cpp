#include "core/ignoring_case.hpp"

#include <cctype>

namespace core {

std::string in_small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string ignoring_case(const std::string& word, std::span<const std::string_view> candidates) {
  const std::string small = in_small_letters(word);
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    if (candidate == word) return word;
    if (candidate.size() != word.size() || in_small_letters(candidate) != small) continue;
    if (!found.empty() && found != candidate) return word;
    found = candidate;
  }
  return found.empty() ? word : std::string(found);
}

}  // namespace core
