#include "cli/sweep_rows.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "planner/sweep/axes.hpp"
#include "profiler/traces/importers/log_text.hpp"

namespace cli {
namespace {

using nlohmann::ordered_json;
using traces::importers::CsvRow;
using traces::importers::CsvTable;
using traces::importers::Line;

constexpr double kMaxNumber = std::numeric_limits<double>::max();
constexpr std::string_view kSchedule = "schedule";

/// The columns that say where a point lies, in the order of the product. A file need not have those before
/// the workers.
std::vector<std::string> axis_columns() {
  std::vector<std::string> out;
  for (int i = 0; i <= static_cast<int>(sweep::Quantity::workers); ++i)
    out.emplace_back(sweep::name(static_cast<sweep::Quantity>(i)));
  out.emplace_back(kSchedule);
  return out;
}

/// The columns that a report looks at, as those of CSV.
CsvTable table_of_json_lines(const std::vector<Line>& lines) {
  CsvTable out = {.header = lines.front(), .columns = {}, .rows = {}};
  for (const Line& line : lines) {
    if (!nlohmann::json::accept(line.text)) line.expected("a JSON object, a row of sweep --json-lines");
    const core::Field row = core::Field::parse(
        line.text, fmt::format("{}:{}", traces::importers::shown_path(*line.log), line.number));
    if (out.columns.empty()) {
      out.columns = axis_columns();
      std::erase_if(out.columns, [&](const std::string& name) {
        return name != sweep::name(sweep::Quantity::workers) && name != kSchedule && !row.has(name);
      });
      out.columns.insert(out.columns.end(), report::kSweepNumbers.begin(), report::kSweepNumbers.end());
    }
    CsvRow& read = out.rows.emplace_back(CsvRow{.line = line, .fields = {}});
    for (const std::string& name : out.columns)
      read.fields.push_back(name == kSchedule ? row.at(name).text()
                                              : fmt::to_string(row.at(name).number(0, kMaxNumber)));
  }
  return out;
}

CsvTable table_of(const traces::LogFile& file) {
  const std::vector<Line> lines = traces::importers::lines_of(file);
  if (lines.empty()) traces::importers::refuse(file, "rows of fusewise sweep", "an empty file");
  const bool is_json = lines.front().text.front() == '{' || lines.front().text.front() == '[';
  CsvTable out = is_json ? table_of_json_lines(lines)
                         : traces::importers::csv_table(lines.front(), {lines.begin() + 1, lines.end()});
  if (out.rows.empty()) traces::importers::refuse(file, "rows of fusewise sweep", "only their header");
  if (out.rows.size() > report::kMaxSweepRows)
    out.rows[report::kMaxSweepRows].line.expected_but(
        fmt::format("at most {} rows, as one page shows no more", report::kMaxSweepRows),
        fmt::format("{}: sweep fewer values, or take the rows of one schedule", out.rows.size()));
  return out;
}

/// The values of a column in the order in which they come first, and for each row which one it has.
struct Axis {
  std::string name;
  std::vector<std::string> values = {};
  std::vector<std::size_t> of_row = {};
};

Axis axis_of(const CsvTable& table, const std::string& name) {
  Axis out = {.name = name};
  const std::size_t column = table.column(name);
  std::map<std::string, std::size_t> places;
  for (const CsvRow& row : table.rows) {
    std::string value = row.fields[column];
    if (name != kSchedule)  // 10 and 10.0 are the same place
      value = fmt::to_string(traces::importers::number(row.line, value, name, 0, kMaxNumber));
    const auto [place, is_new] = places.emplace(value, places.size());
    if (is_new) out.values.push_back(value);
    out.of_row.push_back(place->second);
  }
  return out;
}

std::vector<Axis> axes_of(const CsvTable& table) {
  std::vector<Axis> out;
  for (const std::string& name : axis_columns())
    if (name == sweep::name(sweep::Quantity::workers) || name == kSchedule ||
        std::ranges::count(table.columns, name) > 0)
      out.push_back(axis_of(table, name));
  return out;
}

/// The number of points of the product of the axes, of which the file may lack some.
std::size_t product(const std::vector<Axis>& axes, const CsvTable& table) {
  std::size_t out = 1;
  for (const Axis& axis : axes) {
    out *= axis.values.size();
    if (out > report::kMaxSweepRows)
      traces::importers::refuse(*table.header.log,
                                fmt::format("rows of at most {} combinations of {} and other axes",
                                            report::kMaxSweepRows, axes.front().name),
                                "more");
  }
  return out;
}

}  // namespace

bool is_sweep_rows(const traces::LogFile& file) {
  std::filesystem::path name = file.path;
  if (name.extension() == ".gz") name.replace_extension();
  return name.extension() == ".csv" || name.extension() == ".jsonl" || file.text.starts_with("point,") ||
         file.text.starts_with("{\"point\":");
}

report::Report report_of_rows(const traces::LogFile& file) {
  const CsvTable table = table_of(file);
  const std::vector<Axis> axes = axes_of(table);
  std::vector<const Line*> lines(product(axes, table), nullptr);  // of each point of the product
  ordered_json sweep = {{"axes", ordered_json::array()}};
  for (const Axis& axis : axes) sweep["axes"].push_back({{"name", axis.name}, {"values", axis.values}});
  for (const std::string_view name : report::kSweepNumbers)
    sweep[std::string(name)] = std::vector<ordered_json>(lines.size());
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const CsvRow& row = table.rows[i];
    std::size_t point = 0;
    for (const Axis& axis : axes) point = point * axis.values.size() + axis.of_row[i];
    if (lines[point] != nullptr)
      row.line.expected_but("a point that no other row has",
                            fmt::format("that of line {}", lines[point]->number));
    lines[point] = &row.line;
    for (const std::string_view name : report::kSweepNumbers)
      sweep[std::string(name)][point] =
          traces::importers::number(row.line, row.fields[table.column(name)], name, 0, kMaxNumber);
  }
  return report::of_sweep(std::filesystem::path(file.path).filename().string(), table.rows.size(),
                          std::move(sweep));
}

}  // namespace cli
