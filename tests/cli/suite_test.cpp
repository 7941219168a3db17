// fusewise validate SUITE through the real program: a small suite from its file to the page, and wrong usage.

#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "core/printable.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

/// Two workers, milliseconds; whatever the errors are, they are within the tolerance.
const std::string kSuite =
    R"({"format": "fusewise.suite", "version": 1, "name": "small", "iterations": 4, "warm_up": 1,
  "tolerance": {"mean": 10, "worst": 10, "ranking": 10, "min_null_error_ratio": 0},
  "groups": [{"name": "g", "workers": 2, "line_rate_gbps": 1,
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "none", "origin": {"kind": "estimated", "source": ""},
      "layers": [{"name": "a", "kind": "k", "forward_us": 500, "backward_us": 900, "tensors": [{"name": "v", "elements": 5000}]},
                 {"name": "b", "kind": "k", "forward_us": 500, "backward_us": 900, "tensors": [{"name": "w", "elements": 9000}]}]},
    "schedules": ["wfbp", {"name": "one group", "schedule": {"fusion": "all"}}, "fusewise"]}]})";

/// What a quiet machine does not show, a noisy one hides, or a suite without mistakes cannot have.
bool is_of_other_runs(const std::string& part) {
  for (const std::string_view end : {": failed", ": passed", ": not judged", ": not_judged_because", ": loss",
                                     ": null_error", ": measured_best", ": predicted_best"})
    if (part.ends_with(end)) return true;
  return false;
}

TEST_CASE("validate: -o NAME.json writes the report of a suite as JSON, which fusewise report draws") {
  const support::TemporaryFolder folder;
  const std::string file = folder / "accuracy.json";
  const std::string page = folder / "page.html";
  const std::string suite = folder.put("s.json", kSuite);
  const Outcome outcome = run_program({"validate", suite, "--paced", "--json", "-o", file});
  CAPTURE(outcome.err);
  CHECK(core::read_file(file) == outcome.out);
  const Outcome drawn = run_program({"report", file, "-o", page});
  CAPTURE(drawn.err);
  CHECK(drawn.exit_code == 0);
  CHECK(core::read_file(page).find("\"kind\":\"accuracy\"") != std::string::npos);
}

TEST_CASE("report: a suite is run and drawn, unless it needs leave to run scripts") {
  const support::TemporaryFolder folder;
  const std::string page = folder / "page.html";
  const Outcome drawn = run_program({"report", folder.put("s.json", kSuite).string(), "-o", page});
  CAPTURE(drawn.err);
  CHECK((drawn.exit_code == 0 || drawn.err.find("could not be judged") != std::string::npos));
  const std::string text = core::read_file(page);
  for (const char* const part : {"\"kind\":\"accuracy\"", "one group", "\"measured_us\""})
    CHECK(text.find(part) != std::string::npos);
  CHECK(core::read_file(page + ".prediction").find("one group") != std::string::npos);

  std::string strict = kSuite;
  const std::string loose = R"("mean": 10, "worst": 10)";
  strict.replace(strict.find(loose), loose.size(), R"("mean": 0, "worst": 0)");
  const std::string strict_page = folder / "strict.html";
  const Outcome outside = run_program({"report", folder.put("strict.json", strict), "-o", strict_page});
  CHECK((outside.exit_code == 3 || outside.exit_code == 1));  // 1 where the machine is too noisy to judge
  CHECK(core::read_file(strict_page).find("one group") != std::string::npos);

  const std::string scripts =
      folder.put("p.json", R"({"format": "fusewise.suite", "version": 1, "name": "p", "programs": [
        {"name": "ddp", "script": "run.py"}]})");
  const Outcome refused = run_program({"report", scripts, "-o", folder / "none.html"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err == scripts +
                           ": /programs: expected a suite without scripts, or its results, got scripts "
                           "(fusewise validate " +
                           scripts + " --allow-programs -o accuracy.json runs them for a report)\n");
}

TEST_CASE("validate: on a terminal a suite says which case runs, and how many are left") {
  const support::TemporaryFolder folder;
  const std::string command = "script -qec '" + support::program() + " validate " +
                              folder.put("s.json", kSuite).string() + " --paced' /dev/null >" +
                              (folder / "out").string() + " 2>&1 </dev/null";
  if (std::system("command -v script >/dev/null") != 0) return;
  CHECK(std::system(command.c_str()) >= 0);
  const std::string text = core::read_file(folder / "out");
  CAPTURE(text);
  CHECK(text.find("0 of 3 done: g: wfbp") != std::string::npos);
  CHECK(text.find(" s left: g: one group") != std::string::npos);
}

TEST_CASE("validate: papers are written as JSON to NAME.json, and fusewise report says what to run first") {
  const support::TemporaryFolder folder;
  const std::string file = folder / "papers.json";
  const Outcome written = run_program({"validate", "validate/papers/dear.paper.json", "--json", "-o", file});
  CHECK(written.out == core::read_file(file));
  CHECK(run_program({"report", "validate/papers/dear.paper.json", "-o", folder / "r.html"}).err ==
        "validate/papers/dear.paper.json: /format: expected fusewise.scenario or results, got a paper "
        "(fusewise "
        "validate validate/papers/dear.paper.json compares it)\n");
  const std::string plan = folder / "p.json";
  REQUIRE(run_program({"plan", "googlenet-k80", "--workers", "4", "-o", plan}).exit_code == 0);
  CHECK(run_program({"report", plan, "-o", folder / "r.html"}).err ==
        plan +
            ": /format: expected fusewise.scenario or results, got a plan (fusewise report SCENARIO shows "
            "the scenario of a plan)\n");
}

TEST_CASE("validate: a suite is predicted, frozen, run and judged, noisy cases are not") {
  const support::TemporaryFolder folder;
  const std::string page = folder / "page.md";
  const std::string prediction_file = folder / "frozen.json";
  const Outcome outcome = run_program({"validate", folder.put("s.json", kSuite), "--paced", "--json", "-o",
                                       page, "--prediction", prediction_file});
  CAPTURE(outcome.err);
  const json report = json::parse(outcome.out);
  const std::size_t not_judged = report.at("not_judged");
  CHECK(outcome.exit_code == (not_judged > 0 ? 1 : 0));
  CHECK(report.at("format") == "fusewise.accuracy");
  CHECK(report.at("failures").empty());
  CHECK(report.at("places").at(0) == "g: 2 processes, loopback, each process paced to 1 Gb/s");
  REQUIRE(report.at("cases").size() == 3);
  const json written = json::parse(core::read_file(prediction_file));
  CHECK(support::schema_fault(support::schema("predictions"), written) == "");
  CHECK(support::schema_fault(support::schema("accuracy"), report) == "");
  for (const std::string& part : support::unused_parts("accuracy", {report})) {
    CAPTURE(part);
    CHECK(is_of_other_runs(part));
  }
  const json predictions = written.at("groups").at(0).at("plans");
  for (std::size_t i = 0; i < 3; ++i) {
    const json& each = report.at("cases").at(i);
    CHECK(each.at("runs").at(0).at("iterations_us").size() == 4);
    CHECK(each.at("predicted_us") == predictions.at(i).at("iteration_us"));
    CHECK((each.at("verdict") == "passed") == each.at("runs").at(0).at("noise").empty());
    CHECK(each.contains("alpha_beta_us"));
  }
  CHECK(core::read_file(page).find("| g | wfbp | waiting |") != std::string::npos);
}

/// Runs a suite of one program alone, which may take so many seconds.
Outcome run_job(const support::TemporaryFolder& folder, const std::string& script, int limit_s = 60,
                std::string allowed = "--allow-programs") {
  folder.put("job.py", script);
  return run_program(
      {"validate", "--json", std::move(allowed),
       folder.put("job.json", R"({"format": "fusewise.suite", "version": 1, "name": "jobs", "programs": [)"
                              R"({"name": "job", "script": "job.py", "line_rate_gbps": 1, "limit_s": )" +
                                  std::to_string(limit_s) + "}]}")});
}

TEST_CASE("validate: a suite's program runs under the system's Python, whatever the PATH finds first") {
  const support::TemporaryFolder folder;
  std::filesystem::permissions(folder.put("bin/python3", "#!/bin/sh\nexit 9\n"),
                               std::filesystem::perms::owner_all);
  const support::Environment path("PATH", (folder / "bin").string() + ":" + std::getenv("PATH"));
  const Outcome outcome = run_job(folder, R"(import json, sys
print("by the way", file=sys.stderr)
print(json.dumps({"workers": 2, "where": " ".join(sys.argv[2:]), "versions": sys.executable, "cases": [
    {"name": "ddp", "noise": [], "predicted_us": 101, "alpha_beta_us": 90, "iterations_us": [100, 100]}]}))
)");
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.err.find("job: by the way\n") != std::string::npos);
  const json report = json::parse(outcome.out);
  CHECK(report.at("cases").at(0).at("verdict") == "passed");
  CHECK(report.at("places").at(0) ==
        "job: 2 processes, --workers 2 --rate 1000000000bit --iterations 20; /usr/bin/python3");
}

TEST_CASE("validate: how a suite's program fails is told with the last that it said") {
  const support::TemporaryFolder folder;
  const auto last_of = [](const Outcome& outcome) {
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.out.empty());
    const std::string& err = outcome.err;
    return err.size() < 2 ? err : err.substr(err.rfind('\n', err.size() - 2) + 1);
  };
  CHECK(last_of(run_job(folder, "print('no result')\nimport nothing_of_this_name\n")) ==
        "job: job.py ended with exit code 1; its last message: ModuleNotFoundError: No module named "
        "'nothing_of_this_name'\n");
  CHECK(last_of(run_job(folder, "raise SystemExit(3)\n")) ==
        "job: job.py ended with exit code 3; it printed no message\n");
  CHECK(last_of(run_job(folder, "import sys\nprint('{')\nsys.exit(print('hm', file=sys.stderr))\n")) ==
        "job: job.py:2:1: expected JSON, got the end of the file (job.py ended with exit code 0; its last "
        "message: hm)\n");
  CHECK(last_of(run_job(folder,
                        "import sys, time\nprint('waiting', file=sys.stderr, flush=True)\ntime.sleep(60)\n",
                        2)) == "job: job.py did not end within 2 s; its last message: waiting\n");
}

TEST_CASE("validate: a suite's program runs only if programs are allowed") {
  const support::TemporaryFolder folder;
  const Outcome outcome = run_job(folder, "open('ran', 'w')\n", 60, "--attempts=1");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == (folder / "job.json").string() +
                           ": /programs: expected --allow-programs, because the suite runs the script " +
                           (folder / "job.py").string() + ", got none\n");
  CHECK_FALSE(std::filesystem::exists("ran"));
}

TEST_CASE("validate: options that make no sense with a suite, and a suite that cannot be run") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("s.json", kSuite);
  const Outcome rate = run_program({"validate", file, "--rate", "1gbit"});
  CHECK(rate.exit_code == 2);
  CHECK(rate.err == "--rate: expected a plan or a scenario with it, got a suite\n");
  const Outcome repeat = run_program({"validate", "scenarios/googlenet-k80.json", "--repeat", "2"});
  CHECK(repeat.exit_code == 2);
  CHECK(repeat.err == "--repeat: expected a suite with it, got fusewise.scenario\n");
  std::string wrong = kSuite;
  wrong.replace(wrong.find("\"wfbp\""), 6, "\"parameter-server\"");
  const Outcome server = run_program({"validate", folder.put("w.json", wrong)});
  CHECK(server.exit_code == 2);
  CHECK(server.err.find(
            "w.json: /groups/0/schedules/0: expected a plan that can be run live, got one that cannot") !=
        std::string::npos);
}

}  // namespace
