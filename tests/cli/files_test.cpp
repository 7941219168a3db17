// What commands do with the files that a user names: none is lost, none is waited for, none fills the memory.

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

namespace fs = std::filesystem;

using support::contents;
using support::Outcome;
using support::run_program;

using Words = std::vector<std::string>;

/// Small inputs of all commands. @ stands for the folder in command lines.
class Folder {
 public:
  Folder() {
    for (const char* name : {"profile.json", "network.json", "model.json", "plan.json", "setup.json",
                             "paper.json", "scenario-graph.json", "compressors.json", "scenario-steps.json"})
      copy("tests/data/schemas/" + std::string(name), name);
    copy("tests/data/schemas/collectives.csv", "log.csv");
    copy("tests/fuzz/seeds/kineto.json", "trace.json");
    put("scenario.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "profile.json",
 "network": "network.json", "workers": 4, "schedules": ["wfbp", {"fusion": {"kind": "plan", "file": "plan.json"}}]})");
    put("sweep.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "profile.json",
 "network": "network.json", "workers": 4, "schedules": ["wfbp"], "sweep": {"bandwidth_factor": [1, 2]}})");
    put("runs.csv", "model,network,schedule,workers,samples_per_s\nm,n,wfbp,4,100\nm,n,s,4,90\n");
    put("suite.json",
        R"({"format": "fusewise.suite", "version": 1, "name": "s", "groups": [{"name": "g", "workers": 2,
 "line_rate_gbps": 1, "profile": "profile.json", "schedules": ["wfbp"]}]})");
    fs::create_symlink("scenario.json", folder_ / "link");
    fs::create_hard_link(folder_ / "scenario.json", folder_ / "hard");
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& text) const { (void)folder_.put(name, text); }
  fs::path operator/(const std::string& name) const { return folder_ / name; }

  Outcome run(Words words, void (*before)() = nullptr) const {
    for (std::string& word : words)
      if (const std::size_t place = word.find('@'); place != std::string::npos)
        word.replace(place, 1, folder_.path().string());
    return run_program(words, before);
  }

  /// Without the name of the folder.
  std::string shown(std::string text) const {
    const std::string prefix = folder_.path().string() + '/';
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }

  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.is_regular_file()) out[entry.path().filename()] = contents(entry.path());
    return out;
  }

 private:
  void copy(const std::string& from, const std::string& to) const {
    put(to, core::read_file(support::source_dir() / from));
  }

  support::TemporaryFolder folder_;
};

const std::vector<Words>& overwriting() {
  static const std::vector<Words> all = {
      {"plan", "@/scenario.json", "-o", "@/scenario.json"},
      {"plan", "@/scenario.json", "-o", "@/profile.json"},
      {"plan", "@/scenario.json", "-o", "@/plan.json"},
      {"plan", "@/scenario.json", "-o", "@/hard"},
      {"plan", "@/scenario.json", "--consider-compression", "-o", "@/network.json"},
      {"report", "@/scenario.json", "-o", "@/profile.json"},
      {"report", "@/scenario.json", "-o", "@/hard"},
      {"report", "@/trace.json", "-o", "@/trace.json"},
      {"report", "@/trace.json", "--plan", "@/scenario.json", "-o", "@/plan.json"},
      {"init", "--model", "@/profile.json", "--network", "@/network.json", "--workers", "4", "-o",
       "@/network.json"},
      {"simulate", "@/scenario.json", "-o", "@/./scenario.json"},
      {"simulate", "@/scenario.json", "-o", "@/link"},
      {"simulate", "@/link", "-o", "@/scenario.json"},
      {"simulate", "@/scenario.json", "--timeline", "@/plan.json"},
      {"simulate", "@/scenario.json", "-o", "@/out", "--timeline", "@/network.json"},
      {"sweep", "@/sweep.json", "-o", "@/sweep.json"},
      {"sweep", "@/sweep.json", "-o", "@/profile.json"},
      {"estimate", "@/model.json", "--device", "v100", "-o", "@/model.json"},
      {"import", "@/trace.json", "--batch", "1", "-o", "@/trace.json"},
      {"import", "@/trace.json", "--format", "kineto", "--batch", "1", "--network", "@/trace.json"},
      {"import", "@/trace.json", "--batch", "1", "-o", "@/x", "--plan", "@/trace.json"},
      {"import", "@/log.csv", "-o", "@/log.csv"},
      {"fit", "@/log.csv", "-o", "@/log.csv"},
      {"fit", "@/network.json", "-o", "@/network.json"},
      {"validate", "@/paper.json", "-o", "@/paper.json"},
      {"validate", "@/paper.json", "-o", "@/scenario-graph.json"},
      {"validate", "@", "-o", "@/a.paper.json"},
      {"calibrate", "@/runs.csv", "--setup", "@/setup.json", "--calibrate-on", "schedule=s", "-o",
       "@/runs.csv"},
      {"calibrate", "@/runs.csv", "--setup", "@/setup.json", "--calibrate-on", "schedule=s", "-o",
       "@/profile.json"},
      {"validate", "@/scenario.json", "-o", "@/network.json"},
      {"validate", "@/plan.json", "--profile", "@/profile.json", "--timeline", "@/profile.json"},
      {"validate", "@/plan.json", "--profile", "@/profile.json", "--prediction", "@/plan.json"},
      {"validate", "@/plan.json", "--layers", "@/model.json", "-o", "@/model.json"},
      {"validate", "@/suite.json", "-o", "@/profile.json"},
      {"profile", "@/model.json", "--backend", "cpu", "-o", "@/model.json"},
      {"measure", "--workers", "2", "--overlap", "@/model.json", "-o", "@/model.json"},
      {"measure", "--workers", "2", "--overlap", "@/model.json", "--into", "@/profile.json", "-o",
       "@/profile.json"},
  };
  return all;
}

TEST_CASE("files: no command writes over what it reads, or what a file that it reads names") {
  const Folder folder;
  (void)folder.put("a.paper.json", contents(folder / "paper.json"));
  const auto before = folder.all();
  for (const Words& words : overwriting()) {
    CAPTURE(words);
    const Outcome outcome = folder.run(words);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find(": expected a file of its own, got the input ") != std::string::npos);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
    CHECK(folder.all() == before);
  }
}

TEST_CASE("files: no command writes two outputs to one file, and none is written") {
  const Folder folder;
  fs::create_symlink("x", folder / "to-x");
  const auto before = folder.all();
  const std::vector<Words> all = {
      {"import", "@/trace.json", "--batch", "1", "-o", "@/x", "--network", "@/./x"},
      {"simulate", "@/scenario.json", "-o", "@/x", "--timeline", "@/x"},
      {"simulate", "@/scenario.json", "-o", "@/x", "--timeline", "@/to-x"},
      {"validate", "@/plan.json", "--profile", "@/profile.json", "-o", "@/x", "--prediction", "@/x"},
      {"validate", "@/plan.json", "--profile", "@/profile.json", "-o", "@/x", "--timeline", "@/x.prediction"},
      {"measure", "--workers", "2", "-o", "@/x", "--samples", "@/x"},
  };
  for (const Words& words : all) {
    CAPTURE(words);
    const Outcome outcome = folder.run(words);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(": expected a file of its own, got the one of --") != std::string::npos);
    CHECK(folder.all() == before);
  }
}

TEST_CASE("files: what calibrate writes to a folder has names of its own, beside --output as well") {
  const Folder folder;
  fs::create_directory(folder / "d");
  folder.put("fitted.csv",
             "model,network,schedule,workers,samples_per_s\nm,n,s,1,100\nm,n,s,4,90\nm,n,s,8,150\n");
  const Words words = {"calibrate", "@/fitted.csv", "--setup", "@/setup.json", "--output-folder", "@/d"};
  REQUIRE(folder.run(words).exit_code == 0);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "d")) names.push_back(entry.path().filename());
  REQUIRE(names.size() >= 2);
  for (const std::string& name : names) {
    CAPTURE(name);
    fs::remove_all(folder / "d");
    fs::create_directory(folder / "d");
    Words both = words;
    both.insert(both.end(), {"-o", "@/d/" + name});
    const Outcome outcome = folder.run(both);
    CHECK(outcome.exit_code == 2);
    CHECK(folder.shown(outcome.err) ==
          fmt::format("d/{}: expected a file of its own, got another output's\n", name));
    CHECK(fs::is_empty(folder / "d"));
  }
}

TEST_CASE("files: the file of the job's secret is an input") {
  const Folder folder;
  const std::string secret(32, 's');
  folder.put("secret", secret);
  REQUIRE(::setenv("FUSEWISE_SECRET_FILE", folder.at("secret").c_str(), 1) == 0);
  const Outcome outcome = folder.run({"plan", "@/scenario.json", "-o", "@/secret"});
  ::unsetenv("FUSEWISE_SECRET_FILE");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("expected a file of its own, got the input ") != std::string::npos);
  CHECK(contents(folder / "secret") == secret);
}

TEST_CASE("files: the journal of a sweep is no other file") {
  const Folder folder;
  folder.put("s.partial", contents(folder / "sweep.json"));
  CHECK(folder.shown(folder.run({"sweep", "@/s.partial", "-o", "@/s"}).err) ==
        "the journal of --output: expected a file of its own, got the input s.partial\n");
}

TEST_CASE("files: no command writes over what it reads through the descriptor of an open file") {
  const Folder folder;
  const core::Descriptor open(::open(folder.at("profile.json").c_str(), O_RDWR | O_CLOEXEC));
  const std::string name = fmt::format("/proc/{}/fd/{}", ::getpid(), open.get());
  const auto before = folder.all();
  for (const Words& words : {Words{"simulate", "@/scenario.json", "-o", name},
                             Words{"simulate", "@/scenario.json", "--timeline", name},
                             Words{"report", "@/scenario.json", "-o", name}}) {
    CAPTURE(words);
    const Outcome outcome = folder.run(words);
    CHECK(outcome.exit_code == 2);
    CHECK(folder.shown(outcome.err).find("expected a file of its own, got the input profile.json\n") !=
          std::string::npos);
    CHECK(folder.all() == before);
  }
}

TEST_CASE("files: devices and open files are written as often as they are named") {
  const Folder folder;
  const Outcome twice =
      folder.run({"simulate", "@/scenario.json", "--csv", "-o", "/dev/stdout", "--timeline", "/dev/stdout"});
  CHECK(twice.exit_code == 0);
  CHECK(twice.out.find("workers,schedule") != std::string::npos);
  CHECK(twice.out.find("traceEvents") != std::string::npos);
  CHECK(folder.run({"simulate", "@/scenario.json", "-o", "/dev/null", "--timeline", "/dev/null"}).exit_code ==
        0);
  CHECK(folder.run({"simulate", "@/scenario.json", "-o", "@/-"}).exit_code == 0);
  CHECK(contents(folder / "-").rfind("{", 0) == 0);
}

TEST_CASE(
    "files: what a trace calls its device reaches the terminal as one line without control characters") {
  const Folder folder;
  folder.put("esc.json",
             R"({"deviceProperties": [{"name": "GPU\u001b[31mRED\u009b2J\nnext"}], "traceEvents": )" +
                 contents(folder / "trace.json") + "}");
  const Outcome outcome = folder.run({"import", "@/esc.json", "--batch", "1", "-o", "@/esc.profile.json"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find(R"( on GPU\u001b[31mRED\u009b2J\u000anext, batch 1)") != std::string::npos);
  CHECK(outcome.out.find('\x1b') == std::string::npos);
}

TEST_CASE("files: pipes and devices are refused at once, wherever a file is named") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  folder.put("names-pipe.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "pipe",
 "network": "network.json", "workers": 4})");
  const std::vector<Words> all = {
      {"simulate", "@/pipe"},
      {"plan", "@/pipe"},
      {"sweep", "@/pipe"},
      {"show", "@/pipe"},
      {"estimate", "@/pipe", "--device", "v100"},
      {"import", "@/pipe"},
      {"import", "@/pipe", "--format", "kineto"},
      {"import", "@/log.csv", "@/pipe"},
      {"compare", "@/pipe"},
      {"fit", "@/pipe"},
      {"validate", "@/pipe"},
      {"calibrate", "@/pipe", "--setup", "@/setup.json", "--calibrate-on", "schedule=s"},
      {"profile", "@/pipe", "--backend", "cpu"},
  };
  for (const Words& words : all) {
    CAPTURE(words);
    const Outcome outcome = folder.run(words);
    CHECK(outcome.exit_code == 2);
    CHECK(folder.shown(outcome.err) ==
          "pipe: /: expected a file that can be read, got: a named pipe, not a regular file\n");
  }
  CHECK(folder.shown(folder.run({"simulate", "@/names-pipe.json"}).err) ==
        "names-pipe.json: /profile: expected the path of a file that can be read, got \"pipe\": a named "
        "pipe, not a "
        "regular file\n");
}

/// Limits the memory that a run may use, but for a sanitized one, which could not begin.
void limit_memory() {
  if (support::kSanitized) return;
  constexpr rlim_t kBytes = rlim_t{2} << 30U;
  const rlimit limit = {.rlim_cur = kBytes, .rlim_max = kBytes};
  (void)::setrlimit(RLIMIT_AS, &limit);
}

TEST_CASE("files: what is too large is refused within 2 GiB of memory") {
  const Folder folder;
  const auto refused = [&](const std::string& what, const Words& words, const std::string& message) {
    CAPTURE(what);
    const Outcome outcome = folder.run(words, limit_memory);
    CHECK(outcome.exit_code == 2);
    CHECK(folder.shown(outcome.err) == message + '\n');
  };
  folder.put("large", "");
  fs::resize_file(folder / "large", std::uintmax_t{3} << 30U);  // takes no space on the disk
  const std::string json = "large: /: expected a file that can be read, got: a file of more than 64 MiB";
  const std::string log = "large: /: expected a file that can be read, got: a file of more than 16 MiB";
  refused("JSON", {"show", "@/large"}, json);
  refused("a log", {"import", "@/large"}, log);
  refused("a table", {"calibrate", "@/large", "--setup", "@/setup.json", "--calibrate-on", "line=2"}, log);
  folder.put(
      "values.json", "[0" + [] {
        std::string out;
        for (int i = 0; i < 30'000'000; ++i) out += ",0";
        return out;
      }() + "]");
  refused("values", {"show", "@/values.json"},
          "values.json: /: expected at most 4000000 values in the file, got more");
  std::string wfbp = R"("wfbp")";
  std::string one = "1";
  for (int i = 0; i < 10'000; ++i) {
    wfbp += R"(, "wfbp")";
    one += ", 1";
  }
  const std::string head = R"({"format": "fusewise.scenario", "version": 1, "profile": "profile.json",
 "network": "network.json", "workers": )";
  folder.put("schedules.json", head + "4, \"schedules\": [" + wfbp + "]}");
  refused("schedules", {"show", "@/schedules.json"},
          "schedules.json: /schedules: expected at most 10000 schedules, got an array of 10001 items");
  folder.put("workers.json", head + "[" + one + "]}");
  refused("workers", {"show", "@/workers.json"},
          "workers.json: /workers: expected at most 10000 numbers of workers, got an array of 10001 items");
  folder.put("log.txt", std::string(15 << 20, ','));
  refused("several logs", {"import", "@/log.txt", "@/log.txt", "@/log.txt", "@/log.txt", "@/log.txt"},
          "log.txt: /: expected logs of at most 64 MiB in all, got more");
}

TEST_CASE("files: a NUL ends no file and cuts no path") {
  const Folder folder;
  const std::string scenario = contents(folder / "scenario.json");
  folder.put("nul.json", scenario + std::string("\0garbage", 8));
  const std::size_t column = scenario.size() - scenario.rfind('\n');
  CHECK(folder.shown(folder.run({"simulate", "@/nul.json"}).err) ==
        fmt::format("nul.json:2:{}: expected JSON, got a NUL character\n", column));
  folder.put("path.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "profile.json\u0000x",
 "network": "network.json", "workers": 4})");
  CHECK(folder.shown(folder.run({"simulate", "@/path.json"}).err) ==
        "path.json: /profile: expected a path without a NUL character, got \"profile.json\\u0000x\"\n");
}

TEST_CASE("files: bytes that are not UTF-8 are escaped on their way to a terminal") {
  const Folder folder;
  const Outcome none = folder.run({"show", "@/\xff\xfe.json"});
  CHECK(folder.shown(none.err) ==
        "\\xff\\xfe.json: /: expected a file that can be read, got: No such file or directory\n");
  folder.put("\xff.json", "[");
  CHECK(folder.shown(folder.run({"show", "@/\xff.json"}).err) ==
        "\\xff.json:1:2: expected JSON, got the end of the file\n");
  const Outcome imported = folder.run({"import", "@/log.csv", "--name", "n\xff", "-o", "@/out"});
  CHECK(imported.exit_code == 0);
  CHECK(imported.out.find("network n\xef\xbf\xbd") == 0);
}

TEST_CASE("files: a plan beside a schedule of no time says nothing of what it saves") {
  const Folder folder;
  std::string plan = contents(folder / "plan.json");
  const std::string time = R"({"schedule": "wfbp", "iteration_us": 1000})";
  plan.replace(plan.find(time), time.size(),
               R"({"schedule": "wfbp", "iteration_us": 0}, {"schedule": "ddp", "iteration_us": 5e-324})");
  folder.put("plan.json", plan);
  const Outcome shown = folder.run({"show", "@/plan.json"});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("inf") == std::string::npos);
  CHECK(shown.out.find("nan") == std::string::npos);
  CHECK(shown.out.find(" 0.000                -\n") != std::string::npos);
}

TEST_CASE("files: a live run that cannot fit into the memory is refused before it starts") {
  const Folder folder;
  folder.put("profile.json",
             R"({"format": "fusewise.profile", "version": 1, "model": "large", "batch_size": 1,
 "dtype": "float32", "device": "none", "origin": {"kind": "estimated", "source": ""}, "layers": [{"name": "l",
 "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "t", "elements": 1000000000000}]}]})");
  folder.put("scenario.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "profile.json",
 "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": ""},
 "link": {"alpha_us": 1, "beta_us_per_byte": 1e-3}}, "workers": 2, "schedules": ["wfbp"]})");
  const Outcome outcome = folder.run({"validate", "@/scenario.json", "--workers", "2"});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  // Two workers with a gradient and a fusion buffer of 4 TB each.
  CHECK(outcome.err.find(
            "wfbp: a live run of 2 workers on this host needs at least 16000.0 GB of memory, ") == 0);
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

}  // namespace
