#include "core/model/arguments.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace core {

Field Arguments::resolve(const Field& value) const {
  if (!value.is_text()) return value;
  const std::string text = value.text();
  if (text.empty() || text.front() != '$') return value;
  const auto found = values_.find(text.substr(1));
  if (found != values_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, unused] : values_) known.push_back('$' + name);
  std::ranges::sort(known);  // so that the same file gives the same message
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  value.expected("a value or a parameter of this block",
                 fmt::format("\"{}\"{}", printable(text), suggestion(text, candidates)));
}

}  // namespace core
