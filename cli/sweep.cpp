// fusewise sweep: the product of axes over a scenario, on all cores and, under mpirun, on many machines.

#include "planner/sweep/sweep.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/sweep/journal.hpp"
#include "planner/sweep/ranks.hpp"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string scenario;
  bool csv = false;  ///< as without it
  bool json_lines = false;
  std::string output;
  int jobs = 0;  ///< 0: not said
  bool resume = false;

  sweep::Rows rows() const { return json_lines ? sweep::Rows::json_lines : sweep::Rows::csv; }
};

/// What every process reads for itself.
struct Loaded {
  sweep::Sweep sweep;
  sweep::Identity identity;
};

std::string scenario_text(const std::string& file) {
  try {
    return core::read_file(file);
  } catch (const std::system_error& error) {
    throw core::InputError(fmt::format("{}: /: expected a file that can be read, got: {}",
                                       core::one_line(file), error.code().message()));
  }
}

Loaded load(const Options& options) {
  const std::string text = scenario_text(options.scenario);
  Loaded out = {.sweep = sweep::read_sweep(core::Field::parse(text, options.scenario)), .identity = {}};
  out.identity = {.inputs = inputs(out.sweep, text), .points = out.sweep.points};
  out.identity.inputs.emplace_back("program", FUSEWISE_VERSION);
  out.identity.inputs.emplace_back("format", name(options.rows()));
  return out;
}

/// Nothing is found out after hours that could be seen at once.
void check_output(const Options& options) {
  const std::string& output = options.output;
  if (std::filesystem::path(output).lexically_normal() ==
      std::filesystem::path(options.scenario).lexically_normal())
    throw core::InputError("--output: expected a file of its own, got the one of SCENARIO");
  std::error_code none;
  const auto status = std::filesystem::status(output, none);
  if (!output.empty() && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw core::InputError(
        fmt::format("--output: expected a file, got '{}', which is something else", core::printable(output)));
}

/// Counts up on a terminal, and says at the end how it went.
class Meter {
 public:
  void show(std::size_t done, std::size_t total) {
    constexpr auto kRefresh = std::chrono::milliseconds(300);
    const Clock::time_point now = Clock::now();
    if (!is_terminal_ || now - shown_ < kRefresh) return;
    shown_ = now;
    fmt::print(stderr, "\r{} of {} points, {:.1f} s\033[K", done, total, seconds());
    std::fflush(stderr);
  }

  void end(const sweep::Sweep& sweep, std::size_t earlier, int processes, int threads) const {
    const std::size_t computed = sweep.points - earlier;
    std::string how = earlier > 0 ? fmt::format("{} computed, {} found in the journal", computed, earlier)
                                  : fmt::format("{} computed", computed);
    if (processes > 1) how += fmt::format(", {} processes", processes);
    fmt::print(stderr, "{}{}: {}, {} thread{}, {:.2f} s, {:.0f} points/s\n", is_terminal_ ? "\r\033[K" : "",
               size_text(sweep), how, threads, threads == 1 ? "" : "s", seconds(),
               static_cast<double>(computed) / std::max(seconds(), 1e-9));
  }

 private:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_ = begun_;
};

/// The first process's: rows by point, kept in the journal too where there is a file to write.
class Collection {
 public:
  Collection(const Options& options, const Loaded& loaded) : rows_(loaded.sweep.points) {
    if (!options.output.empty())
      journal_.emplace(options.output + ".partial", loaded.identity, options.resume);
    if (!journal_) return;
    for (const sweep::Finished& finished : journal_->earlier()) keep(finished);
    earlier_ = done_;
  }

  void add(sweep::Finished finished) {
    if (journal_) journal_->add(finished);
    keep(std::move(finished));
    meter_.show(done_, rows_.size());
  }

  /// The points that no earlier run finished.
  std::vector<std::size_t> missing() const {
    std::vector<std::size_t> out;
    for (std::size_t point = 0; point < rows_.size(); ++point)
      if (!rows_[point]) out.push_back(point);
    return out;
  }

  /// The journal goes when the output is there.
  void write(const Options& options, const sweep::Sweep& sweep) {
    std::string text = header(sweep, options.rows());
    for (const std::optional<sweep::Record>& row : rows_) text += row.value().row + '\n';
    if (journal_) {
      core::write_file(options.output, text);
      journal_->remove();
    } else {
      print(text);
    }
  }

  void tell(const sweep::Sweep& sweep, int processes, int threads) const {
    std::vector<std::string> all = sweep.base.warnings;
    std::set<std::string> seen(all.begin(), all.end());
    for (const std::optional<sweep::Record>& row : rows_)
      for (const std::string& warning : row.value().warnings)
        if (seen.insert(warning).second) all.push_back(warning);
    constexpr std::size_t kMaxShown = 20;
    const std::size_t left_out = all.size() - std::min(all.size(), kMaxShown);
    all.resize(all.size() - left_out);
    if (left_out > 0) all.push_back(fmt::format("{} more, which --json-lines tells of each point", left_out));
    warn(all);
    meter_.end(sweep, earlier_, processes, threads);
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
  Meter meter_;
};

/// All cores; of processes that mpirun started, one each, as it starts one for each core.
int threads(const Options& options, int processes) {
  if (options.jobs > 0) return options.jobs;
  return processes > 1 ? 1 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void run_sweep(const Options& options) {
  if (options.resume && options.output.empty())
    throw core::InputError("--resume: expected --output too, beside which the journal is");
  const sweep::Ranks ranks;
  std::optional<Loaded> loaded;
  std::optional<Collection> collection;
  if (!ranks.together([&] {
        check_output(options);
        loaded = load(options);
      }))
    return;
  const std::string wanted = ranks.broadcast(journal_header(loaded->identity));
  if (!ranks.together([&] {
        if (ranks.is_first()) return collection.emplace(options, *loaded), void();
        if (journal_header(loaded->identity) != wanted)
          throw core::InputError("SCENARIO: expected the inputs of the first process, got others");
      }))
    return;
  sweep::WorkQueue work_queue(collection ? collection->missing() : std::vector<std::size_t>(),
                              [&](sweep::Finished finished) { collection->add(std::move(finished)); });
  const int count = threads(options, ranks.count());
  ranks.compute(loaded->sweep, options.rows(), work_queue, count);
  work_queue.rethrow();
  if (!collection) return;
  collection->write(options, loaded->sweep);
  collection->tell(loaded->sweep, ranks.count(), count);
}

}  // namespace

void add_sweep(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("sweep", "Simulate a scenario over the product of the axes in its key sweep");
  command.footer(
      "Killed on the way, it goes on with --resume. On many machines: mpirun -n 64 fusewise sweep ...\n"
      "Example: fusewise sweep scenarios/resnet50-v100-sweep.json -o out/sweep.csv");
  command.add_option("SCENARIO", options->scenario, "a fusewise.scenario file with a key sweep").required();
  const Option lines =
      command.add_flag("--json-lines", options->json_lines, "a JSON object a line instead of CSV");
  command.add_flag("--csv", options->csv, "CSV, as without this").excludes(lines);
  command
      .add_option("-o,--output", options->output,
                  "write to this file, not to standard output; while it runs FILE.partial is its journal")
      .check(file_name());
  command.add_flag("--resume", options->resume, "go on with FILE.partial, if it is there");
  command
      .add_option("--jobs", options->jobs,
                  "threads of each process (default: as many as cores; under mpirun 1)")
      .check(range(1, 1024));
  command.on_run([options] { run_sweep(*options); });
}

}  // namespace cli
