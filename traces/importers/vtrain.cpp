// vTrain's tables of NCCL all-reduce times, made from nccl-tests: size in bytes, count, type, and the time in
// nanoseconds and bus bandwidth in GB/s (10^9) out of place, then in place. The out-of-place time is used.

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "traces/importers/formats.hpp"
#include "traces/importers/log_text.hpp"
#include "traces/importers/shared.hpp"
#include "traces/limits.hpp"

namespace traces::importers {
namespace {

constexpr double kNsPerUs = 1000;
constexpr std::string_view kHeader = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)";

bool is_header(std::string_view line) { return line == kHeader; }

/// A bus bandwidth is bytes / time * 2 (n - 1) / n, so it gives away a wrong number of workers.
void check_bandwidth(const CsvRow& row, const std::pair<double, double>& point, std::int64_t workers) {
  constexpr double kTolerance = 0.01;
  constexpr double kLastDigit = 0.01;
  const auto n = static_cast<double>(workers);
  const double expected = point.first / (kNsPerUs * point.second) * 2 * (n - 1) / n;
  const double found = number(row.line, row.fields[4], "a bus bandwidth in GB/s", 0, kMostTimeUs);
  if (std::abs(found - expected) > kTolerance * expected + kLastDigit)
    row.line.expected(fmt::format("a bus bandwidth of {:.2f} GB/s on {} workers", expected, workers),
                      row.fields[4]);
}

AllReduceLog read_log(const LogFile& log, const ImportOptions& options) {
  const CsvTable table = read_csv(log, is_header, kHeader);
  AllReduceLog out = {.log = &log, .workers = workers_told(log, options, "GPU"), .points = {}};
  for (const CsvRow& row : table.rows) {
    add_point(out.points, row.line, row.fields[0], row.fields[3], kNsPerUs);
    check_bandwidth(row, out.points.back(), out.workers);
  }
  return out;
}

}  // namespace

bool is_vtrain(std::string_view text, std::string_view /*path*/) { return has_line(text, is_header); }

Imported import_vtrain(const std::vector<LogFile>& logs, const ImportOptions& options) {
  std::vector<AllReduceLog> read;
  read.reserve(logs.size());
  for (const LogFile& log : logs) read.push_back(read_log(log, options));
  return network_of(std::move(read), options, "vTrain NCCL all-reduce, out-of-place time");
}

}  // namespace traces::importers
