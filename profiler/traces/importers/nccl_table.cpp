// Tables of nccl-tests results of a whole machine, `collective,dtype,gpus,elements,ms`: elements of the
// total, as nccl-tests counts them, and milliseconds out of place. Where several element types were measured,
// the first of half, bfloat16 and float is taken, since gradients are summed in these.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

constexpr std::string_view kHeader = "collective,dtype,gpus,elements,ms";

bool is_header(std::string_view line) { return line == kHeader; }

struct ElementType {
  std::string_view name;
  std::int64_t bytes;
};
/// In the order of preference.
constexpr std::array<ElementType, 4> kTypes = {{{"half", 2}, {"bfloat16", 2}, {"float", 4}, {"int8", 1}}};

const ElementType& type_of(const CsvRow& row) {
  for (const ElementType& type : kTypes)
    if (row.fields[1] == type.name) return type;
  row.line.expected("an element type: half, bfloat16, float or int8", row.fields[1]);
}

const ElementType& preferred_type(const CsvTable& table) {
  std::size_t first = kTypes.size();
  for (const CsvRow& row : table.rows)
    first = std::min(first, static_cast<std::size_t>(&type_of(row) - kTypes.data()));
  return kTypes.at(first);
}

}  // namespace

bool is_nccl_table(std::string_view text, std::string_view /*path*/) { return has_line(text, is_header); }

std::vector<Series> read_nccl_table(const LogFile& log, const ImportOptions& options) {
  const std::vector<Line> lines = lines_of(log);
  const auto header =
      std::find_if(lines.begin(), lines.end(), [](const Line& line) { return is_header(line.text); });
  if (header == lines.end()) refuse(log, fmt::format("a header {}", kHeader), "no such line");
  const CsvTable table = csv_table(*header, {header + 1, lines.end()});
  if (table.rows.empty()) header->expected_but("rows under the header", "none");
  const ElementType& type = preferred_type(table);
  const std::optional<core::CollectiveKind> wanted = given_collective(options);
  std::map<std::pair<core::CollectiveKind, std::int64_t>, Series> all;
  for (const CsvRow& row : table.rows) {
    const std::int64_t gpus = integer(row.line, row.fields[2], "a number of GPUs", 1, core::kMaxWorkers);
    const std::int64_t elements =
        integer(row.line, row.fields[3], "a number of elements", 1, core::kMaxElements);
    const std::optional<core::CollectiveKind> kind = collective_kind(row.fields[0]);
    if (&type_of(row) != &type || !kind || (wanted && *kind != *wanted)) continue;  // such as alltoall
    const auto [found, is_new] = all.try_emplace(std::pair(*kind, gpus));
    if (is_new) found->second = {.path = log.path, .collective = *kind, .workers = gpus};
    constexpr double kMsPerUs = 1e-3;
    add_point(found->second.points, row.line, fmt::to_string(elements * type.bytes), row.fields[4], kMsPerUs);
  }
  if (all.empty()) refuse(log, "rows of all_reduce, reduce_scatter or all_gather", "none");
  std::vector<Series> out;
  for (auto& [key, series] : all) out.push_back(std::move(series));
  return out;
}

}  // namespace traces::importers
