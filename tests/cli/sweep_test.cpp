// Sweeps through the real program: the same bytes whatever the threads and processes, killed and taken up
// again, what a user is told, and the bundled sweep's rows.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;
using Words = std::vector<std::string>;

constexpr const char* kBundled = "scenarios/resnet50-v100-sweep.json";

/// A process of the test's own that it may kill; what it prints goes to files in the folder.
class Process {
 public:
  Process(Words words, const support::TemporaryFolder& folder) : folder_(folder) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) return;
    for (const auto& [stream, name] : {std::pair(STDOUT_FILENO, "out"), std::pair(STDERR_FILENO, "err")}) {
      const int fd = ::open((folder.path() / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      if (fd < 0 || ::dup2(fd, stream) < 0) ::_exit(126);
    }
    if (::chdir(support::source_dir().c_str()) != 0) ::_exit(126);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) (void)killed();
  }

  pid_t pid() const { return pid_; }
  Outcome killed() {
    ::kill(pid_, SIGKILL);
    return ended();
  }
  Outcome ended() {
    int status = 0;
    if (::waitpid(std::exchange(pid_, -1), &status, 0) < 0) throw std::runtime_error("waitpid failed");
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = support::contents(folder_ / "out"),
            .err = support::contents(folder_ / "err")};
  }

 private:
  const support::TemporaryFolder& folder_;
  pid_t pid_ = -1;
};

/// The words that run the sweep in so many processes.
Words mpirun(int processes, Words sweep) {
  // MPI keeps some of its memory to the end, and needs to be told that root and few cores are meant
  Words out = {"env",
               "OMPI_ALLOW_RUN_AS_ROOT=1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
               "ASAN_OPTIONS=detect_leaks=0",
               "mpirun",
               "--oversubscribe",
               "-n",
               std::to_string(processes),
               support::program()};
  out.insert(out.end(), sweep.begin(), sweep.end());
  return out;
}

std::string no_mpirun() {
  return std::system("command -v mpirun >/dev/null 2>&1") == 0 ? ""
                                                               : "no command 'mpirun' (package openmpi-bin)";
}

std::string no_mpi() { return FUSEWISE_HAS_MPI == 0 ? "built without MPI" : no_mpirun(); }

Outcome run_words(const Words& words) {
  const support::TemporaryFolder folder;
  return Process(words, folder).ended();
}

/// 200 points of some milliseconds each, jitter being drawn for every task.
std::string slow_scenario(const support::TemporaryFolder& folder, int seeds = 50) {
  nlohmann::json scenario = nlohmann::json::parse(R"({
    "format": "fusewise.scenario", "version": 1, "workers": 8, "iterations": 1000, "jitter": {"sigma": 0.1},
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
                "device": "none", "origin": {"kind": "estimated", "source": "by hand"},
                "layers": [{"name": "near", "kind": "k", "forward_us": 3, "backward_us": 4,
                            "tensors": [{"name": "near.weight", "elements": 4}]},
                           {"name": "far", "kind": "k", "forward_us": 1, "backward_us": 2,
                            "tensors": [{"name": "far.weight", "elements": 2}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": ""},
                "link": {"alpha_us": 1, "beta_us_per_byte": 0.5}},
    "schedules": ["wfbp", "ddp"], "sweep": {"workers": [8, 16], "seed": []}})");
  for (int seed = 0; seed < seeds; ++seed) scenario["sweep"]["seed"].push_back(seed);
  return folder.put("s.json", scenario.dump());
}

/// The points of a journal's whole lines; fails where a line is not the next or a point is there twice.
std::set<int> finished_points(const std::filesystem::path& journal) {
  std::istringstream text(support::contents(journal));
  std::string line;
  std::getline(text, line);
  std::set<int> out;
  while (std::getline(text, line) && !text.eof()) {
    std::istringstream words(line);
    std::size_t nth = 0;
    int point = -1;
    words >> nth >> point;
    CHECK(nth == out.size() + 1);
    CHECK(out.insert(point).second);
  }
  return out;
}

/// Waits for a journal to have more than so many lines, header included.
void wait_for_lines(const std::filesystem::path& journal, std::ptrdiff_t count) {
  constexpr int kPatience = 20'000;
  for (int i = 0; i < kPatience; ++i) {
    const std::string text = support::contents(journal);
    if (std::count(text.begin(), text.end(), '\n') > count) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  FAIL("the sweep does not get on");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("sweep: 1, 2 and 4 threads give the same bytes") {
  for (const std::string format : {"--csv", "--json-lines"}) {
    CAPTURE(format);
    const Outcome alone = run_program({"sweep", kBundled, format, "--jobs", "1"});
    REQUIRE(alone.exit_code == 0);
    CHECK(std::count(alone.out.begin(), alone.out.end(), '\n') == (format == "--csv" ? 145 : 144));
    for (const std::string jobs : {"2", "4"})
      CHECK(run_program({"sweep", kBundled, format, "--jobs", jobs}).out == alone.out);
    const support::TemporaryFolder folder;
    const std::string file = folder / "rows";
    const Outcome written = run_program({"sweep", kBundled, format, "--output", file});
    CHECK(written.exit_code == 0);
    CHECK(written.out.empty());
    CHECK(support::contents(file) == alone.out);
    CHECK(folder.count() == 1);  // no journal is left
  }
}

TEST_CASE("sweep: 1, 2 and 4 processes give the same bytes" * support::needs(no_mpi)) {
  for (const std::string format : {"--csv", "--json-lines"}) {
    CAPTURE(format);
    const Outcome alone = run_program({"sweep", kBundled, format, "--jobs", "1"});
    REQUIRE(alone.exit_code == 0);
    for (const int processes : {1, 2, 4}) {
      CAPTURE(processes);
      const Outcome many = run_words(mpirun(processes, {"sweep", kBundled, format, "--jobs", "2"}));
      CAPTURE(many.err);
      CHECK(many.exit_code == 0);
      CHECK(many.out == alone.out);
    }
  }
}

TEST_CASE("sweep: a row with a line break in a name comes whole from another process" *
          support::needs(no_mpi)) {
  const support::TemporaryFolder folder;
  const std::string scenario = folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1,
 "profile": "resnet50-v100", "network": "v100-10gbe", "workers": [4, 8], "sweep": {"bandwidth_factor": [1, 2, 3]},
 "schedules": [{"name": "grace", "compression": {"name": "a\nb", "ratio": 0.5}}, "ddp"]})");
  const Outcome alone = run_program({"sweep", scenario, "--jobs", "1"});
  REQUIRE(alone.exit_code == 0);
  CHECK(run_words(mpirun(3, {"sweep", scenario})).out == alone.out);
}

TEST_CASE("sweep: one line on stderr says what was computed") {
  const std::string err = run_program({"sweep", kBundled, "--jobs", "2"}).err;
  CHECK(
      err.find(
          "144 points (3 line_rate_gbps x 2 batch_size x 2 density x 3 workers x 4 schedules): 144 computed, "
          "2 threads, ") == 0);
  CHECK(std::count(err.begin(), err.end(), '\n') == 1);
}

TEST_CASE("sweep: killed again and again and taken up again, no point is lost or computed twice") {
  const support::TemporaryFolder folder;
  const support::TemporaryFolder prints;
  const std::string scenario = slow_scenario(folder);
  const Outcome whole = run_program({"sweep", scenario});
  REQUIRE(whole.exit_code == 0);
  const std::filesystem::path file = folder / "rows.csv";
  const std::filesystem::path journal = folder / "rows.csv.partial";
  std::set<int> before;
  for (const std::string jobs : {"1", "2", "4"}) {
    CAPTURE(jobs);
    Process process({support::program(), "sweep", scenario, "-o", file, "--resume", "--jobs", jobs}, prints);
    wait_for_lines(journal, static_cast<std::ptrdiff_t>(before.size()) + 20);
    CHECK(process.killed().exit_code == -1);
    CHECK_FALSE(std::filesystem::exists(file));
    const std::set<int> now = finished_points(journal);
    CHECK(std::includes(now.begin(), now.end(), before.begin(), before.end()));
    CHECK(now.size() > before.size());
    before = now;
    std::ofstream(journal, std::ios::app) << before.size() + 1 << " 7 0123456789ab";  // torn
  }
  REQUIRE(before.size() < 200);
  const Outcome rest = run_program({"sweep", scenario, "-o", file, "--resume"});
  CHECK(rest.exit_code == 0);
  CHECK(contains(rest.err, std::to_string(200 - before.size()) + " computed, " +
                               std::to_string(before.size()) + " found in the journal"));
  CHECK(support::contents(file) == whole.out);
  CHECK_FALSE(std::filesystem::exists(journal));
}

/// Children of a process that run fusewise.
std::vector<pid_t> children(pid_t parent) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())) == 0) continue;
    std::istringstream stat(support::contents(entry.path() / "stat"));
    pid_t pid = 0;
    pid_t its_parent = 0;
    std::string name;
    std::string state;
    if (stat >> pid >> name >> state >> its_parent && name == "(fusewise)" && its_parent == parent)
      out.push_back(pid);
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST_CASE("sweep: a process that dies takes the others with it, and the sweep goes on with others" *
          support::needs(no_mpi)) {
  const support::TemporaryFolder folder;
  const support::TemporaryFolder prints;
  const std::string scenario = slow_scenario(folder);
  const std::filesystem::path file = folder / "rows.csv";
  for (const bool first : {true, false}) {
    CAPTURE(first);
    Process process(mpirun(3, {"sweep", scenario, "-o", file, "--resume"}), prints);
    wait_for_lines(folder / "rows.csv.partial", first ? 20 : 60);
    const std::vector<pid_t> ranks = children(process.pid());
    REQUIRE(ranks.size() == 3);
    ::kill(first ? ranks.front() : ranks.back(), SIGKILL);
    CHECK(process.ended().exit_code != 0);
    CHECK_FALSE(std::filesystem::exists(file));
  }
  const std::set<int> before = finished_points(folder / "rows.csv.partial");
  const Outcome rest = run_words(mpirun(2, {"sweep", scenario, "-o", file, "--resume"}));
  CHECK(rest.exit_code == 0);
  CHECK(contains(rest.err, std::to_string(before.size()) + " found in the journal, 2 processes"));
  CHECK(support::contents(file) == run_program({"sweep", scenario}).out);
}

TEST_CASE("sweep: processes that do not see the same inputs, or are none of MPI's, do nothing" *
          support::needs(no_mpirun)) {
  const support::TemporaryFolder folder;
  (void)slow_scenario(folder, 2);
  std::filesystem::create_directory(folder / "0");
  std::filesystem::create_directory(folder / "1");
  std::string text = support::contents(folder / "s.json");
  (void)folder.put("0/s.json", text);
  (void)folder.put("1/s.json", text + "\n");
  const std::string there = folder.path().string() + "/$OMPI_COMM_WORLD_RANK/s.json";
  Words words = mpirun(2, {"sweep", there});
  words.pop_back();
  words.pop_back();
  words.pop_back();
  words.insert(words.end(), {"sh", "-c", "exec " + support::program() + " sweep " + there});
  const Outcome outcome = run_words(words);
  CHECK(outcome.out.empty());
  if (FUSEWISE_HAS_MPI == 0) {
    CHECK(outcome.exit_code == 1);
    CHECK(contains(outcome.err, "started as one of 2 processes, but built without MPI"));
  } else {
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err,
                   "SCENARIO: expected the same inputs in all processes, got others than the first process "
                   "(process 1)\n"));
  }
}

TEST_CASE("sweep: what is wrong is said once, whatever the processes, with the exit code it has alone" *
          support::needs(no_mpi)) {
  const support::TemporaryFolder folder;
  const std::string wrong = folder.put("wrong.json", R"({"format": "fusewise.scenari"})");
  const std::string message =
      wrong +
      ": /format: expected one of fusewise.scenario, got \"fusewise.scenari\", did you mean "
      "'fusewise.scenario'?\n";
  const Outcome alone = run_program({"sweep", wrong});
  CHECK(alone.exit_code == 2);
  CHECK(alone.err == message);
  const Outcome many = run_words(mpirun(3, {"sweep", wrong}));
  CHECK(many.exit_code == 2);
  const std::size_t at = many.err.find(message);
  CHECK(at != std::string::npos);
  CHECK(many.err.find(message, at + 1) == std::string::npos);
}

/// A sweep of many points whose third fails; the check of how it ends.
void check_failing_sweep(
    const std::function<Outcome(const std::string& file, const std::string& rows)>& run) {
  const support::TemporaryFolder folder;
  nlohmann::json scenario = nlohmann::json::parse(support::contents(slow_scenario(folder)));
  scenario["schedules"].push_back(nlohmann::json::parse(
      R"({"fusion": {"kind": "threshold", "cap_bytes": 1000000, "cycle_us": 1000000000000}})"));
  scenario["iterations"] = 200;
  const std::string file = folder.put("s.json", scenario.dump());
  const std::string rows = folder / "rows.csv";
  const Outcome outcome = run(file, rows);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "expected times that add up to at most"));
  CHECK(contains(outcome.err, "(point 2 of the sweep)"));
  CHECK_FALSE(std::filesystem::exists(rows));
  CHECK_FALSE(std::filesystem::exists(rows + ".partial"));
}

TEST_CASE("sweep: a failure on the way ends every thread, leaves no output, and is the first point's") {
  check_failing_sweep([](const std::string& file, const std::string& rows) {
    return run_program({"sweep", file, "-o", rows, "--jobs", "4", "--resume"});
  });
}

TEST_CASE("sweep: a failure on the way ends every process, leaves no output, and is the first point's" *
          support::needs(no_mpi)) {
  check_failing_sweep([](const std::string& file, const std::string& rows) {
    return run_words(mpirun(3, {"sweep", file, "-o", rows, "--resume"}));
  });
}

TEST_CASE("sweep: what a user is told of files") {
  const support::TemporaryFolder folder;
  const std::string scenario = slow_scenario(folder, 2);
  const std::string rows = folder / "rows.csv";
  const auto refused = [&](const Words& words, int code) {
    const Outcome outcome = run_program(words);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(refused({"sweep", scenario, "--resume"}, 2) ==
        "--resume: expected --output with it, as the journal is beside that file, got none\n");
  CHECK(refused({"sweep", scenario, "-o", scenario}, 2) ==
        "--output: expected a file of its own, got the input " + scenario + "\n");
  CHECK(
      refused({"sweep", scenario, "-o", folder.path()}, 2).find("--output: expected a regular file, got '") ==
      0);
  CHECK(refused({"sweep", folder / "none.json"}, 2) ==
        (folder / "none.json").string() +
            ": /: expected a file that can be read, got: No such file or directory\n");
  CHECK(refused({"sweep", scenario, "-o", folder / "none/rows.csv"}, 1) ==
        (folder / "none/rows.csv").string() + ".partial: cannot write: No such file or directory\n");
  CHECK(refused({"sweep", scenario, "--csv", "--json-lines"}, 2) ==
        "--json-lines excludes --csv (try --help)\n");

  std::filesystem::create_symlink("nowhere", rows + ".partial");
  CHECK(refused({"sweep", scenario, "-o", rows}, 1) ==
        rows + ".partial: cannot write: Too many levels of symbolic links\n");
  CHECK_FALSE(std::filesystem::exists(folder / "nowhere"));
  std::filesystem::remove(rows + ".partial");

  const std::string journal = folder.put(
      "rows.csv.partial",
      R"({"format":"fusewise.sweep_journal","version":1,"points":8,"inputs":{"scenario":"0","profile":"1"}})"
      "\n");
  const std::string begins = journal +
                             ": /: expected the journal of this sweep (or delete it to begin again), got one "
                             "made with another scenario, profile, network, program, format\n";
  CHECK(refused({"sweep", scenario, "-o", rows, "--resume"}, 2) == begins);
  CHECK(refused({"sweep", scenario, "-o", rows}, 2) == begins);
  CHECK_FALSE(std::filesystem::exists(rows));
}

TEST_CASE("sweep: an unfinished sweep is not begun again unasked, nor gone on with when its inputs changed") {
  const support::TemporaryFolder folder;
  const support::TemporaryFolder prints;
  const std::string scenario = slow_scenario(folder);
  const std::string rows = folder / "rows.csv";
  {
    Process process({support::program(), "sweep", scenario, "-o", rows, "--jobs", "1"}, prints);
    wait_for_lines(rows + ".partial", 5);
    const Outcome second = run_program({"sweep", scenario, "-o", rows, "--resume"});
    CHECK(second.exit_code == 1);
    CHECK(contains(second.err, ".partial: another process is at this sweep: "));
    CHECK(process.killed().exit_code == -1);
  }
  const std::string journal = support::contents(rows + ".partial");
  const std::size_t done = finished_points(rows + ".partial").size();
  CHECK(run_program({"sweep", scenario, "-o", rows}).err ==
        rows + ".partial: /: expected --resume, or no journal of an unfinished sweep, got one of " +
            std::to_string(done) + " of 200 points\n");
  const std::string start =
      rows +
      ".partial: /: expected the journal of this sweep (or delete it to begin again), got "
      "one made with another ";
  CHECK(run_program({"sweep", scenario, "-o", rows, "--resume", "--json-lines"}).err == start + "format\n");
  std::string text = support::contents(scenario);
  text.replace(text.find("0.5"), 3, "0.6");
  (void)folder.put("s.json", text);
  const Outcome changed = run_program({"sweep", scenario, "-o", rows, "--resume"});
  CHECK(changed.exit_code == 2);
  CHECK(changed.err == start + "scenario, network\n");
  CHECK(support::contents(rows + ".partial") == journal);
}

TEST_CASE("sweep: --json prints a summary, and the output has the rows all the same") {
  const support::TemporaryFolder folder;
  const std::string rows = (folder.path() / "rows.csv").string();
  const Outcome outcome = run_program({"sweep", kBundled, "--jobs", "1", "-o", rows, "--json"});
  CHECK(outcome.err.empty());
  nlohmann::json summary = nlohmann::json::parse(outcome.out);
  CHECK(summary.at("seconds").get<double>() > 0);
  summary.erase("seconds");
  CHECK(summary == nlohmann::json::parse(R"({"format": "fusewise.sweep-summary", "version": 1, "output": ")" +
                                         rows + R"(",
      "axes": [{"name": "line_rate_gbps", "values": 3}, {"name": "batch_size", "values": 2},
               {"name": "density", "values": 2}, {"name": "workers", "values": 3}, {"name": "schedule", "values": 4}],
      "points": 144, "computed": 144, "found_in_journal": 0, "processes": 1, "threads": 1, "warnings": []})"));
  CHECK(support::contents(rows) == run_program({"sweep", kBundled}).out);
}

/// FUSEWISE_UPDATE_GOLDEN accepts what is printed now (cmake --build ... --target update-golden).
void compare(const std::string& name, const std::string& text) {
  CAPTURE(name);
  const std::filesystem::path golden = support::source_dir() / "tests" / "golden" / name;
  if (std::getenv("FUSEWISE_UPDATE_GOLDEN") != nullptr) return core::write_file(golden, text);
  REQUIRE(std::filesystem::exists(golden));
  CHECK(core::read_file(golden) == text);
}

TEST_CASE("golden: the bundled sweep's rows in both formats, and the help") {
  compare("resnet50-v100-sweep.sweep.csv", run_program({"sweep", kBundled}).out);
  compare("resnet50-v100-sweep.sweep.jsonl", run_program({"sweep", kBundled, "--json-lines"}).out);
  compare("help-sweep.txt", run_program({"sweep", "--help"}).out);
}

}  // namespace
