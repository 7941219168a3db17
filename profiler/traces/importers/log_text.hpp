// Reads logs line by line: finds rows, reads their fields, and rejects wrong ones.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces::importers {

/// Returns the path for messages: complete, with control characters escaped.
std::string shown_path(const LogFile& log);

/// Throws InputError `FILE: /: expected {what}, got {got}`, for what no line is at fault.
[[noreturn]] void refuse(const LogFile& log, std::string_view what, std::string_view got);

/// A non-blank line without surrounding white space. Lives as long as its log.
struct Line {
  const LogFile* log;
  std::int64_t number;
  std::string_view text;

  /// Throws InputError `FILE:LINE: expected {what}, got '{got}'`, where `got` is text of the log.
  [[noreturn]] void expected(std::string_view what, std::string_view got) const;
  [[noreturn]] void expected(std::string_view what) const { expected(what, text); }
  /// As above with a description of ours: `got {description}`.
  [[noreturn]] void expected_but(std::string_view what, std::string_view description) const;
};

std::vector<Line> lines_of(const LogFile& log);

/// Whether a line begins with a digit, or with a sign or a quote before it, which indicates a damaged row
/// rather than prose.
bool looks_like_row(std::string_view text);

/// Returns the rows of a table: consecutive lines that begin with a digit. Other text may come before and
/// after them, but not between: a damaged row must not be missed. Rejects a log without rows of `what`.
std::vector<Line> rows_of(const LogFile& log, const std::vector<Line>& lines, std::string_view what);

/// Reads all of `text` as one number in a range; anything else is rejected, including a decimal comma.
std::int64_t integer(const Line& line, std::string_view text, std::string_view what, std::int64_t min,
                     std::int64_t max);
double number(const Line& line, std::string_view text, std::string_view what, double min, double max);
/// From 0 to the longest representable time.
double microseconds(const Line& line, std::string_view text, std::string_view what);

std::string_view trimmed(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text);
std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// Returns the fields of a line of comma-separated values; a field in double quotes may contain commas, and a
/// double quote written twice.
std::vector<std::string> csv_fields(const Line& line);

struct CsvRow {
  Line line;
  std::vector<std::string> fields;  ///< as many as there are columns
};

struct CsvTable {
  Line header;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  /// Returns the index of a required column.
  std::size_t column(std::string_view name) const;
};

/// Rejects a row with more or fewer fields than the header.
CsvTable csv_table(const Line& header, const std::vector<Line>& rows);

/// Reads the table below the first line for which is_header holds.
CsvTable read_csv(const LogFile& log, bool (*is_header)(std::string_view line), std::string_view what);

/// Returns whether such a line exists.
bool has_line(std::string_view text, bool (*is_wanted)(std::string_view line));

}  // namespace traces::importers
