// Output of nccl-tests, as text and as JSON (-J), and of rccl-tests as CSV: the collective from the program's
// name, the number of workers from the listed ranks, the out-of-place time. Sizes of reduce_scatter and
// all_gather are totals, as in our files. A log may hold the tables of several runs.

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/limits.hpp"
#include "profiler/traces/importers/formats.hpp"
#include "profiler/traces/importers/log_text.hpp"
#include "profiler/traces/importers/shared.hpp"

namespace traces::importers {
namespace {

struct Program {
  std::string_view name;
  core::CollectiveKind collective;
};
constexpr std::array<Program, 3> kPrograms = {{{"all_reduce_perf", core::CollectiveKind::all_reduce},
                                               {"reduce_scatter_perf", core::CollectiveKind::reduce_scatter},
                                               {"all_gather_perf", core::CollectiveKind::all_gather}}};
constexpr std::string_view kProgramWanted =
    "the collective, as --collective NAME or as one of all_reduce_perf, reduce_scatter_perf, all_gather_perf "
    "in the log or the file's name";

/// The collectives of the programs that a text names.
std::vector<core::CollectiveKind> collectives_in(std::string_view text) {
  std::vector<core::CollectiveKind> found;
  for (const Program& program : kPrograms)
    if (text.find(program.name) != std::string_view::npos) found.push_back(program.collective);
  return found;
}

/// Returns the collective of the only program that a text names.
std::optional<core::CollectiveKind> collective_in(std::string_view text) {
  const std::vector<core::CollectiveKind> found = collectives_in(text);
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

// ---- text output

/// `# size count type redop root time algbw busbw #wrong time algbw busbw #wrong`, sometimes with more
/// columns.
bool is_header(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  return words.size() > 4 && words[0] == "#" && words[1] == "size" && words[2] == "count" &&
         words[3] == "type";
}

bool is_json(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n\f\v\xEF\xBB\xBF");
  return start != std::string_view::npos && text[start] == '{';
}

/// The positions of the out-of-place columns in a row.
class Columns {
 public:
  explicit Columns(const Line& header) {
    names_ = words_of(header.text);
    names_.erase(names_.begin());
    const auto timed = std::find_if(names_.begin(), names_.end(), [](std::string_view name) {
      return name == "time" || name == "cputime";
    });
    time_ = static_cast<std::size_t>(timed - names_.begin());
    const std::size_t kNeeded = time_ + 4;
    if (names_.size() < kNeeded || names_[time_ + 2] != "busbw")
      header.expected("columns time, algbw, busbw and errors");
  }

  std::vector<std::string_view> read(const Line& row) const {
    std::vector<std::string_view> words = words_of(row.text);
    const bool dated = names_.back() == "timestamp" && words.size() == names_.size() + 1;  // date and time
    if (words.size() != names_.size() && !dated)
      row.expected_but(fmt::format("{} columns", names_.size()), fmt::to_string(words.size()));
    return words;
  }

  std::size_t time() const { return time_; }

  /// Refuses wrong elements. Before 2022 the column held the largest rounding error instead of their number.
  void check_errors(const Line& row, std::string_view text) const {
    constexpr double kMaxRounding = 0.01;  // nccl-tests counted more than this as wrong, for half precision
    if (text == "N/A") return;
    if (names_[time_ + 3] == "error")
      number(row, text, "a rounding error", 0, kMaxRounding);
    else if (text != "0" && text != "0e+00")
      row.expected("0 wrong elements", text);
  }

 private:
  std::vector<std::string_view> names_;
  std::size_t time_ = 0;
};

/// What a log says, and where: FILE:LINE or `FILE: /pointer`.
template <typename Value>
struct Told {
  Value value{};
  std::string where;
};

[[noreturn]] void refuse_told(std::string_view where, std::string_view what, std::string_view got) {
  throw core::InputError(fmt::format("{}: expected {}, got {}", where, what, got));
}

std::string place_of(const Line& line) { return fmt::format("{}:{}", shown_path(*line.log), line.number); }
std::string place_of(const core::Field& field) {
  return fmt::format("{}: {}", field.source(), field.pointer());
}

/// `#  Rank  0 Group  0 Pid ...`: counts the ranks of the first group, which are all ranks unless the run was
/// split.
Told<std::int64_t> ranks_listed(const std::vector<Line>& lines) {
  Told<std::int64_t> out;
  std::optional<std::string_view> first_group;
  for (const Line& line : lines) {
    const std::vector<std::string_view> words = words_of(line.text);
    constexpr std::size_t kMin = 5;
    if (words.size() < kMin || words[0] != "#" || words[1] != "Rank") continue;
    const std::string_view group = words[3] == "Group" ? words[4] : std::string_view();
    if (!first_group) first_group = group;
    if (group != *first_group) continue;
    ++out.value;
    out.where = place_of(line);
  }
  return out;
}

std::int64_t workers_of(const LogFile& log, const Told<std::int64_t>& listed, const ImportOptions& options) {
  if (listed.value == 0) return workers_told(log, options, "");
  if (options.workers != 0 && options.workers != listed.value)
    refuse_told(listed.where, fmt::format("{} ranks, as --workers says", options.workers),
                fmt::to_string(listed.value));
  return listed.value;
}

using ToldCollective = Told<std::optional<core::CollectiveKind>>;

core::CollectiveKind collective_of(const LogFile& log, const ToldCollective& in_log,
                                   const ImportOptions& options) {
  const std::optional<core::CollectiveKind> given = given_collective(options);
  if (given && in_log.value && *given != *in_log.value)
    refuse_told(in_log.where, name(*given), name(*in_log.value));
  if (given) return *given;
  if (in_log.value) return *in_log.value;
  const std::optional<core::CollectiveKind> named = collective_in(file_name(log));
  if (!named) refuse(log, kProgramWanted, "neither");
  return *named;
}

/// Reads the lines above and below the table, where the program's name may appear.
ToldCollective collective_in_text(const std::vector<Line>& lines, const std::vector<Line>& rows) {
  ToldCollective out;
  std::string text;
  for (const Line& line : lines) {
    if (line.number >= rows.front().number && line.number <= rows.back().number) continue;
    text += fmt::format("{}\n", line.text);
    if (out.where.empty() && collective_in(line.text)) out.where = place_of(line);
  }
  out.value = collective_in(text);
  return out;
}

/// Whether the line names a program of nccl-tests whose collective is none of ours.
bool names_other_program(std::string_view line) {
  constexpr std::array<std::string_view, 8> kOthers = {"alltoall_perf",  "broadcast_perf", "gather_perf",
                                                       "reduce_perf",    "scatter_perf",   "sendrecv_perf",
                                                       "alltoallv_perf", "hypercube_perf"};
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return std::ranges::any_of(kOthers, [&](std::string_view name) {
    const std::size_t at = line.find(name);
    if (at == std::string_view::npos) return false;
    const std::size_t end = at + name.size();
    return (at == 0 || !is_of_name(line[at - 1])) && (end == line.size() || !is_of_name(line[end]));
  });
}

/// The last program that is named above one of several tables, other than by the end of the run before it.
/// Where it is another one than ours, there is a place and no collective.
ToldCollective collective_above(const std::vector<Line>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const bool names_one = names_other_program(line->text) ||
                           (collective_in(line->text) && collectives_in(line->text).size() < 2);
    if (names_one && line->text.find("concluded") == std::string_view::npos)
      return {.value = collective_in(line->text), .where = place_of(*line)};
  }
  return {};
}

/// NCCL's own log may come between the lines of a table.
std::vector<Line> lines_without_log(const LogFile& log) {
  std::vector<Line> lines = lines_of(log);
  std::erase_if(lines, [](const Line& line) {
    return line.text.find(" NCCL INFO ") != std::string_view::npos ||
           line.text.find(" NCCL WARN ") != std::string_view::npos;
  });
  return lines;
}

void read_rows(Series& out, const Line& header, const std::vector<Line>& rows) {
  const Columns columns(header);
  for (const Line& row : rows) {
    const std::vector<std::string_view> words = columns.read(row);
    const std::size_t time = columns.time();
    if (words[0] == "0") continue;  // less than an element for each worker: nothing was sent
    add_point(out.points, row, words[0], words[time], 1);
    const double expected = bus_bandwidth(out.collective, out.workers, out.points.back());
    if (!agrees(number(row, words[time + 2], "a bus bandwidth in GB/s", 0, core::kMaxTimeUs), expected))
      row.expected(fmt::format("a bus bandwidth of {:.2f} GB/s of {} on {} workers", expected,
                               name(out.collective), out.workers),
                   words[time + 2]);
    columns.check_errors(row, words[time + 3]);
  }
  if (out.points.empty()) header.expected_but("rows of more than 0 bytes under the header", "none");
}

std::vector<Series> read_text(const LogFile& log, const ImportOptions& options) {
  const std::vector<Line> lines = lines_without_log(log);
  const auto next_header = [&](std::vector<Line>::const_iterator from) {
    return std::find_if(from, lines.end(), [](const Line& line) { return is_header(line.text); });
  };
  auto header = next_header(lines.begin());
  std::int64_t left_out = 0;
  if (header == lines.end()) refuse(log, "the header of an nccl-tests table", "no such line");
  const bool is_only = next_header(header + 1) == lines.end();
  std::vector<Series> out;
  for (auto above = lines.begin(); header != lines.end();) {
    const auto next = next_header(header + 1);
    const std::vector<Line> rows = rows_of(log, {header + 1, next}, "nccl-tests");
    const std::vector<Line> before = is_only ? lines : std::vector<Line>(above, header);
    const ToldCollective told = is_only ? collective_in_text(lines, rows) : collective_above(before);
    const std::optional<core::CollectiveKind> given = given_collective(options);
    const bool is_other =
        !is_only && !told.where.empty() && (!told.value || (given && *given != *told.value));
    if (is_other) {
      ++left_out;
    } else {
      out.push_back({.path = log.path,
                     .collective = collective_of(log, told, options),
                     .workers = workers_of(log, ranks_listed(before), options)});
      read_rows(out.back(), *header, rows);
    }
    above = std::find_if(header, next, [&](const Line& line) { return line.number > rows.back().number; });
    header = next;
  }
  if (out.empty()) refuse(log, "a table of all_reduce_perf, reduce_scatter_perf or all_gather_perf", "none");
  out.front().tables_left_out = left_out;
  return out;
}

// ---- JSON output

std::int64_t ranks_in(const core::Field& file) {
  const core::Field config = file.at("config");
  std::int64_t processes = 0;
  std::optional<std::int64_t> first_group;
  for (const core::Field& device : config.at("devices").non_empty_items()) {  // the first of each process
    const std::int64_t group = device.has("group") ? device.at("group").integer(0, core::kMaxWorkers) : 0;
    if (!first_group) first_group = group;
    if (group == *first_group) ++processes;
  }
  const std::int64_t threads = config.at("nthreads").integer(1, core::kMaxWorkers);
  const std::int64_t ranks = processes * threads;
  if (ranks > core::kMaxWorkers)
    config.at("nthreads").expected(fmt::format("at most {} ranks", core::kMaxWorkers));
  const std::int64_t gpus = config.at("ngpus").integer(1, core::kMaxWorkers);
  if (ranks * gpus > core::kMaxWorkers)
    config.at("ngpus").expected(fmt::format("at most {} ranks", core::kMaxWorkers));
  return ranks * gpus;
}

void add_result(Series& out, const core::Field& result) {
  constexpr double kMinUs = 1e-6;
  const core::Field size = result.at("size");
  const auto bytes = static_cast<double>(size.integer(0, core::kMaxBytes));
  if (bytes == 0) return;  // less than an element for each worker: nothing was sent
  if (!out.points.empty() && bytes <= out.points.back().first)
    size.expected(fmt::format("more bytes than in the result before, {}", out.points.back().first));
  const core::Field timed = result.at("out_of_place");
  const core::Field time = timed.at(timed.has("cpu_time") ? "cpu_time" : "time");
  out.points.emplace_back(bytes, time.number(kMinUs, core::kMaxTimeUs));
  const double expected = bus_bandwidth(out.collective, out.workers, out.points.back());
  const core::Field bandwidth = timed.at("bus_bw");
  if (!agrees(bandwidth.number(0, core::kMaxTimeUs), expected))
    bandwidth.expected(fmt::format("a bus bandwidth of {:.2f} GB/s of {} on {} workers", expected,
                                   name(out.collective), out.workers));
  if (const auto wrong = timed.find("nwrong"); wrong && wrong->is_number() && wrong->number(0, 1e18) != 0)
    wrong->expected("0 wrong elements");
}

Series read_json(const LogFile& log, const ImportOptions& options) {
  const core::Field file = core::Field::parse(log.text, shown_path(log));
  const std::vector<core::Field> arguments = file.at("args").non_empty_items();
  Series out = {
      .path = log.path,
      .collective = collective_of(
          log, {.value = collective_in(arguments.front().text()), .where = place_of(arguments.front())},
          options),
      .workers = workers_of(
          log, {.value = ranks_in(file), .where = place_of(file.at("config").at("devices"))}, options)};
  for (const core::Field& result : file.at("results").non_empty_items()) add_result(out, result);
  if (out.points.empty()) file.at("results").expected("results of more than 0 bytes");
  return out;
}

// ---- CSV of rccl-tests

constexpr std::string_view kCsvHeader =
    "numCycle,collective,gpus,size,type,redop,inplace,time,algbw,busbw,#wrong";

bool is_csv_header(std::string_view line) { return line == kCsvHeader; }

std::optional<core::CollectiveKind> collective_named(std::string_view text) {
  if (text == "AllReduce") return core::CollectiveKind::all_reduce;
  if (text == "ReduceScatter") return core::CollectiveKind::reduce_scatter;
  if (text == "AllGather") return core::CollectiveKind::all_gather;
  return std::nullopt;
}

std::vector<Series> read_rccl_csv(const LogFile& log, const ImportOptions& options) {
  const std::optional<core::CollectiveKind> given = given_collective(options);
  std::vector<Series> out;
  for (const CsvRow& row : read_csv(log, is_csv_header, "an rccl-tests table").rows) {
    const std::optional<core::CollectiveKind> kind = collective_named(row.fields[1]);
    if (!kind || (given && *given != *kind) || row.fields[3] == "0" || row.fields[6] != "0") continue;
    const std::int64_t workers = integer(row.line, row.fields[2], "a number of GPUs", 1, core::kMaxWorkers);
    if (options.workers != 0 && options.workers != workers)
      row.line.expected(fmt::format("{} GPUs, as --workers says", options.workers), row.fields[2]);
    if (out.empty() || out.back().collective != *kind || out.back().workers != workers)
      out.push_back({.path = log.path, .collective = *kind, .workers = workers});
    add_point(out.back().points, row.line, row.fields[3], row.fields[7], 1);
    const double expected = bus_bandwidth(*kind, workers, out.back().points.back());
    if (!agrees(number(row.line, row.fields[9], "a bus bandwidth in GB/s", 0, core::kMaxTimeUs), expected))
      row.line.expected(
          fmt::format("a bus bandwidth of {:.2f} GB/s of {} on {} workers", expected, name(*kind), workers),
          row.fields[9]);
    if (row.fields[10] != "0" && row.fields[10] != "N/A")
      row.line.expected("0 wrong elements", row.fields[10]);
  }
  if (out.empty()) refuse(log, "out-of-place rows of AllReduce, ReduceScatter or AllGather", "none");
  return out;
}

}  // namespace

bool is_nccl_tests(std::string_view text, std::string_view /*path*/) {
  if (is_json(text))
    return text.find("\"nccl_version\"") != std::string_view::npos &&
           text.find("\"results\"") != std::string_view::npos;
  return has_line(text, is_header) || has_line(text, is_csv_header);
}

std::vector<Series> read_nccl_tests(const LogFile& log, const ImportOptions& options) {
  if (is_json(log.text)) return {read_json(log, options)};
  return has_line(log.text, is_csv_header) ? read_rccl_csv(log, options) : read_text(log, options);
}

}  // namespace traces::importers
