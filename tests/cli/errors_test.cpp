// What a user is told when something is wrong: one line on stderr, nothing on stdout, the right exit code,
// and no file half written.

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/files.hpp"
#include "planner/schedule/schedule.hpp"
#include "tests/support/listed.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

constexpr const char* kProfile =
    R"({"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1,
 "dtype": "float32", "device": "none", "origin": {"kind": "estimated", "source": ""},
 "layers": [{"name": "l", "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "t", "elements": 5}]}]})";
constexpr const char* kNetwork = R"({"format": "fusewise.network", "version": 1, "name": "n",
 "origin": {"kind": "estimated", "source": ""}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.5}})";

/// A folder with a profile, a network and a scenario whose last part is given.
class Files {
 public:
  explicit Files(const std::string& rest) {
    (void)folder_.put("p.json", kProfile);
    (void)folder_.put("n.json", kNetwork);
    scenario_ = folder_.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json", )"
                                      R"("network": "n.json", )" +
                                          rest);
  }

  const std::string& scenario() const { return scenario_; }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string file(const std::string& name, const std::string& text) const { return folder_.put(name, text); }

  /// stderr with this folder taken out, so that messages can be compared.
  std::string shown(const Outcome& outcome) const {
    std::string out = outcome.err;
    const std::string prefix = folder_.path().string() + '/';
    for (std::size_t at = out.find(prefix); at != std::string::npos; at = out.find(prefix))
      out.erase(at, prefix.size());
    return out;
  }

 private:
  support::TemporaryFolder folder_;
  std::string scenario_;
};

void check_refused(const Files& files, const Outcome& outcome, const std::string& message) {
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(files.shown(outcome) == message + '\n');
}

TEST_CASE("errors: a scenario that is wrong ends with 2 and one line") {
  struct Example {
    std::string rest;
    std::string message;
  };
  std::string many;
  for (int i = 1; i <= 1000; ++i) many += fmt::format("{}{}", i == 1 ? "" : ", ", i);
  std::string presets;
  std::string algorithms;
  for (int i = 0; i < 501; ++i) {
    presets += fmt::format(R"({}{{"name": "ddp", "fusion": {{"kind": "buckets", "cap_bytes": {}}}}})",
                           i == 0 ? "" : ", ", i + 1);
    algorithms += fmt::format(R"({}"ring")", i == 0 ? "" : ", ");
  }
  const Example examples[] = {
      {"\"workers\": [" + many + "], \"schedules\": [" + presets + "]}",
       "s.json: /workers: expected at most 500000 results, of each schedule on each number of workers, got "
       "501000"},
      {R"("workers": 4, "schedules": [{"fusion": {"kind": "optimal", "choices": {"all_reduce": [)" +
           algorithms + R"(], "compression": ["fp16"]}}}]})",
       "s.json: /schedules/0/fusion/choices: expected at most 1000 choices, each all-reduce or none with "
       "each compressor or none, got 1003"},
      {R"("workers": 0})", "s.json: /workers: expected an integer from 1 to 1000000, got 0"},
      {R"("workers": [4, 0]})", "s.json: /workers/1: expected an integer from 1 to 1000000, got 0"},
      {R"("workers": 4, "device": "a100"})",
       "s.json: /device: expected a key among format, version, name, profile, network, workers, schedules, "
       "collectives, iterations, accumulation_steps, overlap, jitter, stragglers, failures, fidelity, links, "
       "topology, channels, input, update, job, sweep, between, data_types, memory, parallel, recompute, "
       "worker_spread, got "
       R"('device'; use "profile": {"estimate": MODEL, "device": ...} instead)"},
      {R"("workers": 4, "schedules": [{"name": "ddp", "bucket_cap_mb": 50}]})",
       "s.json: /schedules/0/bucket_cap_mb: expected a key among name, label, pipeline, fusion, compression, "
       R"(collectives, selective, got 'bucket_cap_mb'; use "fusion": )"
       R"({"kind": "buckets", "cap_bytes": ...} instead)"},
      {R"("workers": "four"})", "s.json: /workers: expected an integer from 1 to 1000000, got \"four\""},
      {R"("workers": 4, "scedules": []})",
       "s.json: /scedules: expected a key among format, version, name, profile, network, workers, schedules, "
       "collectives, iterations, accumulation_steps, overlap, jitter, stragglers, failures, fidelity, links, "
       "topology, channels, input, update, job, sweep, between, data_types, memory, parallel, recompute, "
       "worker_spread, got 'scedules', did you mean 'schedules'?"},
      {R"("workers": 4, "schedules": ["wfpb"]})", "s.json: /schedules/0: expected one of " +
                                                      support::listed(planner::presets()) +
                                                      R"(, got "wfpb", did you mean 'wfbp'?)"},
      {R"("workers": 4, "input": {"read_us": -1}})",
       "s.json: /input/read_us: expected a number from 0 to 1000000000000, got -1"},
      {R"("workers": 4, "jitter": {"sigma": 3}})",
       "s.json: /jitter/sigma: expected a number from 0 to 2, got 3"},
      {R"("workers": 4, "collectives": {"all_reduce": "two_level"}})",
       "s.json: /network: expected a network with levels, as two_level needs, got network 'n' without "
       "(schedule 's-sgd')"},
      {R"("workers": 4, "schedules": ["ok-topk"]})",
       R"(s.json: /schedules/0: expected a density with it: {"name": "ok-topk", "density": ...}, got "ok-topk")"},
      {R"("workers": 4, "schedules": [{"name": "gtopk", "density": 2}]})",
       "s.json: /schedules/0/density: expected a number from 0 to 1, got 2"},
      {R"("workers": 4, "schedules": [{"name": "hitopk", "density": 0.01}]})",
       "s.json: /network: expected a network with levels, as hitopk needs, got network 'n' without "
       "(schedule 'hitopk 0.01')"},
      {R"("workers": 4, "workers": 4})", "s.json: /workers: expected a key once, got it twice"},
      {R"("workers": NaN})", "s.json:1:100: expected JSON, got 'N'"},
      {R"("workers": 4)", "s.json:1:101: expected JSON, got the end of the file"},
      {R"("iterations": 1})", "s.json: /workers: expected a value, got nothing"},
      {R"("workers": 4, "schedules": [{"fusion": {"kind": "plan", "file": "none.json"}}]})",
       "s.json: /schedules/0/fusion/file: expected the path of a file that can be read, got \"none.json\": "
       "No such file or directory"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.rest);
    const Files files(example.rest);
    check_refused(files, run_program({"simulate", files.scenario()}), example.message);
  }
}

TEST_CASE("errors: the line names the file that holds the fault") {
  struct Example {
    const char* name;
    std::string text;
    std::string message;
  };
  const std::string deep = std::string(100'000, '[');
  const Example examples[] = {
      {"p.json", "{\"format\": \"fusewise.profile\"", "p.json:1:30: expected JSON, got the end of the file"},
      {"p.json",
       R"({"format": "fusewise.profile", "version": 1, "model": ")" + std::string(5000, 'x') + "\"}",
       "p.json: /model: expected a name of at most 4096 bytes, got one of 5000"},
      {"p.json", "{}", "p.json: /format: expected fusewise.profile, got nothing"},
      {"p.json", "[]",
       "p.json: /: expected an object with \"format\": \"fusewise.profile\", got an array of 0 items"},
      {"p.json", deep,
       "p.json: " +
           [] {
             std::string pointer;
             for (int i = 0; i < 100; ++i) pointer += "/0";
             return pointer;
           }() +
           ": expected nesting of at most 100, got more"},
      {"n.json",
       R"({"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "guess", "source": ""}})",
       "n.json: /origin/kind: expected one of measured, published, estimated, got \"guess\""},
      {"n.json", R"({"format": "fusewise.network", "version": 2})",
       "n.json: /version: expected 1, the only version this program reads, got 2"},
      {"n.json", "{\"a\\u0007\\n\": 1e999}", "n.json:1:15: expected a number that fits a double, got 1e999"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.message);
    const Files files(R"("workers": 4})");
    (void)files.file(example.name, example.text);
    check_refused(files, run_program({"simulate", files.scenario()}), example.message);
  }
}

TEST_CASE("errors: more elements than a file may hold, however they are written") {
  const Files files(R"("workers": 4})");
  for (const std::string elements : {"0", "-3", "1000000000001", "1.5", "1e+30", "\"5\"", "null"}) {
    CAPTURE(elements);
    std::string profile = kProfile;
    profile.replace(profile.find("\"elements\": 5") + 12, 1, elements);
    (void)files.file("p.json", profile);
    check_refused(
        files, run_program({"simulate", files.scenario()}),
        "p.json: /layers/0/tensors/0/elements: expected an integer from 1 to 1000000000000, got " + elements);
  }
}

TEST_CASE(
    "errors: a file that cannot be read is wrong input, one that cannot be written is the world's failure") {
  const Files files(R"("workers": 4})");
  check_refused(files, run_program({"simulate", files.path("none.json")}),
                "none.json: /: expected a file that can be read, got: No such file or directory");

  const Outcome unwritable =
      run_program({"simulate", files.scenario(), "-o", files.path("no/such/folder.json")});
  CHECK(unwritable.exit_code == 1);
  CHECK(unwritable.out.empty());
  CHECK(files.shown(unwritable) == "no/such/folder.json: cannot write: No such file or directory\n");

  const Outcome full = run_program({"simulate", files.scenario(), "-o", "/dev/full"});
  CHECK(full.exit_code == 1);
  CHECK(files.shown(full) == "/dev/full: cannot write: No space left on device\n");
}

TEST_CASE("errors: a run that is refused leaves older results as they were") {
  const Files files(R"("workers": [4, 0]})");
  const std::string results = files.file("results.json", "older");
  CHECK(run_program({"simulate", files.scenario(), "-o", results}).exit_code == 2);
  CHECK(core::read_file(results) == "older");
}

TEST_CASE("errors: names that hold control characters stay on their line") {
  const Files files(R"("workers": 4})");
  std::string network = kNetwork;
  network.replace(network.find("\"n\""), 3, R"("a\nb\u001b\u009b")");
  network.replace(network.find("\"link\""), std::string::npos,
                  R"("measured": [{"collective": "reduce_scatter", "workers": 2, "curve": [[1, 1]]}]})");
  (void)files.file("n.json", network);
  check_refused(
      files, run_program({"simulate", files.scenario()}),
      "s.json: /workers: expected a number of workers for which network 'a\\u000ab\\u001b\\u009b' has a cost "
      "of ring all_reduce (none is measured, and it has no link), got 4 (schedule 's-sgd')");
  const Outcome unwritable = run_program({"simulate", files.scenario(), "-o", files.path("no\nfolder/x")});
  CHECK(unwritable.err.find('\n') == unwritable.err.size() - 1);
}

TEST_CASE("errors: a plan is told apart from what it is used for") {
  const Files files(
      R"("workers": 4, "schedules": ["wfbp", {"fusion": {"kind": "plan", "file": "plan.json"}}]})");
  const std::string plan = files.path("plan.json");
  (void)files.file("plan.json", R"({"format": "fusewise.plan", "version": 1, "model": "m", "workers": 8,
    "pipeline": "dear", "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "heuristic",
    "groups": [{"tensors": ["t"], "bytes": 20}]})");
  const Outcome used = run_program({"simulate", files.scenario()});
  CHECK(used.exit_code == 0);
  CHECK(used.err ==
        "warning: the plan for model 'm' was made for pipeline dear, and is used with wfbp\n"
        "warning: the plan for model 'm' was made for workers 8, and is used with 4\n");

  std::string wrong = core::read_file(plan);
  wrong.replace(wrong.find("\"bytes\": 20"), 11, "\"bytes\": 17");
  (void)files.file("plan.json", wrong);
  check_refused(files, run_program({"simulate", files.scenario()}),
                "plan.json: /groups/0/bytes: expected 20, as its tensors have, got 17");
}

TEST_CASE("errors: several outputs are written together or not at all, each to a file of its own") {
  const Files files(R"("workers": 4})");
  const std::string results = files.path("results.json");
  CHECK(run_program({"simulate", files.scenario(), "-o", results, "--timeline", files.path("no/folder.json")})
            .exit_code == 1);
  CHECK_FALSE(std::filesystem::exists(results));
  // names that no file can have, or no file that replaces another one
  const std::string too_long(300, 'x');
  const std::string replaced = files.file(std::string(250, 'y'), "older");
  for (const std::string& name : {files.path(too_long), replaced}) {
    const Outcome outcome = run_program({"simulate", files.scenario(), "-o", results, "--timeline", name});
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.err == name + ": cannot write: File name too long\n");
    CHECK_FALSE(std::filesystem::exists(results));
  }
  CHECK(core::read_file(replaced) == "older");
  check_refused(files, run_program({"simulate", files.scenario(), "-o", results, "--timeline", results}),
                "--timeline: expected a file of its own, got the one of --output");
  check_refused(files, run_program({"simulate", files.scenario(), "-o", files.scenario()}),
                "--output: expected a file of its own, got the input s.json");
}

TEST_CASE("errors: what stands for a file without an end is refused, a link is written through") {
  const Files files(R"("workers": 4})");
  check_refused(files, run_program({"simulate", "/dev/zero"}),
                "/dev/zero: /: expected a file that can be read, got: a device, not a regular file");
  const std::string target = files.file("target.json", "older");
  std::filesystem::create_symlink(target, files.path("link.json"));
  REQUIRE(run_program({"simulate", files.scenario(), "-o", files.path("link.json")}).exit_code == 0);
  CHECK(std::filesystem::is_symlink(files.path("link.json")));
  CHECK(core::read_file(target).rfind("{", 0) == 0);
}

TEST_CASE("errors: wrong usage ends with 2 and one line") {
  const Files files(R"("workers": [4, 8]})");
  const std::vector<std::vector<std::string>> usages = {
      {"simulat"},
      {"simulate"},
      {"simulate", files.scenario(), "--jsn"},
      {"simulate", files.scenario(), "--json", "--csv"},
      {"simulate", files.scenario(), "--timeline-workers", "4"},
      {"plan", files.scenario()},
      {"plan", files.scenario(), "--workers", "0"},
      {"plan", files.scenario(), "--workers", "4", "--schedule", "dpp"},
      {"schema", "profil"},
      {"estimate", "models/resnet18.json", "--device", "v1000"},
      {"import", files.scenario()},
      {"measure", "--workers", "1"},
      {"measure", "--workers", "2", "--isolated", "--back-to-back"},
      {"measure", "--workers", "2", "--deadline", "nan"},
      {"netlab"},
      {"netlab", "up", "--name", "a/b"},
      {"estimate", "models/resnet18.json", "--device", "v100", "--iteration-ms", "nan"},
      {"estimate", "models/resnet18.json", "--device", "v100", "-o", ""},
      {"import", "models/resnet18.json", "--forward-ratio", "nan"},
  };
  for (const std::vector<std::string>& usage : usages) {
    const Outcome outcome = run_program(usage);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(!outcome.err.empty());
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

}  // namespace
