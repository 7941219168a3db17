// Helpers for plots: colours, text and ticks of an SVG document.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace core::svg {

/// Okabe and Ito's colours, which colour-blind readers can distinguish.
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#000000", "#8c6d1f"};

/// Escapes text for an element or an attribute value, on one line.
std::string escaped(std::string_view text);

/// Appends a text; `anchor` is start, middle or end, `style` a class or empty.
void add_text(std::string& svg, double x, double y, std::string_view anchor, std::string_view style,
              std::string_view content);

/// Returns ticks from 0 to `max` in steps of 1, 2 or 5 times a power of ten, four to ten of them.
std::vector<double> linear_ticks(double max);

}  // namespace core::svg
