// NCCL's inspector plugin: a JSON object for each collective of a rank, a line each (output formats v4.0 and
// v4.2). A rank's time also holds its wait for the others, so the shortest of all ranks is the collective's
// time.

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "core/field.hpp"
#include "core/limits.hpp"
#include "core/statistics.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

using core::CollectiveKind;
using core::Field;

bool is_record(std::string_view line) {
  return line.starts_with('{') && line.find("\"coll_perf\"") != std::string_view::npos;
}

/// The curve that a collective is a point of.
struct Curve {
  CollectiveKind kind;
  std::optional<std::string> algorithm;
  std::int64_t workers;
  auto operator<=>(const Curve&) const = default;
};

/// One collective of a job: the communicator, its number in it, and its size.
using Call = std::tuple<std::string, std::int64_t, double>;

struct Record {
  Curve curve;
  Call call;
  double us = 0;
};

std::optional<CollectiveKind> inspected_kind(std::string_view name) {
  if (name == "AllReduce") return CollectiveKind::all_reduce;
  if (name == "ReduceScatter") return CollectiveKind::reduce_scatter;
  if (name == "AllGather") return CollectiveKind::all_gather;
  return std::nullopt;
}

/// "RING" and "Ring" are ring; "TREE" is two binary trees, each for half of the data. Others stay unnamed.
std::optional<std::string> algorithm_of(const Field& collective) {
  const std::optional<Field> found = collective.find("coll_algo");
  if (!found) return std::nullopt;
  const std::string name = found->text();
  if (name == "RING" || name == "Ring") return "ring";
  if (name == "TREE" || name == "Tree") return "double_binary_tree";
  return std::nullopt;
}

/// A network counts the total of scattered and gathered data, the inspector each rank's share.
double size_of(CollectiveKind kind, std::int64_t bytes, std::int64_t ranks) {
  const double each = static_cast<double>(bytes);
  return kind == CollectiveKind::all_reduce ? each : each * static_cast<double>(ranks);
}

/// Returns nothing for collectives that networks do not have.
std::optional<Record> record_of(const Line& line) {
  const Field record = Field::parse(line.text, fmt::format("{}:{}", shown_path(*line.log), line.number));
  const Field header = record.at("header");
  const Field collective = record.at("coll_perf");
  const std::optional<CollectiveKind> kind = inspected_kind(collective.at("coll").text());
  const std::int64_t ranks = header.at("n_ranks").integer(1, core::kMaxWorkers);
  const std::int64_t bytes = collective.at("coll_msg_size_bytes").integer(0, core::kMaxBytes);
  const double us = collective.at("coll_exec_time_us").number(0, core::kMaxTimeUs);
  const std::int64_t number = collective.at("coll_sn").integer(0, core::kMaxBytes);
  const std::string communicator = header.at("id").text();
  if (!kind || ranks < 2 || bytes == 0 || us == 0) return std::nullopt;
  const double size = size_of(*kind, bytes, ranks);
  if (size > static_cast<double>(core::kMaxBytes))
    line.expected(fmt::format("at most {} bytes", core::kMaxBytes));
  const std::optional<std::string> algorithm =
      kind == CollectiveKind::all_reduce ? algorithm_of(collective) : std::nullopt;
  return Record{.curve = {.kind = *kind, .algorithm = algorithm, .workers = ranks},
                .call = {communicator, number, size},
                .us = us};
}

}  // namespace

bool is_nccl_inspector(std::string_view text, std::string_view /*path*/) { return has_line(text, is_record); }

std::vector<Series> read_nccl_inspector(const std::vector<LogFile>& logs, const ImportOptions& /*options*/) {
  std::map<Curve, std::map<Call, double>> shortest;
  for (const LogFile& log : logs)
    for (const Line& line : lines_of(log)) {
      if (!line.text.starts_with('{')) line.expected("a JSON object of NCCL's inspector");
      const std::optional<Record> record = record_of(line);
      if (!record) continue;
      const auto [found, is_new] = shortest[record->curve].try_emplace(record->call, record->us);
      if (!is_new) found->second = std::min(found->second, record->us);
    }
  std::vector<Series> out;
  for (const auto& [curve, calls] : shortest) {
    std::map<double, std::vector<double>> by_size;
    for (const auto& [call, us] : calls) by_size[std::get<2>(call)].push_back(us);
    out.push_back({.path = logs.front().path,
                   .collective = curve.kind,
                   .algorithm = curve.algorithm,
                   .workers = curve.workers});
    for (auto& [bytes, times] : by_size) out.back().points.emplace_back(bytes, core::quantile(times, 0.5));
  }
  if (out.empty())
    refuse(logs.front(), "all-reduces, reduce-scatters or all-gathers of two ranks or more", "none");
  return out;
}

}  // namespace traces::importers
