// fusewise validate through the real program: the page that it writes of the papers, and its exit codes.

#include <cstdlib>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

/// A paper whose one figure, a number of groups, is 1.
std::string paper_that_says(const std::string& published) {
  return R"({"format": "fusewise.paper", "version": 1, "name": "p", "title": "t", "source": "s",
    "scenarios": [{"name": "a", "scenario": ")" +
         (support::source_dir() / "scenarios/googlenet-k80.json").string() +
         R"("}], "figures": [{"name": "f", "where": "Table I", "what": "groups", "read": "table", "published": )" +
         published + R"(, "decimals": 0, "judge": "exact",
      "quantity": {"kind": "groups", "scenario": "a", "workers": 4, "schedule": "sync-easgd"}}]})";
}

TEST_CASE("golden: docs/reproduction.md is what comes out of the papers") {
  const support::TemporaryFolder folder;
  const std::string page = folder / "page.md";
  const Outcome outcome = run_program({"validate", "validate/papers", "-o", page});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  const auto kept = support::source_dir() / "docs" / "reproduction.md";
  if (std::getenv("FUSEWISE_UPDATE_GOLDEN") != nullptr) core::write_file(kept, core::read_file(page));
  CHECK(core::read_file(page) == core::read_file(kept));
}

TEST_CASE("validate: what is outside its tolerance is printed, and ends with exit code 3") {
  const support::TemporaryFolder folder;
  const Outcome good = run_program({"validate", folder.put("good.json", paper_that_says("1")), "--json"});
  CHECK(good.exit_code == 0);
  CHECK(good.err.empty());
  CHECK(json::parse(good.out).at("papers").at(0).at("figures").at(0).at("verdict") == "reproduced");
  const Outcome bad = run_program({"validate", folder.put("bad.json", paper_that_says("2")), "--json"});
  CHECK(bad.exit_code == 3);
  CHECK(bad.err == "p: 'f' is not reproduced, and its file does not say why\n");
  CHECK(json::parse(bad.out).at("papers").at(0).at("figures").at(0).at("verdict") == "not reproduced");
}

TEST_CASE("validate: wrong usage and input") {
  const support::TemporaryFolder folder;
  CHECK(run_program({"validate"}).exit_code == 2);
  const Outcome none = run_program({"validate", folder.path().string()});
  CHECK(none.exit_code == 2);
  CHECK(none.out.empty());
  CHECK(none.err == folder.path().string() + ": /: expected a folder with files *.paper.json, got none\n");
  CHECK(run_program({"validate", (folder / "missing.json").string()}).exit_code == 2);
}

TEST_CASE("validate: a plan may send the tensors of a layer in another order than its model has them") {
  const support::TemporaryFolder folder;
  const std::string model = folder.put("model.json", R"({
    "format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 2, "dtype": "float32",
    "input": [{"name": "x", "shape": [4]}],
    "layers": [{"name": "fc", "kind": "linear", "out_features": 2}, {"name": "loss", "kind": "cross_entropy"}]})");
  const auto run_plan = [&](const std::string& tensors) {
    return run_program({"validate", folder.put("plan.json", R"({
      "format": "fusewise.plan", "version": 1, "model": "m", "workers": 2, "pipeline": "wfbp",
      "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "exact",
      "predicted": {"iteration_us": 1, "lower_bound_us": 1, "compared_with": []},
      "groups": [{"tensors": [)" + tensors + R"(], "bytes": 40}]})"),
                        "--layers", model, "--iterations", "2", "--warm-up", "0", "--tolerance", "1000"});
  };
  for (const char* tensors : {R"("fc.bias", "fc.weight")", R"("fc.weight", "fc.bias")"}) {
    CAPTURE(tensors);
    const Outcome outcome = run_plan(tensors);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 0);
  }
  const Outcome unknown = run_plan(R"("fc.bias", "fc.other")");
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("plan.json: /groups/0/tensors/1: expected \"fc.weight\"") != std::string::npos);
}

TEST_CASE("validate: layers that are computed for real are not computed twice") {
  const support::TemporaryFolder folder;
  const std::string model = (support::source_dir() / "models" / "vgg16.json").string();
  const Outcome twice = run_program(
      {"validate", folder.put("scenario.json", R"({"format": "fusewise.scenario", "version": 1, "workers": 2,
        "profile": {"estimate": ")" + model + R"(", "device": "v100"}, "schedules": ["wfbp"],
        "network": "a100-nvlink-8", "recompute": {"layers": 2}})"),
       "--layers", model});
  CHECK(twice.exit_code == 2);
  CHECK(twice.err ==
        "--layers: expected a scenario without recompute, as no layer is computed twice here, got one\n");
}

}  // namespace
