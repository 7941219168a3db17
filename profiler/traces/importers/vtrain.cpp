// vTrain's tables of NCCL all-reduce times, made from nccl-tests: size in bytes, count, type, and the time in
// nanoseconds and bus bandwidth in GB/s (10^9) out of place, then in place. The out-of-place time is used.

#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

constexpr double kNsPerUs = 1000;
constexpr std::string_view kHeader = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)";

bool is_header(std::string_view line) { return line == kHeader; }

void check_bandwidth(const CsvRow& row, const std::pair<double, double>& point, std::int64_t workers) {
  const double expected = bus_bandwidth(core::CollectiveKind::all_reduce, workers, point);
  if (!agrees(number(row.line, row.fields[4], "a bus bandwidth in GB/s", 0, core::kMaxTimeUs), expected))
    row.line.expected(fmt::format("a bus bandwidth of {:.2f} GB/s on {} workers", expected, workers),
                      row.fields[4]);
}

}  // namespace

bool is_vtrain(std::string_view text, std::string_view /*path*/) { return has_line(text, is_header); }

std::vector<Series> read_vtrain(const LogFile& log, const ImportOptions& options) {
  const CsvTable table = read_csv(log, is_header, kHeader);
  Series out = {.path = log.path, .workers = stated_workers(log, options, "GPU")};
  for (const CsvRow& row : table.rows) {
    add_point(out.points, row.line, row.fields[0], row.fields[3], kNsPerUs);
    check_bandwidth(row, out.points.back(), out.workers);
  }
  return {out};
}

}  // namespace traces::importers
