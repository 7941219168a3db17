#include "core/text_table.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "core/field.hpp"

namespace core {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Columns = std::vector<std::size_t>;

constexpr std::string_view kGap = "  ";     // between columns
constexpr std::string_view kIndent = "  ";  // of what a cell aligned to the left continues with

bool contains(const Columns& columns, std::size_t column) {
  return std::ranges::find(columns, column) != columns.end();
}

Columns widths_of(const Rows& rows) {
  Columns out(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = std::max(out[i], row[i].size());
  return out;
}

std::size_t width_of_table(const Columns& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap.size() * (widths.size() - 1));
}

/// The table of these columns, without rows in which they are all empty.
std::string table_of(const Rows& rows, const Columns& columns, const Columns& left) {
  const Columns widths = widths_of(rows);
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (const std::size_t i : columns) {
      line += i == columns.front() ? "" : kGap;
      line += contains(left, i) ? fmt::format("{:<{}}", row[i], widths[i])
                                : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty()) out += line + '\n';
  }
  return out;
}

/// The lines of a cell, broken at spaces where they would exceed the width.
std::vector<std::string> lines_of(const std::string& cell, std::size_t width, std::string_view indent) {
  std::vector<std::string> out = {cell};
  while (out.back().size() > width) {
    const std::string line = out.back();
    const std::size_t text = line.find_first_not_of(' ');
    std::size_t space = line.rfind(' ', width);
    if (space == std::string::npos || space < text) space = line.find(' ', text);
    if (space == std::string::npos) break;
    out.back() = line.substr(0, space);
    out.push_back(std::string(indent) + line.substr(space + 1));
  }
  return out;
}

/// How narrow each column can be if its title and, of those aligned to the left, all cells are broken.
Columns min_widths(const Rows& rows, const Columns& left) {
  Rows words;
  for (const auto& row : rows) {
    const bool is_title = &row == &rows.front();
    words.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto lines = lines_of(row[i], is_title || contains(left, i) ? 0 : row[i].size(),
                                  contains(left, i) ? kIndent : "");
      words.back().push_back(*std::ranges::max_element(lines, {}, &std::string::size));
    }
  }
  return widths_of(words);
}

/// The widths of columns, of which the widest ones are made narrower until the table fits.
Columns narrowed(Columns widths, const Columns& min, std::size_t width) {
  while (width_of_table(widths) > width) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (widths[i] > min[i] && (widest == nullptr || widths[i] > *widest)) widest = &widths[i];
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

Rows with_broken_cells(const Rows& rows, const Columns& widths, const Columns& left) {
  Rows out;
  for (const auto& row : rows) {
    const std::size_t first = out.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto lines = lines_of(row[i], widths[i], contains(left, i) ? kIndent : "");
      while (out.size() < first + lines.size()) out.emplace_back(row.size());
      for (std::size_t j = 0; j < lines.size(); ++j) out[first + j][i] = lines[j];
    }
  }
  return out;
}

}  // namespace

std::string aligned(Rows rows, const Columns& left, std::size_t width) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = one_line(cell);
  Columns widths = widths_of(rows);
  if (width > 0 && width_of_table(widths) > width) {
    rows = with_broken_cells(rows, narrowed(widths, min_widths(rows, left), width), left);
    widths = widths_of(rows);
  }
  std::string out;
  for (std::size_t next = std::min<std::size_t>(1, widths.size() - 1); next < widths.size();) {
    Columns columns = {0};
    std::size_t used = widths[0];
    for (; next < widths.size(); ++next) {
      used += next == 0 ? 0 : kGap.size() + widths[next];
      if (width > 0 && used > width && columns.size() > 1) break;
      if (next > 0) columns.push_back(next);
    }
    out += (out.empty() ? "" : "\n") + table_of(rows, columns, left);
  }
  return out;
}

std::string ms(double us) { return fmt::format("{:.3f}", us / 1e3); }

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string size_text(double bytes) {
  constexpr double kMega = 1e6;
  return bytes < kMega ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.1f} MB", bytes / kMega);
}

}  // namespace core
