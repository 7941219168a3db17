// fusewise report: the files that it reads and those that it refuses.

#include <unistd.h>

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

/// What the page shows.
nlohmann::json data_of(const std::string& page) {
  const std::string text = core::read_file(page), begin = "id=\"data\">";
  const std::size_t from = text.find(begin) + begin.size();
  return nlohmann::json::parse(text.substr(from, text.find("</script>", from) - from));
}

TEST_CASE("report: an execution trace, packed or not, is refused with the command that reads it") {
  const support::TemporaryFolder folder;
  const std::string packed = (support::source_dir() / "tests/data/ranks/resnet-2gpu-et.json.gz").string();
  const std::string plain = folder / "et.json";
  REQUIRE(std::system(("gzip -dc '" + packed + "' > '" + plain + "'").c_str()) == 0);
  for (const std::string& file : {packed, plain}) {
    const Outcome outcome = run_program({"report", file, "-o", folder / "r.html"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == file +
                             ": /: expected a trace of the PyTorch profiler, got a PyTorch execution trace, "
                             "which holds no times (fusewise import " +
                             file + " prints its buckets)\n");
    CHECK(run_program({"import", file}).exit_code == 0);
  }
}

TEST_CASE("report: a folder with traces needs no '/' behind its name") {
  const support::TemporaryFolder folder;
  const auto change_folder = [] {
    if (::chdir("tests/data/ranks") != 0) ::_exit(126);
  };
  for (const char* const name : {"dlrm/", "dlrm"}) {
    const Outcome outcome = run_program({"report", name, "-o", folder / "r.html"}, change_folder);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("report: results that are packed with gzip give the page of the plain file") {
  const support::TemporaryFolder folder;
  const std::string plain =
      folder.put("results.json", run_program({"simulate", "googlenet-k80", "--json"}).out).string();
  REQUIRE(std::system(("gzip -k '" + plain + "'").c_str()) == 0);
  CHECK(run_program({"report", plain, "-o", folder / "plain.html"}).exit_code == 0);
  CHECK(run_program({"report", plain + ".gz", "-o", folder / "packed.html"}).exit_code == 0);
  CHECK(core::read_file(folder / "packed.html") == core::read_file(folder / "plain.html"));
}

TEST_CASE("report: the rows that a sweep has written give the heat map of its scenario") {
  const support::TemporaryFolder folder;
  const auto sweep_of = [&](const std::string& input) {
    REQUIRE(run_program({"report", input, "-o", folder / "r.html"}).exit_code == 0);
    return data_of(folder / "r.html").at("sweep");
  };
  const std::string golden = (support::source_dir() / "tests/golden/resnet50-v100-sweep.sweep").string();
  const nlohmann::json computed = sweep_of("resnet50-v100-sweep");
  CHECK(computed.at("iteration_us").size() == 144);
  CHECK(sweep_of(golden + ".csv") == computed);
  CHECK(sweep_of(golden + ".jsonl") == computed);
  // A part of the rows, in another order: the last point of the product is missing.
  const std::string header =
      "point,workers,schedule,iteration_us,exposed_communication_us,throughput_samples_per_s,scaling_"
      "efficiency\n";
  const std::string some =
      folder.put("some.csv", header + "3,8,b,40,4,400,0.4\n0,4,a,10,1,100,0.1\n1,4,b,20,2,200,0.2\n")
          .string();
  CHECK(sweep_of(some) == nlohmann::json::parse(R"({
    "axes": [{"name": "workers", "values": ["8", "4"]}, {"name": "schedule", "values": ["b", "a"]}],
    "iteration_us": [40, null, 20, 10], "exposed_communication_us": [4, null, 2, 1],
    "throughput_samples_per_s": [400, null, 200, 100], "scaling_efficiency": [0.4, null, 0.2, 0.1]})"));
  std::string many = header;
  for (int i = 1; i <= 20'000; ++i) many += fmt::format("{0},{0},a,123456.78901234567,1e-300,1,1\n", i);
  const std::string page = folder / "r.html";
  CHECK(run_program({"report", folder.put("many.csv", many).string(), "-o", page}).exit_code == 0);
  CHECK(core::read_file(page).size() <= 3'000'000);
  const std::string more = folder.put("more.csv", many + "0,0,a,1,1,1,1\n").string();
  const Outcome outcome = run_program({"report", more});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err ==
        more +
            ":20002: expected at most 20000 rows, as one page shows no more, got 20001: sweep fewer "
            "values, or take the rows of one schedule\n");
}

TEST_CASE("report: rows of a sweep that are wrong are refused with their line") {
  const support::TemporaryFolder folder;
  const std::string header =
      "workers,schedule,iteration_us,exposed_communication_us,throughput_samples_per_s,scaling_efficiency\n";
  const struct {
    std::string name, text, message;
  } cases[] = {{"s.csv", "", ": /: expected rows of fusewise sweep, got an empty file"},
               {"s.csv", header, ": /: expected rows of fusewise sweep, got only their header"},
               {"s.csv", "point,seed\n0,1\n", ":1: expected a column workers, got 'point,seed'"},
               {"s.csv", header + "4,a,1,1,1,1\n8,a,1,1,1\n", ":3: expected 6 fields, got 5"},
               {"s.csv", header + "4,a,1,1,1,much\n",
                ":2: expected scaling_efficiency, a number from 0 to 1.79769313486232e+308, got 'much'"},
               {"s.csv", header + "4,a,1,1,1,1\n\n4.0,a,2,1,1,1\n",
                ":4: expected a point that no other row has, got that of line 2"},
               {"rows", R"({"point":0,"workers":4)",
                R"(:1: expected a JSON object, a row of sweep --json-lines, got '{"point":0,"workers":4')"},
               {"s.jsonl", "[1]", ":1: /: expected an object, got an array of 1 item"},
               {"s.jsonl", R"({"workers":4,"schedule":"a","iteration_us":"long"})",
                R"(:1: /iteration_us: expected a number from 0 to 1.79769313486232e+308, got "long")"}};
  for (const auto& [name, text, message] : cases) {
    const std::string file = folder.put(name, text).string();
    const Outcome outcome = run_program({"report", file, "-o", folder / "r.html"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == file + message + '\n');
  }
}

/// Two workers, of which the second is further off, and a collective of each.
const std::string kLive =
    R"({"format": "fusewise.live-validation", "version": 1, "where": "2 processes", "plans": [{"name": "ours",
 "iteration": {"quantity": "iteration", "predicted_us": 9500, "measured_us": 10000, "min_us": 9990, "max_us": 10030, "error": -0.05},
 "quantities": [
  {"quantity": "forward", "worker": 0, "predicted_us": 2000, "measured_us": 2000, "min_us": 1990, "max_us": 2030, "error": 0},
  {"quantity": "exposed communication", "worker": 0, "predicted_us": 2900, "measured_us": 3000, "min_us": 2990, "max_us": 3030, "error": -0.01},
  {"quantity": "all-reduce 1 start", "worker": 0, "predicted_us": 3000, "measured_us": 3100, "min_us": 3090, "max_us": 3130, "error": -0.01},
  {"quantity": "all-reduce 1 end", "worker": 0, "predicted_us": 4000, "measured_us": 4500, "min_us": 4490, "max_us": 4530, "error": -0.05},
  {"quantity": "forward", "worker": 1, "predicted_us": 0, "measured_us": 0, "min_us": 0, "max_us": 0, "error": 0},
  {"quantity": "exposed communication", "worker": 1, "predicted_us": 2800, "measured_us": 3000, "min_us": 2990, "max_us": 3030, "error": -0.02},
  {"quantity": "all-reduce 1 start", "worker": 1, "predicted_us": 3000, "measured_us": 3000, "min_us": 2990, "max_us": 3030, "error": 0},
  {"quantity": "all-reduce 1 end", "worker": 1, "predicted_us": 4000, "measured_us": 4100, "min_us": 4090, "max_us": 4130, "error": -0.01}]}]})";

TEST_CASE("report: live runs are drawn beside their predictions, with the collectives of the first worker") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("live.json", kLive).string();
  REQUIRE(run_program({"report", file, "-o", folder / "r.html"}).exit_code == 0);
  const nlohmann::json data = data_of(folder / "r.html");
  CHECK(data.at("kind") == "live-validation");
  CHECK(data.at("about") == "Measured with 2 processes.");
  CHECK(data.at("accuracy") == nlohmann::json::parse(R"([
    {"group": "ours", "case": "iteration", "is_part": false, "predicted_us": 9500, "measured_us": 10000,
     "interval_us": [9990, 10030], "of_us": 10000},
    {"group": "ours", "case": "forward, worker 0", "is_part": true, "predicted_us": 2000, "measured_us": 2000,
     "interval_us": [1990, 2030], "of_us": 10000},
    {"group": "ours", "case": "exposed communication, worker 1", "is_part": true, "predicted_us": 2800,
     "measured_us": 3000, "interval_us": [2990, 3030], "of_us": 10000}])"));
  CHECK(data.at("live") == nlohmann::json::parse(R"([{"plan": "ours", "worker": 0, "sides": [
    {"name": "measured", "iteration_us": 10000,
     "collectives": [{"name": "all-reduce 1", "start_us": 3100, "end_us": 4500}]},
    {"name": "predicted", "iteration_us": 9500,
     "collectives": [{"name": "all-reduce 1", "start_us": 3000, "end_us": 4000}]}]}])"));
}

TEST_CASE(
    "report: live runs whose collectives name no worker have no lanes, rather than one of an invented "
    "worker") {
  const support::TemporaryFolder folder;
  nlohmann::json live = nlohmann::json::parse(kLive);
  for (nlohmann::json& each : live.at("plans").at(0).at("quantities")) each.erase("worker");
  const std::string file = folder.put("live.json", live.dump()).string();
  REQUIRE(run_program({"report", file, "-o", folder / "r.html"}).exit_code == 0);
  CHECK_FALSE(data_of(folder / "r.html").contains("live"));
}

TEST_CASE("report: live runs that are wrong are refused, as show refuses them") {
  const support::TemporaryFolder folder;
  const auto refused = [&](const std::string& pointer, const nlohmann::json& value,
                           const std::string& message) {
    nlohmann::json wrong = nlohmann::json::parse(kLive);
    wrong[nlohmann::json::json_pointer(pointer)] = value;
    const std::string file = folder.put("live.json", wrong.dump()).string();
    for (const char* command : {"report", "show"}) {
      const Outcome outcome = run_program({command, file});
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.err == file + ": " + message + '\n');
    }
  };
  refused("/plans", nlohmann::json::array(),
          "/plans: expected an array of at least 1 item, got an array of 0 items");
  refused("/plans/0/iteration/measured_us", 0,
          "/plans/0/iteration/measured_us: expected a number above 0, got 0");
  refused("/plans/0/quantities/2/worker", -1,
          "/plans/0/quantities/2/worker: expected an integer from 0 to 4294967295, got -1");
}

}  // namespace
