#include "core/svg.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/field.hpp"

namespace core::svg {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : core::one_line(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

void add_text(std::string& svg, double x, double y, std::string_view anchor, std::string_view style,
              std::string_view content) {
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     style.empty() ? "" : fmt::format(" class=\"{}\"", style), escaped(content));
}

std::vector<double> linear_ticks(double max) {
  double step = std::pow(10, std::floor(std::log10(max / 4)));
  if (max / step > 20)
    step *= 5;
  else if (max / step > 10)
    step *= 2;
  std::vector<double> out;
  for (int i = 0; i * step <= max * (1 + 1e-9); ++i) out.push_back(i * step);
  return out;
}

}  // namespace core::svg
