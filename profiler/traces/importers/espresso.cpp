// Gradient-ready traces of Espresso: `index, tensor, elements, us since the previous tensor was ready`, in
// backward order, recorded on the host of a running job. The gaps are used as they are; Espresso's own
// simulator drops their whole milliseconds.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

bool is_header(std::string_view line) {
  constexpr std::string_view kIndex = "idx";
  constexpr std::string_view kRest = ",tensor,numel,gap_us";
  return line.substr(0, kIndex.size()) == kIndex && line.find(kRest) != std::string_view::npos;
}

/// Returns the module of a parameter: the name before the last dot, or the whole name.
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

/// In the order of the log's rows, with the meaning of its columns.
std::vector<core::ProfileTensor> read_tensors(const CsvTable& table) {
  std::vector<core::ProfileTensor> tensors;
  std::unordered_set<std::string> names;
  for (const CsvRow& row : table.rows) {
    const auto next = static_cast<std::int64_t>(tensors.size());
    if (integer(row.line, row.fields[0], "an index", 0, core::kMaxElements) != next)
      row.line.expected(fmt::format("index {}", next), row.fields[0]);
    if (row.fields[1].empty()) row.line.expected("a tensor's name", "");
    if (!names.insert(row.fields[1]).second)
      row.line.expected("a tensor that no row above names", row.fields[1]);
    tensors.push_back({.name = row.fields[1],
                       .elements = integer(row.line, row.fields[2], "elements", 1, core::kMaxElements),
                       .backward_us = microseconds(row.line, row.fields[3], "a gap in us")});
  }
  return tensors;
}

/// Returns `name`, or `name#2`, `name#3` and so on if a module's tensors are in several places.
std::string unique_name(const std::string& name, std::unordered_set<std::string>& taken,
                        std::unordered_map<std::string, int>& uses) {
  std::string unique = name;
  int& use = uses[name];
  while (!taken.insert(unique).second) unique = fmt::format("{}#{}", name, ++use + 1);
  return unique;
}

/// Forward order: the reverse of the log's order. Neighbouring tensors of one module form a layer.
std::vector<core::ProfileLayer> layers_of(std::vector<core::ProfileTensor> tensors, double forward_ratio) {
  std::vector<core::ProfileLayer> layers;
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> uses;
  std::string module;
  std::reverse(tensors.begin(), tensors.end());
  for (core::ProfileTensor& tensor : tensors) {
    if (layers.empty() || module_of(tensor.name) != module) {
      module = module_of(tensor.name);
      layers.push_back({.name = unique_name(module, taken, uses), .kind = "unknown"});
    }
    layers.back().backward_us += *tensor.backward_us;
    layers.back().tensors.push_back(std::move(tensor));
  }
  for (core::ProfileLayer& layer : layers) layer.forward_us = forward_ratio * layer.backward_us;
  return layers;
}

}  // namespace

bool is_espresso(std::string_view text, std::string_view /*path*/) { return has_line(text, is_header); }

core::Profile import_espresso(const std::vector<LogFile>& logs, const ImportOptions& options) {
  const LogFile& log = single(logs);
  const CsvTable table = read_csv(log, is_header, "idx,tensor,numel,gap_us");
  constexpr std::size_t kColumns = 4;
  if (table.columns.size() != kColumns) table.header.expected("the 4 columns idx,tensor,numel,gap_us");
  core::Profile profile = profile_head(log, options, given_batch_size(log, options));
  profile.layers = layers_of(read_tensors(table), options.forward_ratio);
  profile.origin = {
      .kind = core::OriginKind::measured,
      .source = fmt::format("Espresso gradient-ready trace {}; backward is the raw gaps between gradients "
                            "becoming ready on the host of a running job, from the first one on; {}",
                            file_name(log), assumptions(options))};
  return profile;
}

}  // namespace traces::importers
