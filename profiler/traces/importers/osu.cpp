// Logs of OSU's MPI all-reduce latency test: `bytes  average us`, or `nodes,bytes  average us` as
// post-processed by the B-Caffe authors. A log is one number of nodes; several logs form a network of several
// curves.

#include <fmt/format.h>

#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

constexpr std::string_view kTitle = "# OSU MPI";
constexpr std::string_view kWhat = "bytes and an average latency in us";

bool is_title(std::string_view line) { return line.substr(0, kTitle.size()) == kTitle; }

struct Row {
  Line line;
  std::string_view nodes;  ///< empty if the log lacks the column
  std::string_view bytes;
  std::string_view us;
};

Row read_row(const Line& line) {
  const std::vector<std::string_view> words = words_of(line.text);
  constexpr std::size_t kPlain = 2;
  constexpr std::size_t kFull = 5;  // osu_allreduce -f: average, minimum, maximum, iterations
  if (words.size() != kPlain && words.size() != kFull) line.expected(kWhat);
  const std::vector<std::string_view> first = split(words[0], ",");
  if (first.size() > 2) line.expected(kWhat);
  return {.line = line,
          .nodes = first.size() == 2 ? first[0] : std::string_view(),
          .bytes = first.back(),
          .us = words[1]};
}

/// Returns the first column if it exists, otherwise the option or the number in the file's name.
std::int64_t workers_of(const LogFile& log, const std::vector<Row>& rows, const ImportOptions& options) {
  if (rows.front().nodes.empty()) return stated_workers(log, options, "");
  const std::int64_t nodes = integer(rows.front().line, rows.front().nodes, "nodes", 1, core::kMaxWorkers);
  if (options.workers != 0 && options.workers != nodes)
    rows.front().line.expected(fmt::format("{} nodes, as --workers says", options.workers),
                               rows.front().nodes);
  return nodes;
}

}  // namespace

bool is_osu(std::string_view text, std::string_view /*path*/) { return has_line(text, is_title); }

std::vector<Series> read_osu(const LogFile& log, const ImportOptions& options) {
  const std::vector<Line> lines = lines_of(log);
  for (const Line& line : lines)
    if (is_title(line.text) && line.text.find("Allreduce Latency") == std::string_view::npos)
      line.expected("OSU's Allreduce Latency Test");
  std::vector<Row> rows;
  for (const Line& line : rows_of(log, lines, kWhat)) rows.push_back(read_row(line));
  Series out = {.path = log.path, .workers = workers_of(log, rows, options)};
  for (const Row& row : rows) {
    if (row.nodes != rows.front().nodes)
      row.line.expected("the nodes of the first row in every row", row.nodes);
    add_point(out.points, row.line, row.bytes, row.us, 1);
  }
  return {out};
}

}  // namespace traces::importers
