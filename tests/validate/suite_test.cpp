// The format of a suite's file, and that the bundled suites can be read.

#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "validate/suite/suite.hpp"

namespace {

using core::Field;

std::string suite_with(const std::string& group, const std::string& more = "") {
  return R"({"format": "fusewise.suite", "version": 1, "name": "s", )" + more +
         R"("groups": [{"name": "g", "workers": 4,
    "line_rate_gbps": 1, )" +
         group + "}]}";
}

const std::string kProfile =
    R"("profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1,
  "dtype": "float32", "device": "none", "origin": {"kind": "estimated", "source": ""},
  "layers": [{"name": "a", "kind": "k", "forward_us": 100, "backward_us": 200, "tensors": [{"name": "w", "elements": 1000}]}]})";

suite::Suite read(const std::string& text) { return suite::read_suite(Field::parse(text, "s.json")); }

std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("suite: plans, what they are in their group, and scaled profiles") {
  const suite::Suite got = read(suite_with(
      kProfile +
          R"(, "scale": {"gradients": 0.0101, "compute": 2}, "stragglers": [{"worker": 1, "slowdown": 1.5}],
        "schedules": ["wfbp", {"name": "one group", "schedule": {"fusion": "all"}}, "ddp", "fusewise", "fusewise-dear",
                      {"pipeline": "wfbp", "compression": "fp16"}])",
      R"("iterations": 30, "warm_up": 2, "tolerance": {"worst": 0.1}, )"));
  REQUIRE(got.groups.size() == 1);
  const suite::Group& group = got.groups[0];
  REQUIRE(group.plans.size() == 6);
  CHECK(got.tolerance.worst == 0.1);
  CHECK(got.tolerance.mean == 0.02);
  CHECK(group.place.workers == 4);
  CHECK(group.place.bits_per_second == 1e9);
  const auto part = [&](std::size_t i) { return group.plans[i].part; };
  CHECK(part(0) == suite::Part::wfbp);
  CHECK(part(1) == suite::Part::one_group);
  CHECK(group.plans[1].name == "one group");
  CHECK(part(2) == suite::Part::ddp);
  CHECK(part(3) == suite::Part::exact);
  CHECK(part(4) == suite::Part::any);
  CHECK(part(5) == suite::Part::any);
  CHECK_FALSE(group.plans[5].is_dense);
  const live::RunSpec& spec = group.plans[0].spec;
  CHECK(spec.iterations == 30);
  CHECK(spec.warm_up == 2);
  CHECK(spec.profile.layers[0].tensors[0].elements == 10);
  CHECK(spec.profile.layers[0].forward_us == 200);
  CHECK(spec.conditions.stragglers.size() == 1);
}

TEST_CASE("suite: a program alone is one, too") {
  const support::TemporaryFolder folder;
  const suite::Suite got =
      suite::read_suite(Field::load(folder.put("s.json",
                                               R"({"format": "fusewise.suite", "version": 1, "name": "s",
          "programs": [{"name": "p", "script": "s.json", "line_rate_gbps": 2.5, "workers": 3, "limit_s": 7}]})")));
  CHECK(got.groups.empty());
  REQUIRE(got.programs.size() == 1);
  CHECK(got.programs[0].script == folder / "s.json");
  CHECK(got.programs[0].bits_per_second == 2.5e9);
  CHECK(got.programs[0].workers == 3);
  CHECK(got.programs[0].limit == std::chrono::seconds(7));
}

TEST_CASE("suite: what is wrong with a file is one line") {
  const std::string plans = R"(, "schedules": ["wfbp"])";
  CHECK(refusal(suite_with(kProfile + R"(, "schedules": ["wfpb"])"))
            .find("s.json: /groups/0/schedules/0: expected one of") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "schedules": ["wfbp", "wfbp"])"))
            .find("s.json: /groups/0/schedules/1: expected a plan with a name of its own") == 0);
  CHECK(refusal(suite_with(plans.substr(2))).find("s.json: /groups/0") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "stragglers": [{"worker": 4, "slowdown": 2}])" + plans))
            .find("s.json: /groups/0/stragglers/0/worker: expected") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "scale": {"gradients": 0})" + plans))
            .find("s.json: /groups/0/scale/gradients: expected a factor above 0") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "batch_size": 4)" + plans))
            .find("s.json: /groups/0/batch_size: expected none without a model") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "computing_workers": 1)" + plans))
            .find("s.json: /groups/0/computing_workers: expected none without a model") == 0);
  CHECK(refusal(suite_with(kProfile + R"(, "nodes": {"workers_per_node": 3, "between_gbps": 1})" + plans))
            .find("s.json: /groups/0/nodes/workers_per_node: expected a number that divides") == 0);
  CHECK(refusal(suite_with(kProfile + plans, R"("tolerance": {"best": 1}, )"))
            .find("s.json: /tolerance/best: expected a key among") == 0);
  CHECK(refusal(suite_with(kProfile + plans,
                           R"("programs": [{"name": "g", "script": "none.py", "line_rate_gbps": 1}], )"))
            .find("s.json: /programs/0/script: expected a file") == 0);
  CHECK(refusal(suite_with(kProfile + plans, R"("programs": [], )")).find("s.json: /programs: expected") ==
        0);
  CHECK(refusal(R"({"format": "fusewise.suite", "version": 1, "name": "s"})") ==
        "s.json: /groups: expected a value, got nothing");
  // No network has two levels here: this is detected before anything runs.
  CHECK(refusal(suite_with(kProfile + R"(, "collectives": {"all_reduce": "two_level"})" + plans))
            .find("s.json: /groups/0/workers: expected") == 0);
}

TEST_CASE("suite: the bundled ones hold what they promise") {
  std::size_t dense = 0;
  std::size_t computed = 0;
  std::size_t all = 0;
  std::set<std::string> models;
  for (const auto& entry :
       std::filesystem::directory_iterator(support::source_dir() / "validate" / "suites")) {
    if (!entry.is_regular_file()) continue;
    CAPTURE(entry.path().string());
    const suite::Suite got = suite::read_suite(Field::load(entry.path()));
    if (got.name != "full") continue;
    CHECK(got.programs.size() == 1);
    for (const suite::Group& group : got.groups) {
      all += group.plans.size();
      computed += group.compute == "cpu" ? group.plans.size() : 0;
      for (const suite::Plan& plan : group.plans) {
        if (!plan.is_dense || !plan.spec.conditions.stragglers.empty()) continue;
        ++dense;
        models.insert(plan.spec.profile.model);
      }
    }
  }
  CHECK(dense >= 24);
  CHECK(models.size() >= 3);
  CHECK(3 * computed >= all);
}

}  // namespace
