// Tables that people write themselves: a header with `bytes` and `us`, optionally `collective`, `algorithm`
// and `workers`; a row is one size. Rows of one curve are sorted by size, curves may be in any order.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

constexpr std::array<std::string_view, 5> kColumns = {"collective", "algorithm", "workers", "bytes", "us"};

bool is_header(std::string_view line) {
  const std::vector<std::string_view> names = split(line, ",");
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return has("bytes") && has("us");
}

/// Returns a column's field in a row, or nothing if the table lacks the column.
class Columns {
 public:
  explicit Columns(const CsvTable& table) {
    for (const std::string& name : table.columns)
      if (std::find(kColumns.begin(), kColumns.end(), name) == kColumns.end() ||
          std::count(table.columns.begin(), table.columns.end(), name) > 1)
        table.header.expected("columns among collective, algorithm, workers, bytes, us, each once", name);
    for (std::size_t i = 0; i < table.columns.size(); ++i) at_[table.columns[i]] = i;
  }

  std::optional<std::string_view> find(const CsvRow& row, std::string_view column) const {
    const auto found = at_.find(column);
    if (found == at_.end()) return std::nullopt;
    return row.fields[found->second];
  }

 private:
  std::map<std::string, std::size_t, std::less<>> at_;
};

core::CollectiveKind collective_of(const CsvRow& row, std::optional<std::string_view> text,
                                   const ImportOptions& options) {
  const std::optional<core::CollectiveKind> given = given_collective(options);
  if (!text) return given.value_or(core::CollectiveKind::all_reduce);
  const std::optional<core::CollectiveKind> kind = collective_kind(*text);
  if (!kind || (given && *given != *kind))
    row.line.expected(given ? name(*given) : "all_reduce, reduce_scatter or all_gather", *text);
  return *kind;
}

/// All curves, in the order of their first rows.
class Curves {
 public:
  /// Returns the curve to which a row belongs, creating it if necessary.
  Series& like(const Series& row) {
    const auto [found, is_new] =
        place_.try_emplace(std::tuple(row.collective, row.algorithm, row.workers), all_.size());
    if (is_new) all_.push_back(row);
    return all_[found->second];
  }
  std::vector<Series> take() && { return std::move(all_); }

 private:
  std::vector<Series> all_;
  std::map<std::tuple<core::CollectiveKind, std::optional<std::string>, std::int64_t>, std::size_t> place_;
};

}  // namespace

bool is_csv(std::string_view text, std::string_view /*path*/) { return has_line(text, is_header); }

std::vector<Series> read_csv_series(const LogFile& log, const ImportOptions& options) {
  const std::vector<Line> lines = lines_of(log);
  const auto header =
      std::find_if(lines.begin(), lines.end(), [](const Line& line) { return is_header(line.text); });
  if (header == lines.end()) refuse(log, "a header with columns bytes and us", "no such line");
  const CsvTable table = csv_table(*header, {header + 1, lines.end()});
  if (table.rows.empty()) header->expected_but("rows under the header", "none");
  const Columns columns(table);
  Curves curves;
  for (const CsvRow& row : table.rows) {
    Series like = {.path = log.path,
                   .collective = collective_of(row, columns.find(row, "collective"), options)};
    if (const auto algorithm = columns.find(row, "algorithm"); algorithm && !algorithm->empty())
      like.algorithm = std::string(*algorithm);
    const auto workers = columns.find(row, "workers");
    like.workers = workers ? integer(row.line, *workers, "workers", 1, core::kMaxWorkers)
                           : stated_workers(log, options, "");
    add_point(curves.like(like).points, row.line, *columns.find(row, "bytes"), *columns.find(row, "us"), 1);
  }
  return std::move(curves).take();
}

}  // namespace traces::importers
