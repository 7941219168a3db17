#include "core/text_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/field.hpp"

namespace core {

std::string aligned(std::vector<std::vector<std::string>> rows, const std::vector<std::size_t>& left) {
  std::vector<std::size_t> widths(rows.front().size());
  for (auto& row : rows)
    for (std::string& cell : row) cell = one_line(cell);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_left = std::ranges::find(left, i) != left.end();
      line += i == 0 ? "" : "  ";
      line += is_left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
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
