#include "traces/importers/shared.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "traces/fit.hpp"
#include "traces/importers/log_text.hpp"
#include "traces/limits.hpp"

namespace traces::importers {
namespace {

std::string stem(const LogFile& log) { return std::filesystem::path(log.path).stem().string(); }

/// The runs of digits that come straight after `prefix`.
std::vector<std::string_view> numbers_in(std::string_view text, std::string_view prefix) {
  constexpr std::string_view kDigits = "0123456789";
  std::vector<std::string_view> numbers;
  std::size_t start = text.find_first_of(kDigits);
  while (start != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits, start), text.size());
    const std::string_view before = text.substr(0, start);
    if (before.size() >= prefix.size() && before.substr(before.size() - prefix.size()) == prefix)
      numbers.push_back(text.substr(start, end - start));
    start = text.find_first_of(kDigits, end);
  }
  return numbers;
}

/// A curve's last line is continued for ever, and the line between two neighbouring points can have any
/// slope, a falling one too: the noise of a microsecond between sizes 4 KiB apart. So that the last line
/// spans a quarter of the sizes, the points inside that quarter are left out.
std::vector<std::pair<double, double>> with_steady_end(std::vector<std::pair<double, double>> points) {
  const std::pair<double, double> last = points.back();
  constexpr double kQuarterBefore = 0.75;
  const auto first_dropped = std::find_if(points.begin(), points.end(), [&](const auto& point) {
    return point.first > kQuarterBefore * last.first;
  });
  points.erase(first_dropped, points.end());
  points.push_back(last);
  return points;
}

Measured measured(const AllReduceLog& log) {
  Measured out = {.collective = CollectiveKind::all_reduce,
                  .workers = log.workers,
                  .curve = CostCurve::through(with_steady_end(log.points))};
  if (log.points.size() < 2) return out;
  const LineFit line = fit_line(log.points);
  out.fit = Fit{.r2 = line.r2,
                .mean_relative_error = line.mean_relative_error,
                .max_relative_error = line.max_relative_error};
  return out;
}

}  // namespace

std::string file_name(const LogFile& log) { return std::filesystem::path(log.path).filename().string(); }

const LogFile& single(const std::vector<LogFile>& logs) {
  if (logs.size() > 1) refuse(logs[1], "one log at a time in this format", "a second one");
  return logs.front();
}

Profile profile_head(const LogFile& log, const ImportOptions& options, std::int64_t batch_size) {
  return {.model = options.model.empty() ? stem(log) : options.model,
          .batch_size = batch_size,
          .dtype = options.dtype,
          .device = options.device.empty() ? "unknown" : options.device,
          .origin = {},
          .layers = {}};
}

std::int64_t given_batch_size(const LogFile& log, const ImportOptions& options) {
  if (options.batch_size == 0) refuse(log, "a batch size (--batch N), which this log does not hold", "none");
  return options.batch_size;
}

std::string assumptions(const ImportOptions& options) {
  return fmt::format(
      "ASSUMED, as the log holds neither: forward takes {} of backward, layer by layer, and the batch size "
      "is {}",
      options.forward_ratio, options.batch_size);
}

std::int64_t workers_told(const LogFile& log, const ImportOptions& options, std::string_view prefix) {
  if (options.workers > 0) return options.workers;
  const std::string name = stem(log);
  const std::vector<std::string_view> numbers = numbers_in(name, prefix);
  const std::string what = fmt::format(
      "the number of workers, 1 to {}, as --workers N or as the one number{}{} in the file's name",
      kMostWorkers, prefix.empty() ? "" : " after ", prefix);
  constexpr std::size_t kMostDigits = 7;
  if (numbers.size() != 1 || numbers.front().size() > kMostDigits)
    refuse(log, what, numbers.empty() ? "neither" : "a name without such a number");
  std::int64_t workers = 0;
  for (const char digit : numbers.front()) workers = 10 * workers + (digit - '0');
  if (workers < 1 || workers > kMostWorkers) refuse(log, what, numbers.front());
  return workers;
}

void add_point(CurvePoints& points, const Line& line, std::string_view bytes, std::string_view us,
               double units_per_us) {
  constexpr double kLeastUs = 1e-6;
  const auto size = static_cast<double>(integer(line, bytes, "bytes", 0, kMostBytes));
  if (!points.empty() && size <= points.back().first)
    line.expected(fmt::format("more bytes than in the row above, {}", points.back().first), bytes);
  const double time = number(line, us, "a time", kLeastUs * units_per_us, kMostTimeUs * units_per_us);
  points.emplace_back(size, time / units_per_us);
}

Network network_of(std::vector<AllReduceLog> logs, const ImportOptions& options, std::string_view source) {
  Network network = {.name = options.network_name.empty() ? stem(*logs.front().log) : options.network_name,
                     .origin = {.kind = OriginKind::measured, .source = std::string(source)}};
  std::stable_sort(logs.begin(), logs.end(),
                   [](const AllReduceLog& a, const AllReduceLog& b) { return a.workers < b.workers; });
  for (std::size_t i = 0; i < logs.size(); ++i) {
    if (i > 0 && logs[i].workers == logs[i - 1].workers)
      refuse(*logs[i].log, "one log for each number of workers",
             fmt::format("a second one for {}, after {}", logs[i].workers, shown_path(*logs[i - 1].log)));
    network.origin.source +=
        fmt::format("{} {} ({} workers)", i == 0 ? ":" : ",", file_name(*logs[i].log), logs[i].workers);
    network.measured.push_back(measured(logs[i]));
  }
  return network;
}

}  // namespace traces::importers
