// fusewise sweep: simulates a scenario for the product of its axes, on all cores and, with mpirun, on several
// machines.

#include "planner/sweep/sweep.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/file_guard.hpp"
#include "core/files.hpp"
#include "core/json_text.hpp"
#include "planner/sweep/journal.hpp"
#include "planner/sweep/ranks.hpp"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string scenario;
  bool csv = false;  ///< the default; the flag may be given all the same
  bool json_lines = false;
  bool json = false;
  std::string output;
  int jobs = 0;  ///< 0: the default
  bool resume = false;

  sweep::Rows rows() const { return json_lines ? sweep::Rows::json_lines : sweep::Rows::csv; }
};

/// The inputs, which every process reads by itself.
struct Loaded {
  sweep::Sweep sweep;
  sweep::Identity identity;
};

Loaded load(const Options& options) {
  const std::string file = input_path(Bundled::scenario, options.scenario);
  const std::string text = read_text(file);
  Loaded out = {.sweep = sweep::read_sweep(core::Field::parse(text, file)), .identity = {}};
  out.identity = {.inputs = inputs(out.sweep, text), .points = out.sweep.points};
  out.identity.inputs.emplace_back("program", FUSEWISE_VERSION);
  out.identity.inputs.emplace_back("format", name(options.rows()));
  return out;
}

std::string journal_of(const std::string& output) { return output + ".partial"; }

/// Rejects at once an output that could not be written after hours of work.
void check_output(const Options& options) {
  const std::string& output = options.output;
  if (!output.empty()) core::add_output("the journal of --output", journal_of(output));
  std::error_code none;
  const auto status = std::filesystem::status(output, none);
  if (!output.empty() && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    reject("--output", "a regular file", output);
}

/// Counts finished points on a terminal, and prints the speed at the end.
class PointsLine {
 public:
  void show(std::size_t done, std::size_t earlier, std::size_t total) {
    constexpr auto kRefresh = std::chrono::milliseconds(300);
    const Clock::time_point now = Clock::now();
    const bool is_done = done == total;
    if (!is_terminal_ || (!is_done && now - shown_ < kRefresh)) return;
    shown_ = now;
    show_progress_line(STDERR_FILENO, is_done ? ""
                                              : fmt::format("{} of {} points{}", done, total,
                                                            pace(done - earlier, total - done, seconds())));
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  void end(const sweep::Sweep& sweep, std::size_t earlier, int processes, int threads) const {
    const std::size_t computed = sweep.points - earlier;
    std::string how = earlier > 0 ? fmt::format("{} computed, {} found in the journal", computed, earlier)
                                  : fmt::format("{} computed", computed);
    if (processes > 1) how += fmt::format(", {} processes", processes);
    print_progress(fmt::format("{}: {}, {} thread{}, {:.2f} s, {:.0f} points/s", size_text(sweep), how,
                               threads, threads == 1 ? "" : "s", seconds(),
                               static_cast<double>(computed) / std::max(seconds(), 1e-9)));
  }

 private:
  bool is_terminal_ = shows_progress();
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = begun_;
};

/// Name and number of values of each axis.
nlohmann::ordered_json axes_of(const sweep::Sweep& sweep) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const sweep::Axis& axis : sweep.axes)
    out.push_back({{"name", name(axis.quantity)}, {"values", axis.values.size()}});
  out.push_back({{"name", "schedule"}, {"values", sweep.base.schedules.size()}});
  return out;
}

/// Collects the rows of all points in the first process; with an output file also in its journal.
class ResultCollector {
 public:
  ResultCollector(const Options& options, const Loaded& loaded) : rows_(loaded.sweep.points) {
    if (!options.output.empty())
      journal_.emplace(journal_of(options.output), loaded.identity, options.resume);
    if (!journal_) return;
    for (const sweep::Finished& finished : journal_->earlier()) keep(finished);
    earlier_ = done_;
  }

  void add(std::vector<sweep::Finished> finished) {
    if (journal_) journal_->add(finished);
    for (sweep::Finished& each : finished) keep(std::move(each));
    progress_.show(done_, earlier_, rows_.size());
  }

  /// The points that no earlier run has finished.
  std::vector<std::size_t> missing() const {
    std::vector<std::size_t> out;
    for (std::size_t point = 0; point < rows_.size(); ++point)
      if (!rows_[point]) out.push_back(point);
    return out;
  }

  /// Writes the output, then removes the journal.
  void write(const Options& options, const sweep::Sweep& sweep) {
    std::string text = header(sweep, options.rows());
    std::size_t size = text.size();
    for (const std::optional<sweep::Record>& row : rows_) size += row.value().row.size() + 1;
    text.reserve(size);
    for (const std::optional<sweep::Record>& row : rows_) text += row.value().row + '\n';
    if (journal_) {
      core::write_file(options.output, text);
      journal_->remove();
    } else {
      print(text);
    }
  }

  /// Removes the journal of a run whose input turned out to be wrong at a later point: once the input is
  /// corrected, it is another sweep's. One with points of an earlier run stays.
  void forget() {
    if (!journal_ || earlier_ > 0) return;
    try {
      journal_->remove();
    } catch (const core::EnvironmentError&) {  // the wrong input is what the user has to know
    }
  }

  void print_summary(const Options& options, const sweep::Sweep& sweep, int processes, int threads) const {
    std::vector<std::string> all = sweep.base.warnings;
    std::set<std::string> seen(all.begin(), all.end());
    for (const std::optional<sweep::Record>& row : rows_)
      for (const std::string& warning : row.value().warnings)
        if (seen.insert(warning).second) all.push_back(warning);
    constexpr std::size_t kMaxShown = 20;
    const std::size_t left_out = all.size() - std::min(all.size(), kMaxShown);
    all.resize(all.size() - left_out);
    if (left_out > 0)
      all.push_back(fmt::format("{} more warnings; --json-lines prints those of each point", left_out));
    print_warnings(all);
    if (!options.json) return progress_.end(sweep, earlier_, processes, threads);
    print(core::json_text({{"format", "fusewise.sweep-summary"},
                           {"version", 1},
                           {"output", options.output},
                           {"axes", axes_of(sweep)},
                           {"points", sweep.points},
                           {"computed", sweep.points - earlier_},
                           {"found_in_journal", earlier_},
                           {"processes", processes},
                           {"threads", threads},
                           {"seconds", progress_.seconds()},
                           {"warnings", all}}));
  }

 private:
  void keep(sweep::Finished finished) {
    rows_[finished.point] = std::move(finished.record);
    ++done_;
  }

  std::optional<sweep::Journal> journal_;
  std::vector<std::optional<sweep::Record>> rows_;
  std::size_t earlier_ = 0;
  std::size_t done_ = 0;
  PointsLine progress_;
};

/// One thread per core; one per process with mpirun, which starts a process for each core.
int threads(const Options& options, int processes) {
  if (options.jobs > 0) return options.jobs;
  return processes > 1 ? 1 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void run_sweep(const Options& options) {
  if (options.resume && options.output.empty())
    throw core::InputError(
        "--resume: expected --output with it, as the journal is beside that file, got none");
  if (options.json && options.output.empty())
    throw core::InputError(
        "--json: expected --output with it, for the rows, or --json-lines instead, got neither");
  const sweep::Ranks ranks;
  std::optional<Loaded> loaded;
  std::optional<ResultCollector> results;
  if (!ranks.together([&] {
        check_output(options);
        loaded = load(options);
      }))
    return;
  const std::string first_header = ranks.broadcast(journal_header(loaded->identity));
  if (!ranks.together([&] {
        if (ranks.is_first()) return results.emplace(options, *loaded), void();
        if (journal_header(loaded->identity) != first_header)
          throw core::InputError(
              "SCENARIO: expected the same inputs in all processes, got others than the first process");
      }))
    return;
  sweep::WorkQueue work_queue(
      results ? results->missing() : std::vector<std::size_t>(),
      [&](std::vector<sweep::Finished> finished) { results->add(std::move(finished)); });
  const int count = threads(options, ranks.count());
  ranks.compute(loaded->sweep, options.rows(), work_queue, count);
  try {
    work_queue.rethrow();
  } catch (const core::InputError&) {
    if (results) results->forget();
    throw;
  }
  if (!results) return;
  results->write(options, loaded->sweep);
  results->print_summary(options, loaded->sweep, ranks.count(), count);
}

}  // namespace

void add_sweep(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("sweep", "Simulate a scenario for the product of the axes in its key sweep");
  command.footer(
      "A run that was killed continues with --resume. On several machines: mpirun -n 64 fusewise sweep ...\n"
      "Example: fusewise sweep resnet50-v100-sweep -o out/sweep.csv");
  command
      .add_option("SCENARIO", options->scenario,
                  "a fusewise.scenario file with the key sweep, or the name of a bundled one")
      .required();
  const Option lines =
      command.add_flag("--json-lines", options->json_lines, "print one JSON object per line instead of CSV");
  command.add_flag("--json", options->json,
                   "print a summary as JSON; --output takes the rows, as CSV or with --json-lines");
  command.add_flag("--csv", options->csv, "print CSV (default)").excludes(lines);
  command.add_output("-o,--output", options->output,
                     "write to this file instead of standard output; FILE.partial is the journal of the run");
  command.add_flag("--resume", options->resume, "continue from FILE.partial if it exists");
  command
      .add_option("--jobs", options->jobs, "threads of each process (default: one per core; with mpirun 1)")
      .check(range(1, 1024));
  command.has_no("--threads", "--jobs is the number of threads");
  command.on_run([options] { run_sweep(*options); });
}

}  // namespace cli
