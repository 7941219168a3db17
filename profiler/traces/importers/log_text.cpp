#include "profiler/traces/importers/log_text.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"

namespace traces::importers {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlanks = " \t\r\f\v";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads all of `text`; std::from_chars ignores the locale, so a comma is never part of a number.
template <typename Number>
bool parse(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

/// Removes the tag that `mpirun --tag-output` puts before each line: "[1,0]<stdout>:".
std::string_view without_rank_tag(std::string_view line) {
  if (line.empty() || line.front() != '[') return line;
  const std::size_t end = line.find_first_not_of("0123456789,", 1);
  if (end == 1 || end == std::string_view::npos || line[end] != ']') return line;
  for (const std::string_view stream : {"]<stdout>:", "]<stderr>:"})
    if (line.substr(end, stream.size()) == stream) return line.substr(end + stream.size());
  return line;
}

/// Calls `use(number, trimmed line)` for each line, until it returns false.
template <typename Use>
void each_line(std::string_view text, Use use) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!use(number, trimmed(without_rank_tag(trimmed(text.substr(0, end)))))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Takes the quoted field at the start of `rest`, including its closing quote.
std::string take_quoted(const Line& line, std::string_view& rest) {
  std::string field;
  rest.remove_prefix(1);
  for (;;) {
    const std::size_t quote = rest.find('"');
    if (quote == std::string_view::npos) line.expected("a closing '\"'");
    field += rest.substr(0, quote);
    rest.remove_prefix(quote + 1);
    if (rest.empty() || rest.front() != '"') return field;
    field += '"';
    rest.remove_prefix(1);
  }
}

}  // namespace

bool looks_like_row(std::string_view text) {
  if (std::string_view("+-.\"").find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  return !text.empty() && is_digit(text.front());
}

std::string shown_path(const LogFile& log) {
  std::string out;  // one character at a time, because printable() truncates long text
  for (const char& c : log.path) out += core::printable(std::string_view(&c, 1));
  return out;
}

void refuse(const LogFile& log, std::string_view what, std::string_view got) {
  throw core::InputError(fmt::format("{}: /: expected {}, got {}", shown_path(log), what, got));
}

void Line::expected(std::string_view what, std::string_view got) const {
  expected_but(what, fmt::format("'{}'", core::printable(got)));
}

void Line::expected_but(std::string_view what, std::string_view description) const {
  throw core::InputError(
      fmt::format("{}:{}: expected {}, got {}", shown_path(*log), number, what, description));
}

std::vector<Line> lines_of(const LogFile& log) {
  std::vector<Line> lines;
  each_line(log.text, [&](std::int64_t number, std::string_view text) {
    if (!text.empty()) lines.push_back({.log = &log, .number = number, .text = text});
    return true;
  });
  return lines;
}

bool has_line(std::string_view text, bool (*is_wanted)(std::string_view line)) {
  bool found = false;
  each_line(text, [&](std::int64_t /*number*/, std::string_view line) {
    found = is_wanted(line);
    return !found;
  });
  return found;
}

std::vector<Line> rows_of(const LogFile& log, const std::vector<Line>& lines, std::string_view what) {
  const auto is_row = [](const Line& line) { return looks_like_row(line.text); };
  const auto first = std::find_if(lines.begin(), lines.end(), is_row);
  if (first == lines.end()) refuse(log, fmt::format("rows of {}", what), "none");
  const auto end = std::find_if_not(first, lines.end(), is_row);
  if (std::find_if(end, lines.end(), is_row) != lines.end())
    end->expected(fmt::format("a row of {}, as there are more below", what));
  return {first, end};
}

std::int64_t integer(const Line& line, std::string_view text, std::string_view what, std::int64_t min,
                     std::int64_t max) {
  std::int64_t value = 0;
  if (!parse(text, value) || value < min || value > max)
    line.expected(fmt::format("{}, an integer from {} to {}", what, min, max), text);
  return value;
}

double number(const Line& line, std::string_view text, std::string_view what, double min, double max) {
  double value = 0;
  if (!parse(text, value) || !(value >= min && value <= max))
    line.expected(fmt::format("{}, a number from {:.15g} to {:.15g}", what, min, max), text);
  return value;
}

double microseconds(const Line& line, std::string_view text, std::string_view what) {
  return number(line, text, what, 0, core::kMaxTimeUs);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlanks) - start + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

std::vector<std::string> csv_fields(const Line& line) {
  std::vector<std::string> fields;
  std::string_view rest = line.text;
  for (;;) {
    if (!rest.empty() && rest.front() == '"') {
      fields.push_back(take_quoted(line, rest));
      if (!rest.empty() && rest.front() != ',') line.expected("a comma after a quoted field", rest);
    } else {
      const std::size_t end = std::min(rest.find(','), rest.size());
      fields.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (rest.empty()) return fields;
    rest.remove_prefix(1);
  }
}

std::size_t CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) header.expected(fmt::format("a column {}", name));
  return static_cast<std::size_t>(found - columns.begin());
}

CsvTable csv_table(const Line& header, const std::vector<Line>& rows) {
  CsvTable table = {.header = header, .columns = csv_fields(header), .rows = {}};
  for (const Line& line : rows) {
    CsvRow row = {.line = line, .fields = csv_fields(line)};
    if (row.fields.size() != table.columns.size())
      line.expected_but(fmt::format("{} fields", table.columns.size()), fmt::to_string(row.fields.size()));
    table.rows.push_back(std::move(row));
  }
  return table;
}

CsvTable read_csv(const LogFile& log, bool (*is_header)(std::string_view line), std::string_view what) {
  const std::vector<Line> lines = lines_of(log);
  const auto header =
      std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return is_header(line.text); });
  if (header == lines.end()) refuse(log, fmt::format("the header of {}", what), "no such line");
  return csv_table(*header, rows_of(log, {header + 1, lines.end()}, what));
}

}  // namespace traces::importers
