#include "cli/terminal.hpp"

#include <sys/ioctl.h>

#include <sstream>
#include <string_view>

namespace cli {
namespace {

constexpr std::size_t kIndent = 2;    // of continued sentences
constexpr std::size_t kMinRoom = 16;  // for the last cell of a row

/// Where a continued line begins: below the last cell of a row, also where that stands alone, or a little
/// behind the begin of a sentence.
std::size_t continued_at(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  const std::size_t gap = line.rfind("  ");
  if (gap != std::string::npos && gap >= begin) return gap + 2;
  return begin >= kMinRoom ? begin : begin + kIndent;
}

std::string fitted_line(std::string line, std::size_t width) {
  const std::size_t indent = line.empty() ? 0 : continued_at(line);
  std::string out;
  while (line.size() > width && indent + kMinRoom <= width) {
    const std::size_t text = out.empty() ? line.find_first_not_of(' ') : indent;
    std::size_t space = line.rfind(' ', width);
    if (space == std::string::npos || space <= text) space = line.find(' ', text);  // after a long word
    if (space == std::string::npos) break;
    const std::size_t next = line.find_first_not_of(' ', space);
    if (next == std::string::npos) break;
    out += line.substr(0, space) + '\n';
    line = std::string(indent, ' ') + line.substr(next);
  }
  return out + line;
}

}  // namespace

std::size_t terminal_width(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string fitted(const std::string& text, std::size_t width) {
  if (width == 0) return text;
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    out += fitted_line(line, width);
    if (!lines.eof()) out += '\n';
  }
  return out;
}

std::string fitted_comments(const std::string& script, std::size_t width) {
  constexpr std::string_view kMark = "# ";
  if (width <= kMark.size()) return script;
  std::string out;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line); out += line + '\n') {
    if (line.size() <= width || !line.starts_with(kMark)) continue;
    std::istringstream parts(fitted_line(line.substr(kMark.size()), width - kMark.size()));
    line.clear();
    for (std::string part; std::getline(parts, part);)
      line.append(line.empty() ? "" : "\n").append(kMark).append(part);
  }
  return out;
}

std::string cut_to(const std::string& line, std::size_t width) {
  constexpr std::string_view kDots = "...";
  if (line.size() <= width || width <= kDots.size()) return line;
  std::size_t end = width - kDots.size();  // not inside a UTF-8 character
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
  return line.substr(0, end).append(kDots);
}

}  // namespace cli
