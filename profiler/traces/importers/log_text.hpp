// Logs line by line: what a row is, how its fields are read, and how a wrong one is refused.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces::importers {

/// The path as messages show it: whole, with control characters escaped.
std::string shown_path(const LogFile& log);

/// Throws InputError `FILE: expected {what}, got {got}`.
[[noreturn]] void refuse(const LogFile& log, std::string_view what, std::string_view got);

/// A line that is not blank, without the white space around it. Lives as long as its log.
struct Line {
  const LogFile* log;
  std::int64_t number;
  std::string_view text;

  /// Throws InputError `FILE:LINE: expected {what}, got '{got}'`, where `got` is text of the log.
  [[noreturn]] void expected(std::string_view what, std::string_view got) const;
  [[noreturn]] void expected(std::string_view what) const { expected(what, text); }
  /// The same with words of ours, `got {description}`.
  [[noreturn]] void expected_but(std::string_view what, std::string_view description) const;
};

std::vector<Line> lines_of(const LogFile& log);

/// The rows of a table: neighbouring lines that begin with a digit. Other text may stand before and after
/// them, but not between: a damaged row must not go missing unseen. Refuses a log without rows of `what`.
std::vector<Line> rows_of(const LogFile& log, const std::vector<Line>& lines, std::string_view what);

/// All of `text` as one number in a range; anything else is refused, a decimal comma included.
std::int64_t integer(const Line& line, std::string_view text, std::string_view what, std::int64_t min,
                     std::int64_t max);
double number(const Line& line, std::string_view text, std::string_view what, double min, double max);
/// From 0 to the longest time there is.
double microseconds(const Line& line, std::string_view text, std::string_view what);

std::string_view trimmed(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text);
std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// The fields of a line of comma-separated values; a field in double quotes may hold commas, and a double
/// quote written twice.
std::vector<std::string> csv_fields(const Line& line);

struct CsvRow {
  Line line;
  std::vector<std::string> fields;  ///< as many as there are columns
};

struct CsvTable {
  Line header;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  /// The index of a column that must be there.
  std::size_t column(std::string_view name) const;
};

/// Refuses a row with more or fewer fields than the header.
CsvTable csv_table(const Line& header, const std::vector<Line>& rows);

/// The table under the first line for which is_header holds.
CsvTable read_csv(const LogFile& log, bool (*is_header)(std::string_view line), std::string_view what);

/// Whether such a line exists.
bool has_line(std::string_view text, bool (*is_wanted)(std::string_view line));

}  // namespace traces::importers
