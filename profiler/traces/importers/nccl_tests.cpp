// Output of nccl-tests, as text and as JSON (-J), and of rccl-tests as CSV: the collective from the program's
// name, the number of workers from the listed ranks, the out-of-place time, or the in-place time where the
// former is far longer. Sizes of reduce_scatter and all_gather are totals, as in our files. A log may hold
// the tables of several runs.

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
struct Header {
  std::string_view prefix;              ///< what a launcher or a collector of logs put before the line
  std::vector<std::string_view> names;  ///< from "size" on
};

/// Markdown takes a `#` at the start of a line for a heading and loses it.
std::optional<Header> header_in(std::string_view line) {
  if (line.find("size") == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> words = words_of(line);
  constexpr std::array<std::string_view, 3> kFirst = {"size", "count", "type"};
  const auto first = std::search(words.begin(), words.end(), kFirst.begin(), kFirst.end());
  const bool is_certain = words.front() == "#" || std::find(first, words.end(), "busbw") != words.end();
  if (first == words.end() || words.end() - first < 4 || !is_certain) return std::nullopt;
  std::string_view prefix = trimmed(line.substr(0, static_cast<std::size_t>(first->data() - line.data())));
  if (prefix.ends_with('#')) prefix = trimmed(prefix.substr(0, prefix.size() - 1));
  return Header{.prefix = prefix, .names = {first, words.end()}};
}

bool is_header(std::string_view line) { return header_in(line).has_value(); }

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Returns what follows a prefix of the same form, in which other digits, such as those of a time or a rank,
/// and other numbers of blanks may stand; nothing if the line does not begin so.
std::optional<std::string_view> after_prefix(std::string_view line, std::string_view prefix) {
  while (!prefix.empty()) {
    const char wanted = prefix.front();
    const auto take = [&](bool (*is_alike)(char)) {
      if (line.empty() || !is_alike(line.front())) return false;
      for (std::string_view* each : {&line, &prefix})
        each->remove_prefix(
            static_cast<std::size_t>(std::find_if_not(each->begin(), each->end(), is_alike) - each->begin()));
      return true;
    };
    if (is_digit(wanted) || is_blank(wanted)) {
      if (!take(is_digit(wanted) ? is_digit : is_blank)) return std::nullopt;
      continue;
    }
    if (!line.starts_with(wanted)) return std::nullopt;
    line.remove_prefix(1);
    prefix.remove_prefix(1);
  }
  return line;
}

bool is_json(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n\f\v\xEF\xBB\xBF");
  return start != std::string_view::npos && text[start] == '{';
}

/// What a row says out of place or in place.
struct Timed {
  std::string_view us;
  std::string_view bus_bandwidth;
  std::string_view errors;
};

/// The columns of a table.
class Columns {
 public:
  Columns(const Line& header, std::string_view prefix)
      : names_(header_in(header.text)->names), prefix_(prefix) {
    time_ = next_time(0);
    if (names_.size() < time_ + kTimed || names_[time_ + 2] != "busbw")
      header.expected("columns time, algbw, busbw and errors");
    in_place_ = next_time(time_ + kTimed);
  }

  /// The words of a row, if they are as many as the columns.
  std::optional<std::vector<std::string_view>> read(const Line& row) const {
    std::vector<std::string_view> words = words_without_prefix(row.text);
    if (!is_complete(words)) words = words_of(row.text);
    return is_complete(words) ? std::optional(words) : std::nullopt;
  }

  [[noreturn]] void refuse_row(const Line& row) const {
    row.expected_but(fmt::format("{} columns", names_.size()), fmt::to_string(words_of(row.text).size()));
  }

  Timed out_of_place(const std::vector<std::string_view>& words) const { return timed(words, time_); }
  std::optional<Timed> in_place(const std::vector<std::string_view>& words) const {
    return in_place_ + kTimed <= names_.size() ? std::optional(timed(words, in_place_)) : std::nullopt;
  }

  /// Before 2022 the column held the largest rounding error instead of the number of wrong elements.
  bool is_wrong(const Line& row, std::string_view errors) const {
    constexpr double kMaxRounding = 0.01;  // nccl-tests counted more than this as wrong, for half precision
    constexpr double kMost = 1e18;
    if (errors == "N/A") return false;
    if (names_[time_ + 3] == "error") return number(row, errors, "a rounding error", 0, kMost) > kMaxRounding;
    const double count = number(row, errors, "a number of wrong elements", 0, kMost);
    if (count > 0 && count < 1) row.expected("a number of wrong elements", errors);
    return count > 0;
  }

 private:
  static constexpr std::size_t kTimed = 4;  ///< columns of a Timed, with algbw

  std::size_t next_time(std::size_t from) const {
    const auto is_time = [](std::string_view name) { return name == "time" || name == "cputime"; };
    const auto start = names_.begin() + static_cast<std::ptrdiff_t>(std::min(from, names_.size()));
    return static_cast<std::size_t>(std::find_if(start, names_.end(), is_time) - names_.begin());
  }

  bool is_complete(const std::vector<std::string_view>& words) const {
    const bool is_dated = names_.back() == "timestamp" && words.size() == names_.size() + 1;  // date and time
    return words.size() == names_.size() || is_dated;
  }

  /// A row is written in parts, and a launcher may put its prefix before each of them. One that may be a part
  /// of a number is not looked for.
  std::vector<std::string_view> words_without_prefix(std::string_view row) const {
    if (prefix_.find_first_not_of("0123456789.+-e") == std::string_view::npos) return words_of(row);
    std::vector<std::string_view> words;
    for (const std::string_view part : split(row, prefix_))
      for (const std::string_view word : words_of(part)) words.push_back(word);
    return words;
  }

  static Timed timed(const std::vector<std::string_view>& words, std::size_t at) {
    return {.us = words[at], .bus_bandwidth = words[at + 2], .errors = words[at + 3]};
  }

  std::vector<std::string_view> names_;
  std::string_view prefix_;
  std::size_t time_ = 0;
  std::size_t in_place_ = 0;
};

constexpr std::string_view kRowsWanted = "rows of more than 0 bytes without wrong elements";

std::string wrong_row(std::string_view where, std::string_view errors) {
  return fmt::format("{}: the sums were wrong (errors: {}), so this row is left out", where, errors);
}

/// What a log says, and where: FILE:LINE or `FILE: /pointer`.
template <typename Value>
struct Stated {
  Value value{};
  std::string where;
};

[[noreturn]] void refuse_stated(std::string_view where, std::string_view what, std::string_view got) {
  throw core::InputError(fmt::format("{}: expected {}, got {}", where, what, got));
}

std::string place_of(const Line& line) { return fmt::format("{}:{}", shown_path(*line.log), line.number); }
std::string place_of(const core::Field& field) {
  return fmt::format("{}: {}", field.source(), field.pointer());
}

/// `#  Rank  0 Group  0 Pid ...`: counts the ranks of the first group, which are all ranks unless the run was
/// split.
Stated<std::int64_t> ranks_listed(const std::vector<Line>& lines) {
  Stated<std::int64_t> out;
  std::optional<std::string_view> first_group;
  for (const Line& line : lines) {
    std::vector<std::string_view> words = words_of(line.text);
    if (!words.empty() && words.front() == "#") words.erase(words.begin());
    constexpr std::size_t kMin = 5;
    if (words.size() < kMin || words[0] != "Rank" || (words[2] != "Pid" && words[4] != "Pid")) continue;
    const std::string_view group = words[2] == "Group" ? words[3] : std::string_view();
    if (!first_group) first_group = group;
    if (group != *first_group) continue;
    ++out.value;
    out.where = place_of(line);
  }
  return out;
}

std::int64_t workers_of(const LogFile& log, const Stated<std::int64_t>& listed,
                        const ImportOptions& options) {
  if (listed.value == 0)
    return stated_workers(log, options, "",
                          "neither, nor lines of devices (the number of processes, as after mpirun -np, says "
                          "nothing of the GPUs of each)");
  if (options.workers != 0 && options.workers != listed.value)
    refuse_stated(listed.where, fmt::format("{} ranks, as --workers says", options.workers),
                  fmt::to_string(listed.value));
  return listed.value;
}

using StatedCollective = Stated<std::optional<core::CollectiveKind>>;

core::CollectiveKind collective_of(const LogFile& log, const StatedCollective& in_log,
                                   const ImportOptions& options) {
  const std::optional<core::CollectiveKind> given = given_collective(options);
  if (given && in_log.value && *given != *in_log.value)
    refuse_stated(in_log.where, name(*given), name(*in_log.value));
  if (given) return *given;
  if (in_log.value) return *in_log.value;
  const std::optional<core::CollectiveKind> named = collective_in(file_name(log));
  if (!named) refuse(log, kProgramWanted, "neither");
  return *named;
}

/// Reads the lines above and below the table, where the program's name may appear.
StatedCollective collective_in_text(const std::vector<Line>& lines, const std::vector<Line>& rows) {
  StatedCollective out;
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
StatedCollective collective_above(const std::vector<Line>& lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const bool names_one = names_other_program(line->text) ||
                           (collective_in(line->text) && collectives_in(line->text).size() < 2);
    if (names_one && line->text.find("concluded") == std::string_view::npos)
      return {.value = collective_in(line->text), .where = place_of(*line)};
  }
  return {};
}

/// A log without what was put before its lines.
struct TextLog {
  std::vector<Line> lines;
  std::string_view prefix;              ///< of the header
  std::vector<std::int64_t> of_others;  ///< numbers of lines that have another prefix of that form
};

std::string_view prefix_of(const std::vector<Line>& lines) {
  std::optional<std::string_view> out;
  for (const Line& line : lines) {
    const std::optional<Header> header = header_in(line.text);
    if (!header) continue;
    if (!out) out = header->prefix;
    if (after_prefix(header->prefix, *out) != "")
      line.expected_but(fmt::format("the header of a table after '{}', as above", core::printable(*out)),
                        fmt::format("one after '{}'", core::printable(header->prefix)));
  }
  return out.value_or("");
}

/// The line with the tag of `mpirun --tag-output`, which says of which process it is.
std::string_view with_rank_tag(const Line& line) {
  const std::string_view all = line.log->text;
  const auto at = static_cast<std::size_t>(line.text.data() - all.data());
  const std::size_t end_before = all.substr(0, at).rfind('\n');
  if (end_before == std::string_view::npos) return line.text;
  return trimmed(all.substr(end_before + 1, at - end_before - 1 + line.text.size()));
}

/// NCCL's own log may come between the lines of a table.
TextLog text_log(const LogFile& log) {
  TextLog out = {.lines = lines_of(log), .prefix = {}, .of_others = {}};
  for (Line& line : out.lines) line.text = with_rank_tag(line);
  out.prefix = prefix_of(out.lines);
  for (Line& line : out.lines) {
    const std::optional<std::string_view> rest = after_prefix(line.text, out.prefix);
    if (!rest) continue;
    if (!line.text.starts_with(out.prefix)) out.of_others.push_back(line.number);
    line.text = trimmed(*rest);
  }
  std::erase_if(out.lines, [](const Line& line) {
    return line.text.empty() || line.text.find(" NCCL INFO ") != std::string_view::npos ||
           line.text.find(" NCCL WARN ") != std::string_view::npos;
  });
  return out;
}

/// Other processes may write between the rows of a table.
std::vector<Line> without_others(std::vector<Line> lines, const TextLog& log) {
  std::erase_if(lines, [&](const Line& line) {
    return !looks_like_row(line.text) &&
           std::binary_search(log.of_others.begin(), log.of_others.end(), line.number);
  });
  return lines;
}

/// nccl-tests' last lines are missing where a job was killed.
bool is_finished(const std::vector<Line>& lines) {
  return std::ranges::any_of(lines, [](const Line& line) {
    return line.text.find("Out of bounds values") != std::string_view::npos ||
           line.text.find("Avg bus bandwidth") != std::string_view::npos;
  });
}

/// An out-of-place time that is so many times the in-place time holds something else, most often first
/// iterations. In 32 published logs 2 of 667 rows differ so much in the other direction, which is noise, and
/// 11 in this one, 7 of them by more than a factor of 2.
constexpr double kMaxOverInPlace = 1.3;

void check_bandwidth(const Series& series, const Line& row, std::string_view text,
                     const std::pair<double, double>& point) {
  const double expected = bus_bandwidth(series.collective, series.workers, point);
  if (!agrees(number(row, text, "a bus bandwidth in GB/s", 0, core::kMaxTimeUs), expected))
    row.expected(fmt::format("a bus bandwidth of {:.2f} GB/s of {} on {} workers", expected,
                             name(series.collective), series.workers),
                 text);
}

/// Whether the last point has a time that is far longer than in place.
bool is_cold(const Series& series, double in_place_us) {
  return in_place_us > 0 && series.points.back().second > kMaxOverInPlace * in_place_us;
}

void take_in_place(Series& out, double us) {
  out.points.back().second = us;
  ++out.in_place_rows;
}

void read_in_place(Series& out, const Line& row, const Columns& columns,
                   const std::vector<std::string_view>& words) {
  const std::optional<Timed> in_place = columns.in_place(words);
  if (!in_place || in_place->us == "N/A" || columns.is_wrong(row, in_place->errors)) return;
  const double us = number(row, in_place->us, "a time", 0, core::kMaxTimeUs);
  if (!is_cold(out, us)) return;
  check_bandwidth(out, row, in_place->bus_bandwidth, {out.points.back().first, us});
  take_in_place(out, us);
}

void read_rows(Series& out, const Line& header, const std::vector<Line>& rows, std::string_view prefix,
               bool is_finished) {
  const Columns columns(header, prefix);
  for (const Line& row : rows) {
    const auto words = columns.read(row);
    if (!words && !is_finished && row.number == rows.back().number) {
      out.warnings.push_back(
          fmt::format("{}: the log ends in the middle of this row, which is left out", place_of(row)));
      break;
    }
    if (!words) columns.refuse_row(row);
    if (words->front() == "0") continue;  // less than an element for each worker: nothing was sent
    const Timed timed = columns.out_of_place(*words);
    if (columns.is_wrong(row, timed.errors)) {
      out.warnings.push_back(wrong_row(place_of(row), timed.errors));
      continue;
    }
    add_point(out.points, row, words->front(), timed.us, 1);
    check_bandwidth(out, row, timed.bus_bandwidth, out.points.back());
    read_in_place(out, row, columns, *words);
  }
  if (out.points.empty()) header.expected_but(fmt::format("{} under the header", kRowsWanted), "none");
}

std::vector<Series> read_text(const LogFile& log, const ImportOptions& options) {
  const TextLog text = text_log(log);
  const std::vector<Line>& lines = text.lines;
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
    const std::vector<Line> below = without_others({header + 1, next}, text);
    const std::vector<Line> rows = rows_of(log, below, "nccl-tests");
    const std::vector<Line> before = is_only ? lines : std::vector<Line>(above, header);
    const StatedCollective told = is_only ? collective_in_text(lines, rows) : collective_above(before);
    const std::optional<core::CollectiveKind> given = given_collective(options);
    const bool is_other =
        !is_only && !told.where.empty() && (!told.value || (given && *given != *told.value));
    if (is_other) {
      ++left_out;
    } else {
      out.push_back({.path = log.path,
                     .collective = collective_of(log, told, options),
                     .workers = workers_of(log, ranks_listed(before), options)});
      read_rows(out.back(), *header, rows, text.prefix, is_finished({header + 1, next}));
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

bool is_wrong(const core::Field& timed) {
  const auto wrong = timed.find("nwrong");
  return wrong && wrong->is_number() && wrong->number(0, 1e18) != 0;
}

std::string_view time_key(const core::Field& timed) { return timed.has("cpu_time") ? "cpu_time" : "time"; }

/// The time of one result, out of place or in place, with its bandwidth checked.
double time_in(const core::Field& timed, const Series& series, double bytes) {
  constexpr double kMinUs = 1e-6;
  const double us = timed.at(time_key(timed)).number(kMinUs, core::kMaxTimeUs);
  const double expected = bus_bandwidth(series.collective, series.workers, {bytes, us});
  const core::Field bandwidth = timed.at("bus_bw");
  if (!agrees(bandwidth.number(0, core::kMaxTimeUs), expected))
    bandwidth.expected(fmt::format("a bus bandwidth of {:.2f} GB/s of {} on {} workers", expected,
                                   name(series.collective), series.workers));
  return us;
}

void add_result(Series& out, const core::Field& result) {
  const core::Field size = result.at("size");
  const auto bytes = static_cast<double>(size.integer(0, core::kMaxBytes));
  if (bytes == 0) return;  // less than an element for each worker: nothing was sent
  if (!out.points.empty() && bytes <= out.points.back().first)
    size.expected(fmt::format("more bytes than in the result before, {}", out.points.back().first));
  const core::Field timed = result.at("out_of_place");
  if (is_wrong(timed))
    return out.warnings.push_back(
        wrong_row(place_of(timed), fmt::to_string(timed.at("nwrong").number(0, 1e18))));
  out.points.emplace_back(bytes, time_in(timed, out, bytes));
  const auto in_place = result.find("in_place");
  if (!in_place || !in_place->is_object() || !in_place->has("bus_bw")) return;
  const auto us = in_place->find(time_key(*in_place));
  if (us && us->is_number() && is_cold(out, us->number(0, core::kMaxTimeUs)) && !is_wrong(*in_place))
    take_in_place(out, time_in(*in_place, out, bytes));
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
  if (out.points.empty()) file.at("results").expected(kRowsWanted, "none");
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
    if (!kind || (given && *given != *kind) || row.fields[3] == "0") continue;
    const std::int64_t workers = integer(row.line, row.fields[2], "a number of GPUs", 1, core::kMaxWorkers);
    if (options.workers != 0 && options.workers != workers)
      row.line.expected(fmt::format("{} GPUs, as --workers says", options.workers), row.fields[2]);
    const bool is_wrong = row.fields[10] != "N/A" &&
                          number(row.line, row.fields[10], "a number of wrong elements", 0, 1e18) > 0;
    if (row.fields[6] != "0") {
      const bool is_of_last = !out.empty() && !out.back().points.empty() && out.back().collective == *kind &&
                              out.back().workers == workers &&
                              row.fields[3] == fmt::format("{:.0f}", out.back().points.back().first);
      if (!is_of_last || is_wrong) continue;
      const double us = number(row.line, row.fields[7], "a time", 0, core::kMaxTimeUs);
      if (!is_cold(out.back(), us)) continue;
      check_bandwidth(out.back(), row.line, row.fields[9], {out.back().points.back().first, us});
      take_in_place(out.back(), us);
      continue;
    }
    if (out.empty() || out.back().collective != *kind || out.back().workers != workers)
      out.push_back({.path = log.path, .collective = *kind, .workers = workers});
    if (is_wrong) {
      out.back().warnings.push_back(wrong_row(place_of(row.line), row.fields[10]));
      continue;
    }
    add_point(out.back().points, row.line, row.fields[3], row.fields[7], 1);
    check_bandwidth(out.back(), row.line, row.fields[9], out.back().points.back());
  }
  std::erase_if(out, [](const Series& series) { return series.points.empty(); });
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
