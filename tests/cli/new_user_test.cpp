// The first steps of a new user: names of bundled files, defaults, messages, and output on terminals.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/namespaces.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

TEST_CASE("plan: a summary by default, JSON with --json, and both with -o") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "p.json").string();
  const Outcome summary = run_program({"plan", "googlenet-k80", "--workers", "64"});
  CHECK(summary.out.rfind("googlenet on 64 workers, pipeline wfbp", 0) == 0);
  const Outcome document = run_program({"plan", "googlenet-k80", "--workers", "64", "--json"});
  CHECK(json::parse(document.out).at("format") == "fusewise.plan");
  CHECK(run_program({"plan", "googlenet-k80", "--workers", "64", "-o", file}).out == summary.out);
  CHECK(core::read_file(file) == document.out);
}

TEST_CASE("sweep: every row of the CSV has as many cells as the header, also where inputs have a spread") {
  const support::TemporaryFolder folder;
  const std::string scenario = folder.put("s.json", R"({
    "format": "fusewise.scenario", "version": 1, "workers": [2, 4], "schedules": ["wfbp", "fusewise"],
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {"kind": "measured", "source": "made up"},
      "layers": [{"name": "a", "kind": "linear", "forward_us": 10, "backward_us": 20, "forward_spread_us": 3,
                  "backward_spread_us": 4, "tensors": [{"name": "a.w", "elements": 1000}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "made up"}, "link": {"alpha_us": 10, "beta_us_per_byte": 0.001}},
    "sweep": {"bandwidth_factor": [1, 2]}})");
  std::istringstream lines(run_program({"sweep", scenario}).out);
  std::string header;
  std::getline(lines, header);
  const auto cells = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  int rows = 0;
  for (std::string row; std::getline(lines, row); ++rows) CHECK(cells(row) == cells(header));
  CHECK(rows == 8);
}

TEST_CASE(
    "simulate: the timeline says which number of workers it shows, unless there is one or it is given") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "t.json").string();
  CHECK(run_program({"simulate", "googlenet-k80-measured", "--timeline", file})
            .err.find("timeline: 8 workers, the last number; --timeline-workers chooses another\n") !=
        std::string::npos);
  CHECK(run_program({"simulate", "googlenet-k80-measured", "--timeline", file, "--timeline-workers", "4"})
            .err.find("timeline:") == std::string::npos);
}

TEST_CASE("simulate and plan: of a profile, model or network they say how to make a scenario") {
  CHECK(run_program({"plan", "traces/resnet50-v100.profile.json", "--workers", "4"}).err ==
        "traces/resnet50-v100.profile.json: /format: expected fusewise.scenario, got a profile (fusewise "
        "init --model "
        "traces/resnet50-v100.profile.json makes a scenario of it)\n");
  CHECK(run_program({"simulate", "models/resnet18.json"})
            .err.find("fusewise init --model models/resnet18.json") != std::string::npos);
  CHECK(run_program({"simulate", "traces/v100-10gbe.network.json"})
            .err.find("fusewise init --network traces/v100-10gbe.network.json") != std::string::npos);
}

TEST_CASE("profile: without a GPU the error names the other backend") {
  const Outcome outcome = run_program({"profile", "resnet18", "--repetitions", "1", "--warm-up", "0"});
  if (outcome.exit_code == 0) return;  // on a GPU
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.err.find("(--backend cpu measures on the processor)\n") != std::string::npos);
}

TEST_CASE("fit: output of nccl-tests may carry the tags of mpirun, and says itself what was measured") {
  const std::vector<std::string> lines = {"# Collective test starting: all_reduce_perf",
                                          "#  Rank  0 Group  0 Pid 1 on h device 0",
                                          "#  Rank  1 Group  0 Pid 1 on h device 1",
                                          "#       size         count      type   redop    root     time   "
                                          "algbw   busbw #wrong     time   algbw   busbw #wrong",
                                          "        1000           250     float     sum      -1     10.0    "
                                          "0.10    0.10      0     10.0    0.10    0.10      0",
                                          "     1000000        250000     float     sum      -1    100.0   "
                                          "10.00   10.00      0    100.0   10.00   10.00      0"};
  std::string plain;
  std::string tagged;
  for (const std::string& line : lines) {
    plain += line + "\n";
    tagged += "[1,0]<stdout>:" + line + "\n";
  }
  const support::TemporaryFolder one;
  const support::TemporaryFolder other;
  const auto fitted = [](const support::TemporaryFolder& folder, const std::string& text) {
    const Outcome outcome = run_program({"fit", folder.put("job.log", text), "--json"});
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
    json curves = json::parse(outcome.out).at("curves");
    for (json& curve : curves) curve.erase("log");
    return curves;
  };
  CHECK(fitted(one, tagged) == fitted(other, plain));
}

TEST_CASE("netlab: the lines that it prints lead into every worker" *
          support::needs(support::no_namespaces)) {
  const support::TemporaryFolder folder;
  const support::Environment environment("XDG_RUNTIME_DIR", folder.path().string());
  const std::string name = "new-user";
  const Outcome up = run_program({"netlab", "up", "--name", name, "--workers", "2"});
  REQUIRE(up.exit_code == 0);
  std::istringstream lines(up.out);
  int entered = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("nsenter ");
    if (at == std::string::npos) continue;
    const std::string command = line.substr(at, line.rfind(" COMMAND") - at);
    CAPTURE(command);
    CHECK(std::system((command + " true").c_str()) == 0);
    ++entered;
  }
  CHECK(entered == 2);
  CHECK(run_program({"netlab", "down", "--name", name}).exit_code == 0);
}

TEST_CASE("quiet: neither warnings nor progress, but errors and results") {
  const std::string scenario = "scenarios/googlenet-k80-measured.json";
  const Outcome usual = run_program({"simulate", scenario});
  REQUIRE(usual.err.find("warning: ") == 0);
  const Outcome quiet = run_program({"--quiet", "simulate", scenario});
  CHECK(quiet.err.empty());
  CHECK(quiet.out == usual.out);
  CHECK(run_program({"--quiet", "simulate", "no-such-file.json"}).err.find("no-such-file.json: /:") == 0);
}

/// Returns the output of a command that runs on a terminal.
std::string on_terminal(const std::string& command) {
  FILE* const out = ::popen(("script -qec '" + command + "' /dev/null 2>&1 </dev/null").c_str(), "r");
  REQUIRE(out != nullptr);
  std::string text;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) text += static_cast<char>(c);
  REQUIRE(::pclose(out) == 0);
  return text;
}

std::string no_script() {
  return std::system("command -v script >/dev/null") == 0 ? "" : "no program script (apt install bsdutils)";
}

TEST_CASE("command line: the begin of a command is enough for a suggestion, and a missing value is said") {
  const std::string command = run_program({"simul"}).err;
  CAPTURE(command);
  CHECK(command.ends_with("got 'simul', did you mean 'simulate'? (try fusewise --help)\n"));
  CHECK(run_program({"measure", "--rate"}).err == "--rate: expected a value, got none (try --help)\n");
  CHECK(run_program({"plan", "googlenet-k80", "--expl"}).err.find("did you mean '--explain'?") !=
        std::string::npos);
}

TEST_CASE("init: on a terminal a wrong answer is asked for again" * support::needs(no_script)) {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "s.json").string();
  const std::string answers = R"(resnet5\n\nresnet18\na10\na100\n25gbti\n25gbit\n4,x\n4,8\n)";
  FILE* const out = ::popen(("printf '" + answers + "' | script -qec '" + support::program() + " init -o " +
                             file + "' /dev/null 2>&1")
                                .c_str(),
                            "r");
  REQUIRE(out != nullptr);
  std::string text;
  for (int c = std::fgetc(out); c != EOF; c = std::fgetc(out)) text += static_cast<char>(c);
  CAPTURE(text);
  CHECK(::pclose(out) == 0);
  CHECK(text.find("got 'resnet5', did you mean 'resnet50'?") != std::string::npos);
  CHECK(text.find("got 'a10', did you mean 'a100'?") != std::string::npos);
  CHECK(json::parse(core::read_file(file)).at("workers") == json({4, 8}));
}

/// The lines of what a command prints on a terminal of 80 columns, without lines of progress.
std::vector<std::string> lines_on_terminal(const std::string& arguments) {
  constexpr std::string_view kErase = "\033[K";
  std::istringstream text(on_terminal("stty cols 80; " + support::program() + " " + arguments));
  std::vector<std::string> out;
  for (std::string line; std::getline(text, line); out.push_back(line)) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    if (const std::size_t at = line.rfind(kErase); at != std::string::npos) line.erase(0, at + kErase.size());
  }
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::string without_spaces(const std::string& text) {
  std::string out;
  for (const std::string& word : words_of(text)) out += word;
  return out;
}

TEST_CASE("help: its lines fit the terminal, but for commands to paste, and are whole elsewhere" *
          support::needs(no_script)) {
  std::vector<std::string> all = {"", "netlab up"};
  const std::string help = run_program({"--help"}).out;
  std::istringstream commands(help.substr(help.find("Subcommands:\n")));
  for (std::string line; std::getline(commands, line);)
    if (line.starts_with("  ")) all.push_back(words_of(line).front());
  CHECK(all.size() == 20);
  for (const std::string& command : all) {
    CAPTURE(command);
    std::string text;
    for (const std::string& line : lines_on_terminal(command + " --help")) {
      CAPTURE(line);
      const bool is_example = line.starts_with("Example") || line.find("  fusewise ") != std::string::npos;
      CHECK((line.size() <= 80 || is_example));
      text += line + '\n';
    }
    std::vector<std::string> arguments = words_of(command);
    arguments.emplace_back("--help");
    CHECK(without_spaces(text) == without_spaces(run_program(arguments).out));
  }
}

TEST_CASE("quiet: after the command, too") {
  const std::string scenario = "scenarios/googlenet-k80-measured.json";
  const Outcome quiet = run_program({"simulate", scenario, "--quiet"});
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.err.empty());
  CHECK(quiet.out == run_program({"--quiet", "simulate", scenario}).out);
  CHECK(run_program({"netlab", "status", "--quiet"}).exit_code == 0);
}

TEST_CASE("output: tables, sentences and warnings fit the terminal, and are whole elsewhere" *
          support::needs(no_script)) {
  const support::TemporaryFolder folder;
  const std::string plan = (folder / "p.json").string();
  REQUIRE(run_program({"plan", "googlenet-k80", "--workers", "64", "-o", plan}).exit_code == 0);
  for (const std::string& arguments :
       {std::string(), std::string("plan googlenet-k80 --workers 64 --explain"), "show " + plan,
        std::string("plan googlenet-k80 --workers 64 --emit deepspeed"), std::string("show profiles"),
        std::string("show networks"), std::string("show a100-nvlink-8"), std::string("show resnet50-v100")}) {
    CAPTURE(arguments);
    std::string text;
    for (const std::string& line : lines_on_terminal(arguments)) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
      text += line + '\n';
    }
    const Outcome elsewhere = run_program(words_of(arguments));
    std::string found = without_spaces(text);
    std::string expected = without_spaces(elsewhere.err + elsewhere.out);
    for (std::string* each : {&found, &expected}) std::erase(*each, '#');  // the mark of a script's comments
    CHECK(found == expected);
  }
  for (const std::string& arguments :
       {std::string("simulate googlenet-k80-measured"), std::string("doctor"),
        std::string("init --model resnet50 --device a100 --network 25gbit --workers 8,16 -o ") +
            (folder / "s.json").string(),
        "sweep resnet50-v100-sweep -o " + (folder / "s.csv").string()})
    for (const std::string& line : lines_on_terminal(arguments)) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
    }
}

std::set<std::string> set_of_words(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  return {words.begin(), words.end()};
}

TEST_CASE("output: wide tables fit the terminal and lose no word there" * support::needs(no_script)) {
  const support::TemporaryFolder folder;
  const std::string source = support::source_dir().string();
  const std::string data = source + "/tests/data/ranks/dlrm";
  const std::string trace = source + "/tests/data/kineto/alexnet-hta.json";
  const std::string stages = source + "/tests/data/schemas/scenario-stages.json";
  const std::string front = (folder / "front.json").string();
  const Outcome memory =
      run_program({"plan", source + "/tests/data/schemas/scenario-sharded.json", "--memory-front", "--json"});
  REQUIRE(memory.exit_code == 0);
  folder.put("front.json", memory.out);
  const std::string log = folder.put("j.csv",
                                     "collective,workers,bytes,us\nall_reduce,4,1000,20\n"
                                     "all_reduce,4,10000,31\nall_reduce,4,100000,180\n"
                                     "all_reduce,4,1000000,1500\n");
  for (const std::string& arguments :
       {"import " + data, "import " + data + " -o " + (folder / "p.json").string(), "fit " + log,
        "validate " + source + "/validate/papers/dear.paper.json",
        "validate " + source + "/validate/papers/mg-wfbp.paper.json",
        "compare " + data + " --plan " + source + "/scenarios/googlenet-k80.json",
        "compare " + trace + ' ' + trace, "show " + front, "plan " + stages + " --explain",
        "show " + source + "/tests/data/schemas/compressors.json",
        std::string("plan resnet50-v100 --workers 8 --consider-compression")}) {
    CAPTURE(arguments);
    std::string text;
    for (const std::string& line : lines_on_terminal(arguments)) {
      CAPTURE(line);
      CHECK(line.size() <= 80);
      text += line + '\n';
    }
    const Outcome elsewhere = run_program(words_of(arguments));
    CHECK(set_of_words(text) == set_of_words(elsewhere.err + elsewhere.out));
  }
}

TEST_CASE("errors: what is suggested is neither hidden nor refused there") {
  CHECK(run_program({"simulate", "googlenet-k80", "--versoin"}).err ==
        "The following argument was not expected: --versoin (try --help)\n");
  CHECK(run_program({"--quite", "simulate", "googlenet-k80"}).err ==
        "The following argument was not expected: --quite, did you mean '--quiet'? (try --help)\n");
  CHECK(run_program({"report", "resnet50-v100", "--ploott"}).err ==
        "The following argument was not expected: --ploott (try --help)\n");
  CHECK(run_program({"sweep", "resnet50-v100-sweep", "--json"}).err ==
        "--json: expected --output with it, for the rows, or --json-lines instead, got neither\n");
  CHECK(run_program({"calibrate", "runs.csv", "--jso"}).err ==
        "The following argument was not expected: --jso, did you mean '--json'? (try --help)\n");
}

TEST_CASE("errors: each says what is wrong, and what to do") {
  const std::string profile = (support::source_dir() / "traces/bert-base-v100.profile.json").string();
  const std::pair<const char*, std::string> all[] = {
      {"compare no-such.json",
       "no-such.json: /: expected a file that can be read, got: No such file or directory\n"},
      {"netlab", "expected a command among up, down, status (try --help)\n"},
      {"netlab --foo", "The following argument was not expected: --foo (try --help)\n"},
      {"simulate googlenet-k80 a.png b --of-it",
       "The following arguments were not expected: a.png b --of-it (try --help)\n"},
      {"simulate googlenet-k80 --plot a.png",
       "--plot: expected no such option: fusewise report -o report.html draws charts of the same results\n"},
      {"report googlenet-k80 --plot a.png",
       "--plot: expected no such option: the page has the charts, and saves each as SVG\n"},
      {"estimate resnet18 --device A10",
       "--device: expected one of k80, p100, v100, t4, rtx2080ti, a100, h100, h200, got 'A10', did you mean "
       "'a100'?\n"}};
  for (const auto& each : all) {
    CAPTURE(each.first);
    const Outcome outcome = run_program(words_of(each.first));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == each.second);
  }
  const Outcome outcome = run_program({"validate", profile});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.starts_with(
      profile +
      ": /format: expected fusewise.plan, scenario, suite or paper, or a folder of papers, got a "));
  CHECK(outcome.err.ends_with(" makes a scenario of it)\n"));
}

TEST_CASE("names: on the command line those of the program's own ignore case, in files they do not") {
  const support::TemporaryFolder folder;
  const std::string out = folder / "out.json";
  const std::pair<const char*, const char*> all[] = {
      {"simulate GoogLeNet-K80", "simulate googlenet-k80"},
      {"estimate GPT2 --device V100 --dtype Float16", "estimate gpt2 --device v100 --dtype float16"},
      {"plan googlenet-k80 --workers 4 --schedule DDP --emit DDP",
       "plan googlenet-k80 --workers 4 --schedule ddp --emit ddp"},
      {"plan googlenet-k80 --workers 4 --for DDP", "plan googlenet-k80 --workers 4 --for ddp"},
      {"plan GOOGLENET-K80 --workers 4 --schedule WFBP", "plan googlenet-k80 --workers 4 --schedule wfbp"},
      {"show V100-10GbE", "show v100-10gbe"},
      {"show Networks", "show networks"},
      {"init --model GPT2 --device a100 --network V100-10GBE --workers 8 --force --json -o ",
       "init --model gpt2 --device a100 --network v100-10gbe --workers 8 --force --json -o "}};
  for (const auto& [given, exact] : all) {
    const std::string& line_given = given;  // clang 14 cannot capture a structured binding
    CAPTURE(line_given);
    const auto run = [&](std::string line) {
      if (line.ends_with(' ')) line += out;
      return run_program(words_of(line));
    };
    const Outcome outcome = run(given);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.out == run(exact).out);
  }
  const std::string file = folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "workers": 4,
    "profile": "resnet50-v100", "network": "V100-10GBE"})");
  const std::string refused = run_program({"simulate", file}).err;
  CHECK(refused.find("got 'V100-10GBE', did you mean 'v100-10gbe'?") != std::string::npos);
}

TEST_CASE("errors: names of values and of commands below commands are suggested") {
  const auto refused = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = run_program(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    return outcome.err;
  };
  CHECK(refused({"plan", "googlenet-k80", "--emit", "dpd"}).find("got 'dpd', did you mean 'ddp'?") !=
        std::string::npos);
  CHECK(refused({"import", "x", "--format", "kinto"}).find("got 'kinto', did you mean 'kineto'?") !=
        std::string::npos);
  CHECK(refused({"measure", "--backend", "tpc"}) ==
        "--backend: expected one of tcp, nccl, got 'tpc', did you mean 'tcp'?\n");
  CHECK(refused({"measure", "--workers", "2", "--collectives", "all_reduc"})
            .find("got 'all_reduc', did you mean 'all_reduce'?") != std::string::npos);
  CHECK(refused({"netlab", "upp"}) ==
        "expected a command among up, down, status, got 'upp', did you mean 'up'?\n");
}

TEST_CASE("json: every command that has something to say as JSON says it, also where it writes a file") {
  const support::TemporaryFolder folder;
  const auto document = [&](std::vector<std::string> arguments) {
    const std::string file = (folder.path() / (arguments.front() + ".json")).string();
    arguments.insert(arguments.end(), {"-o", file, "--json"});
    const Outcome outcome = run_program(arguments);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    CHECK(outcome.out == core::read_file(file));
    return json::parse(outcome.out);
  };
  CHECK(document({"estimate", "resnet18", "--device", "v100"}).at("format") == "fusewise.profile");
  CHECK(document({"profile", "resnet18", "--backend", "cpu", "--batch", "1", "--input-size", "32",
                  "--repetitions", "2", "--warm-up", "0"})
            .at("format") == "fusewise.profile");
  CHECK(document({"measure", "--workers", "2", "--sizes", "1KiB,64KiB", "--repetitions", "2", "--warm-up",
                  "1", "--collectives", "all_reduce"})
            .at("format") == "fusewise.network");
  CHECK(document({"measure", "--compressors", "--only", "fp16", "--elements", "1024", "--repetitions", "1"})
            .at("format") == "fusewise.compressors");
  std::vector<std::string> overlap = {
      "measure", "--workers",      "2",     "--overlap", "resnet18", "--batch",       "1", "--threads",
      "1",       "--overlap-size", "16MiB", "--warm-up", "1",        "--repetitions", "1"};
  CHECK(run_program(overlap).out.find("\ncompute_slowdown ") != std::string::npos);
  overlap.emplace_back("--json");
  CHECK(json::parse(run_program(overlap).out).contains("communication_slowdown"));
  const json lab = json::parse(run_program({"netlab", "status", "--name", "none-such", "--json"}).out);
  CHECK(lab.at("format") == "fusewise.netlab");
  CHECK(lab.at("is_up") == false);
  CHECK(json::parse(run_program({"schema", "plan", "--json"}).out).contains("properties"));
  const std::string page = folder / "page.html";
  const json summary = json::parse(run_program({"report", "googlenet-k80", "-o", page, "--json"}).out);
  CHECK(summary.at("format") == "fusewise.report-summary");
  CHECK(summary.at("output") == page);
  CHECK(summary.at("bytes") == std::filesystem::file_size(page));
  CHECK(summary.at("kind") == "scenario");
}

TEST_CASE("errors: an option that is nearly right is suggested") {
  CHECK(run_program({"plan", "googlenet-k80", "--wokers", "4"}).err.find("did you mean '--workers'?") !=
        std::string::npos);
  CHECK(run_program({"plan", "googlenet-k80", "--wokers=4,8,16,32"}).err.find("did you mean '--workers'?") !=
        std::string::npos);
  CHECK(run_program({"plan", "googlenet-k80", "--nothing-like-it"}).err.find("did you mean") ==
        std::string::npos);
}

TEST_CASE(
    "progress: on a terminal, long commands tell how much is done, at which rate, and how much is left" *
    support::needs(no_script)) {
  const support::TemporaryFolder folder;
  const std::string report = "report googlenet-k80 -o " + (folder / "r.html").string();
  const std::string paper =
      "validate " + (support::source_dir() / "validate/papers/dear.paper.json").string();
  struct Example {
    std::string arguments;
    const char* begin;
    const char* then;
  };
  for (const Example& each :
       {Example{"measure --compressors --only fp16,bf16 --elements 1024 --repetitions 1", "0 of 2 done: fp16",
                " s left: bf16"},
        Example{"measure --workers 2 --overlap resnet18 --batch 1 --threads 1 --repetitions 1 --warm-up 1 "
                "--overlap-size 16MiB",
                "0 of 1 done: the layers are prepared", " s left: round 1, iterations during all_reduces"},
        Example{"plan googlenet-k80 --workers 4 --explain", " done: boundaries of group 1",
                " s left: what if: half the bandwidth"},
        Example{report, " done: boundaries of group 1", " s left: the plan as ddp takes it"},
        Example{paper, " done: dear, ", " s left: dear, s-"},
        Example{"plan googlenet-k80 --workers 4 --consider-compression --densities 0.1",
                "0 of 15 done: ", " s left: the best choice for each group"},
        Example{"profile resnet18 --backend cpu --batch 1 --input-size 32 --repetitions 2 --warm-up 0",
                "1 of ", " s left"}}) {
    CAPTURE(each.arguments);
    const std::string text = on_terminal(support::program() + " " + each.arguments);
    CAPTURE(text);
    CHECK(text.find(each.begin) != std::string::npos);
    CHECK(text.find(each.then) != std::string::npos);
    CHECK(text.find(" a second, about ") != std::string::npos);
  }
}

TEST_CASE("progress: on a terminal, every kind of plan that may take long says what is done" *
          support::needs(no_script)) {
  const support::TemporaryFolder folder;
  const std::string sharded =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "workers": 4,
    "profile": "resnet50-v100", "network": "v100-10gbe", "memory": {"optimizer": "adam"}})");
  const std::string parallel = (support::source_dir() / "tests/data/schemas/scenario-parallel.json").string();
  const std::pair<std::string, const char*> all[] = {
      {"googlenet-k80 --workers 4 --for ddp", "0 of 1 done: the plan for ddp"},
      {parallel, "0 of 1 done: the plans of all parts"},
      {sharded + " --schedule fsdp --memory-front",
       "0 of 1 done: the fastest plans for each amount of memory"}};
  for (const auto& each : all) {
    CAPTURE(each.first);
    const std::string text = on_terminal(support::program() + " plan " + each.first);
    CAPTURE(text);
    CHECK(text.find(each.second) != std::string::npos);
  }
}

TEST_CASE("progress: a line is cut where the terminal ends, so that the next one replaces it" *
          support::needs(no_script)) {
  const std::string text =
      on_terminal("stty cols 40; " + support::program() +
                  " measure --compressors --only fp16,bf16 --elements 1024 --repetitions 1");
  CAPTURE(text);
  const std::size_t begin = text.find("1 of 2 done, ");
  REQUIRE(begin != std::string::npos);
  const std::string line = text.substr(begin, text.find('\r', begin) - begin);
  CHECK(line.size() == 40);
  CHECK(line.ends_with("..."));
}

TEST_CASE("measure: on a terminal it says what it measures, and how much is left" *
          support::needs(no_script)) {
  const std::string command = support::program() +
                              " measure --workers 2 --sizes 1KiB,64KiB --repetitions 2 --warm-up 1 "
                              "--collectives all_reduce";
  const std::string text = on_terminal(command);
  CHECK(text.find("0 of 2 done: all_reduce of 1 KiB") != std::string::npos);
  CHECK(text.find("s left: all_reduce of 64 KiB") != std::string::npos);
  CHECK(run_program({"measure", "--workers", "2", "--sizes", "1KiB,64KiB", "--repetitions", "2", "--warm-up",
                     "1", "--collectives", "all_reduce"})
            .err.find("done") == std::string::npos);
}

TEST_CASE("messages: what is refused says what to give instead") {
  const support::TemporaryFolder folder;
  const std::string out = (folder.path() / "out.json").string();
  const std::string plain = folder.put("plain.json", R"({
    "format": "fusewise.scenario", "version": 1, "profile": "resnet50-v100", "network": "v100-10gbe", "workers": [8]})");
  const std::string of_model = folder.put("model.json", R"({
    "format": "fusewise.scenario", "version": 1, "profile": "resnet50", "network": "v100-10gbe", "workers": [8]})");
  struct Example {
    std::vector<std::string> arguments;
    const char* message;
  };
  const std::vector<std::string> init = {
      "init", "--model", "resnet50-v100", "--network", "25gbit", "--workers", "8", "-o", out};
  const auto init_with = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> all = init;
    all.insert(all.end(), {option, value});
    return all;
  };
  const std::string by_rate = folder.put("rate.json", R"({
    "format": "fusewise.scenario", "version": 1, "profile": "resnet50-v100", "network": "25gbit", "workers": [8]})");
  const std::string trace = folder.put("trace.json", R"({"traceEvents": []})");
  const std::string hugging = folder.put("config.json", R"({"architectures": ["X"], "hidden_size": 2048})");
  const std::string tuned = folder.put("measured.json", R"({"settings": [], "not_overlapped_us": 1})");
  const std::string headless =
      folder.put("headless.json", R"({"profile": "resnet50-v100", "network": "v100-10gbe", "workers": [8]})");
  for (const Example& each :
       {Example{{"simulate", plain, "--workers", "8", "16"},
                "--workers: expected no such option: the key \"workers\" of the scenario says"},
        Example{{"plan", "resnet50-v100", "--workers", "8", "16"},
                "--workers: expected one number, got 8 16 (try --help)"},
        Example{{"sweep", plain, "--threads", "2"},
                "--threads: expected no such option: --jobs is the number of threads"},
        Example{{"simulate", by_rate}, "got '25gbit'; fusewise init --network makes a network of this rate"},
        Example{
            {"init", "--model", "resnet50", "--device", "a100", "--network", "25gbps", "--workers", "8"},
            "--network: expected a rate in kbit, mbit, gbit or tbit (a second), such as 25gbit, a network"},
        Example{{"init", "--model", hugging, "--network", "25gbit", "--workers", "8", "-o", out},
                "/format: expected one of fusewise.profile, fusewise.model, got nothing (it seems to be the "
                "configuration of a Hugging Face model"},
        Example{{"estimate", hugging, "--device", "a100"},
                "/format: expected fusewise.model, got nothing (it seems to be the configuration"},
        Example{{"show", trace}, ", fusewise.scenario, got nothing (it seems to be a trace of the PyTorch"},
        Example{{"show", tuned}, "got nothing (it seems to be what fusewise torch printed; job.json beside"},
        Example{{"report", headless},
                "got nothing (it seems to be a scenario, which needs \"format\": \"fusewise.scenario\""},
        Example{{"simulate", headless},
                "/format: expected fusewise.scenario, got nothing (it seems to be a scenario"},
        Example{init_with("--device", "a100"),
                "--device: expected a model to estimate, got resnet50-v100, a profile of"},
        Example{init_with("--batch", "16"),
                "--batch: expected a model to estimate, got resnet50-v100, a profile of"},
        Example{{"plan", "resnet50-v100", "--workers", "8,16"},
                "expected one whole number from 1 to 1000000, got '8,16'"},
        Example{{"report", plain, "-o", "x.png"}, "--output: expected a name that ends in .html, got x.png"},
        Example{{"sweep", plain}, "plain.json: /: expected a key \"sweep\" with what varies"},
        Example{{"simulate", of_model}, "/profile: expected a profile, or for a model an object such as"}}) {
    const Outcome outcome = run_program(each.arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(each.message) != std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("init: --batch is that of the estimate") {
  const support::TemporaryFolder folder;
  const std::string out = (folder.path() / "out.json").string();
  CHECK(run_program({"init", "--model", "resnet50", "--device", "a100", "--network", "25gbit", "--workers",
                     "8", "--batch", "17", "-o", out})
            .exit_code == 0);
  CHECK(json::parse(core::read_file(out)).at("profile").at("batch_size") == 17);
}

TEST_CASE("validate: --profile and --layers take the names of what comes with the program") {
  const support::TemporaryFolder folder;
  const std::string plan = (folder.path() / "p.json").string();
  REQUIRE(run_program({"plan", "resnet50-v100", "--workers", "4", "-o", plan}).exit_code == 0);
  for (const char* const option : {"--profile", "--layers"}) {
    // The names are found: what is refused is that the plan is of another model.
    const Outcome outcome = run_program(
        {"validate", plan, "--workers", "2", option, option[2] == 'p' ? "bert-base-v100" : "resnet18"});
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("can be read") == std::string::npos);
    CHECK(outcome.err.find("p.json") != std::string::npos);
  }
}

TEST_CASE(
    "report: where every number of workers is past the planned schedule's knee, the fastest one's counts") {
  const support::TemporaryFolder folder;
  const std::string page = (folder.path() / "r.html").string();
  // The knee of "fusewise" is a single worker, that of "fusewise-dear", which the advice names, 64.
  REQUIRE(run_program({"report", "resnet50-v100", "-o", page}).exit_code == 0);
  const std::string text = core::read_file(page);
  const std::size_t advice = text.find("knee");
  REQUIRE(advice != std::string::npos);
  CAPTURE(text.substr(advice - 200, 400));
  CHECK(text.find(R"("plan":{"workers":64,"schedule":"fusewise")") != std::string::npos);
}

TEST_CASE("plan: a schedule whose name is the beginning of the scenario's is said to be another") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "s.json").string();
  core::write_file(file,
                   R"({"format": "fusewise.scenario", "version": 1, "workers": 4, "profile": "resnet50-v100",
    "network": "v100-10gbe", "schedules": ["wfbp", {"name": "hsdp", "shard_workers": 2}]})");
  const std::string warning =
      "--schedule hsdp: the schedule of that name, not the scenario's 'hsdp shard_workers 2'";
  CHECK(support::run_program({"plan", file, "--schedule", "hsdp"}).err.find(warning) != std::string::npos);
  CHECK(support::run_program({"plan", file, "--schedule", "hsdp shard_workers 2"}).err.find("--schedule") ==
        std::string::npos);
  CHECK(support::run_program({"plan", file, "--schedule", "wfbp"}).err.find("--schedule") ==
        std::string::npos);
}

}  // namespace
