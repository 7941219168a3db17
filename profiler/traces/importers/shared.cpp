#include "profiler/traces/importers/shared.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/importers/log_text.hpp"

namespace traces::importers {
namespace {

/// Returns the runs of digits directly after `prefix`.
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

}  // namespace

std::string file_name(const LogFile& log) { return std::filesystem::path(log.path).filename().string(); }

std::string stem(const LogFile& log) { return std::filesystem::path(log.path).stem().string(); }

const LogFile& single(const std::vector<LogFile>& logs) {
  if (logs.size() > 1) refuse(logs[1], "one log at a time in this format", "a second one");
  return logs.front();
}

core::Profile profile_head(const LogFile& log, const ImportOptions& options, std::int64_t batch_size) {
  return {.model = options.model.empty() ? stem(log) : options.model,
          .batch_size = batch_size,
          .dtype = options.dtype.value_or(core::Dtype::float32),
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

std::int64_t stated_workers(const LogFile& log, const ImportOptions& options, std::string_view prefix,
                            std::string_view neither) {
  if (options.workers > 0) return options.workers;
  const std::string name = stem(log);
  const std::vector<std::string_view> numbers = numbers_in(name, prefix);
  const std::string what = fmt::format(
      "the number of workers, 1 to {}, as --workers N or as the one number{}{} in the file's name",
      core::kMaxWorkers, prefix.empty() ? "" : " after ", prefix);
  constexpr std::size_t kMaxDigits = 7;
  if (numbers.size() != 1 || numbers.front().size() > kMaxDigits)
    refuse(log, what, numbers.empty() ? neither : "a name without such a number");
  std::int64_t workers = 0;
  for (const char digit : numbers.front()) workers = 10 * workers + (digit - '0');
  if (workers < 1 || workers > core::kMaxWorkers) refuse(log, what, numbers.front());
  return workers;
}

void add_point(CurvePoints& points, const Line& line, std::string_view bytes, std::string_view us,
               double units_per_us) {
  constexpr double kMinUs = 1e-6;
  const auto size = static_cast<double>(integer(line, bytes, "bytes", 0, core::kMaxBytes));
  if (!points.empty() && size <= points.back().first)
    line.expected(fmt::format("more bytes than in the row above, {}", points.back().first), bytes);
  const double time = number(line, us, "a time", kMinUs * units_per_us, core::kMaxTimeUs * units_per_us);
  points.emplace_back(size, time / units_per_us);
}

std::optional<core::CollectiveKind> collective_kind(std::string_view text) {
  for (const core::CollectiveKind kind :
       {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
        core::CollectiveKind::all_gather})
    if (name(kind) == text) return kind;
  return std::nullopt;
}

std::optional<core::CollectiveKind> given_collective(const ImportOptions& options) {
  if (options.collective.empty()) return std::nullopt;
  const std::optional<core::CollectiveKind> kind = collective_kind(options.collective);
  if (!kind)
    throw core::InputError(
        fmt::format("--collective: expected all_reduce, reduce_scatter or all_gather, got '{}'",
                    core::printable(options.collective)));
  return kind;
}

double bus_bandwidth(core::CollectiveKind collective, std::int64_t workers,
                     const std::pair<double, double>& point) {
  constexpr double kBytesPerUs = 1e3;  // of a GB/s
  const auto n = static_cast<double>(workers);
  const double passes = collective == core::CollectiveKind::all_reduce ? 2 : 1;
  return point.first / (kBytesPerUs * point.second) * passes * (n - 1) / n;
}

bool agrees(double found, double expected) {
  constexpr double kTolerance = 0.01;
  constexpr double kLastDigit = 0.01;
  return std::abs(found - expected) <= kTolerance * expected + kLastDigit;
}

}  // namespace traces::importers
