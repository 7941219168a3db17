// Layer logs of B-Caffe, the MG-WFBP authors' fork of Caffe. One row per learnable blob in forward order:
// `[index, elements, backward us, all-reduce us]`, later `... , merged all-reduce us]`, after glog's prefix.
// Weight and bias of a layer are two rows that both carry the backward time of the whole layer.

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "core/statistics.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

struct Blob {
  Line line;
  std::size_t fields;
  std::int64_t index;
  std::int64_t elements;
  double backward_us;
  double all_reduce_us;  ///< of this blob, or of its layer; 0 if it travelled with another
};
using Run = std::vector<Blob>;

/// Returns a row from its '[' on: `[0, `. Other lines of the log may have brackets too, but not with a number
/// and a comma.
std::optional<std::string_view> row_in(std::string_view line) {
  constexpr std::string_view kAfterPrefix = "] [";
  if (line.empty()) return std::nullopt;
  if (line.front() != '[') {
    const std::size_t start = line.find(kAfterPrefix);
    if (start == std::string_view::npos) return std::nullopt;
    line.remove_prefix(start + kAfterPrefix.size() - 1);
  }
  const std::size_t after = line.find_first_not_of("0123456789", 1);
  if (after == std::string_view::npos || after == 1 || line[after] != ',') return std::nullopt;
  return line;
}

bool is_first_row(std::string_view line) {
  const std::optional<std::string_view> row = row_in(line);
  return row && row->substr(0, 3) == "[0,";
}

/// Fields are separated by a comma and a blank, so that a decimal comma cannot pass for a separator.
Blob read_blob(const Line& line, std::string_view row, std::int64_t next_index) {
  if (row.back() != ']') line.expected("a row that ends with ']'", row);
  const std::vector<std::string_view> fields = split(row.substr(1, row.size() - 2), ", ");
  if (fields.size() != 4 && fields.size() != 5)
    line.expected("[index, elements, backward_us, allreduce_us] or one number more", row);
  const std::int64_t index = integer(line, fields[0], "an index", 0, core::kMaxElements);
  if (index != 0 && index != next_index)
    line.expected(next_index == 0 ? "index 0" : fmt::format("index {}, or 0 for a new run", next_index),
                  fields[0]);
  (void)microseconds(line, fields.back(), "an all-reduce time in us");
  return {.line = line,
          .fields = fields.size(),
          .index = index,
          .elements = integer(line, fields[1], "elements", 1, core::kMaxElements),
          .backward_us = microseconds(line, fields[2], "a backward time in us"),
          .all_reduce_us = microseconds(line, fields[3], "an all-reduce time in us")};
}

std::vector<Run> read_runs(const LogFile& log) {
  std::vector<Run> runs;
  for (const Line& line : lines_of(log)) {
    const std::optional<std::string_view> row = row_in(line.text);
    if (!row) continue;
    const auto next = runs.empty() ? 0 : static_cast<std::int64_t>(runs.back().size());
    const Blob blob = read_blob(line, *row, next);
    if (blob.index == 0) runs.emplace_back();
    if (!runs.back().empty() && blob.fields != runs.back().front().fields)
      line.expected(fmt::format("{} numbers, as in the rows above", runs.back().front().fields), *row);
    runs.back().push_back(blob);
  }
  if (runs.empty()) refuse(log, "rows `[index, elements, backward_us, ...]`", "none");
  return runs;
}

/// Returns the last of the longest runs: a truncated log ends with a part of one.
std::size_t last_complete(const std::vector<Run>& runs) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].size() >= runs[best].size()) best = i;
  return best;
}

std::vector<core::ProfileLayer> layers_of(const Run& run, double forward_ratio) {
  const std::size_t digits = std::to_string(run.size() / 2).size();
  std::vector<core::ProfileLayer> layers;
  for (std::size_t i = 0; i < run.size(); i += 2) {
    const Blob& weight = run[i];
    if (i + 1 == run.size()) weight.line.expected_but("a row for the bias after this one", "none");
    const Blob& bias = run[i + 1];
    if (bias.backward_us != weight.backward_us)
      bias.line.expected_but(
          fmt::format("the backward time of the row above, {}, as weight and bias share it",
                      weight.backward_us),
          fmt::to_string(bias.backward_us));
    const std::string name = fmt::format("layer{:0{}}", layers.size() + 1, digits);
    layers.push_back({.name = name,
                      .kind = "unknown",
                      .forward_us = forward_ratio * weight.backward_us,
                      .backward_us = weight.backward_us,
                      .tensors = {{.name = name + ".weight", .elements = weight.elements},
                                  {.name = name + ".bias", .elements = bias.elements}}});
  }
  return layers;
}

/// Sizes with the times of their all-reduces in the job. A bias without a time travelled with its weight.
std::map<std::int64_t, std::vector<double>> all_reduces_of(const Run& run) {
  constexpr std::int64_t kBytesPerElement = 4;
  std::map<std::int64_t, std::vector<double>> out;
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (run[i].all_reduce_us <= 0) continue;
    const bool carries_bias = i % 2 == 0 && i + 1 < run.size() && run[i + 1].all_reduce_us <= 0;
    const std::int64_t elements = run[i].elements + (carries_bias ? run[i + 1].elements : 0);
    out[kBytesPerElement * elements].push_back(run[i].all_reduce_us);
  }
  return out;
}

}  // namespace

std::vector<Series> read_b_caffe_all_reduces(const LogFile& log, const ImportOptions& options) {
  const std::vector<Run> runs = read_runs(log);
  Series out = {.path = log.path, .workers = stated_workers(log, options, "tmp")};
  for (const auto& [bytes, times] : all_reduces_of(runs[last_complete(runs)]))
    out.points.emplace_back(static_cast<double>(bytes), core::statistics(times).median);
  if (out.points.empty()) refuse(log, "all-reduce times above 0", "none");
  return {out};
}

bool is_b_caffe(std::string_view text, std::string_view /*path*/) { return has_line(text, is_first_row); }

core::Profile import_b_caffe(const std::vector<LogFile>& logs, const ImportOptions& options) {
  const LogFile& log = single(logs);
  const std::vector<Run> runs = read_runs(log);
  const std::size_t used = last_complete(runs);
  core::Profile profile = profile_head(log, options, given_batch_size(log, options));
  profile.layers = layers_of(runs[used], options.forward_ratio);
  profile.origin = {.kind = core::OriginKind::measured,
                    .source = fmt::format("B-Caffe layer log {}, run {} of {}; backward is measured; {}",
                                          file_name(log), used + 1, runs.size(), assumptions(options))};
  return profile;
}

}  // namespace traces::importers
