#include "planner/scenarios/fitted_table.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text_table.hpp"

namespace scenarios {
namespace {

bool fits(const std::string& table, std::size_t width) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    if (line.size() > width) return false;
  return true;
}

/// Puts what is too long of the names in this column into rows of its own, below; they are cut at a space
/// where there is one.
Rows with_continued_names(const Rows& rows, std::size_t column, std::size_t width) {
  constexpr std::string_view kIndent = "  ";
  constexpr std::size_t kMaxCharacter = 4;
  Rows out;
  for (const std::vector<std::string>& row : rows) {
    out.push_back(row);
    while (out.back()[column].size() > width) {
      std::string& name = out.back()[column];
      const std::size_t space = name.rfind(' ', width);
      const bool has_space = space != std::string::npos && space > kIndent.size();
      std::size_t end = has_space ? space : width;
      while (!has_space && end > width - kMaxCharacter && (name[end] & 0xc0) == 0x80) --end;  // amid UTF-8
      std::string rest = name.substr(end + (has_space ? 1 : 0));
      name.resize(end);
      out.emplace_back(row.size())[column] = std::string(kIndent) + rest;
    }
  }
  return out;
}

}  // namespace

std::string fitted_table(Rows rows, std::size_t width, const Narrowing& how) {
  const auto text = [&] {
    std::vector<std::size_t> left = how.left;
    if (how.has_marks) left.push_back(rows.front().size() - 1);
    return core::aligned(rows, left);
  };
  if (width == 0 || fits(text(), width)) return text();
  for (std::string& title : rows.front())
    if (title.ends_with(how.unit)) title.resize(title.size() - how.unit.size());
  std::vector<std::string_view> left_out;
  for (const std::string_view column : how.columns) {
    if (fits(text(), width)) break;
    const auto at = std::ranges::find(rows.front(), column) - rows.front().begin();
    if (static_cast<std::size_t>(at) == rows.front().size()) continue;
    for (std::vector<std::string>& row : rows) row.erase(row.begin() + at);
    left_out.push_back(column);
  }
  constexpr std::size_t kMinName = 12;
  const Rows whole = rows;
  std::size_t longest = 0;
  for (const std::vector<std::string>& row : whole) longest = std::max(longest, row[how.name].size());
  longest = std::min(longest, width);
  while (longest > kMinName && !fits(text(), width)) rows = with_continued_names(whole, how.name, --longest);
  std::string note = how.unit.empty() ? "" : fmt::format("times in{}", how.unit);
  if (!left_out.empty()) {
    const std::string_view last = left_out.back();
    left_out.pop_back();
    note += fmt::format("{}a wider terminal or {} shows {}{}{}, too", note.empty() ? "" : "; ", how.complete,
                        fmt::join(left_out, ", "), left_out.empty() ? "" : " and ", last);
  }
  return text() + (note.empty() ? "" : note + '\n');
}

}  // namespace scenarios
