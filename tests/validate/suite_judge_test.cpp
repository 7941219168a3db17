// The report of a suite about predicted and measured times: errors, rankings, two simpler predictors, and
// cases that are not judged because the machine was noisy.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "validate/suite/judge.hpp"
#include "validate/suite/report.hpp"

namespace {

using suite::Case;
using suite::Part;
using suite::Verdict;

suite::CaseRun run_of(double predicted_us, double measured_us) {
  return {.predicted_us = predicted_us,
          .alpha_beta_us = predicted_us / 2,
          .iterations_us = std::vector<double>(20, measured_us),
          .noise = {}};
}

Case plan(const std::string& name, double predicted_us, double measured_us, Part part = Part::any) {
  return {.group = "g",
          .name = name,
          .compute = "waiting",
          .part = part,
          .runs = {run_of(predicted_us, measured_us)}};
}

bool mentions(const std::vector<std::string>& faults, const std::string& words) {
  for (const std::string& each : faults)
    if (each.find(words) != std::string::npos) return true;
  return false;
}

TEST_CASE("suite: errors of ours, of the null predictor and of the plain model") {
  const std::vector<Case> cases = {plan("wfbp", 2020, 2000, Part::wfbp),
                                   plan("one", 1000, 1000, Part::one_group),
                                   plan("exact", 792, 800, Part::exact)};
  const suite::Report report = suite::judge(cases, {});
  CHECK(report.rows[0].error == doctest::Approx(0.01));
  CHECK(report.rows[2].error == doctest::Approx(-0.01));
  CHECK(*report.rows[0].null_error == doctest::Approx(-0.5));  // one group's 1000 for everything
  CHECK(*report.rows[1].null_error == doctest::Approx(0));
  CHECK(*report.rows[2].null_error == doctest::Approx(0.25));
  CHECK(*report.rows[1].alpha_beta_error == doctest::Approx(-0.5));
  CHECK(report.dense.cases == 3);
  CHECK(report.dense.mean == doctest::Approx(0.02 / 3));
  CHECK(report.dense.worst == doctest::Approx(0.01));
  CHECK(report.null_where_plans_differ.mean == doctest::Approx(0.25));
  CHECK(report.faults.empty());
  REQUIRE(report.rankings.size() == 1);
  CHECK(report.rankings[0].measured_best == "exact");
  CHECK(report.rankings[0].verdict == Verdict::passed);
  CHECK(suite::summary(report) ==
        "3 cases: 3 passed, 0 failed, 0 not judged; nothing judged is outside its tolerance");
}

TEST_CASE("suite: each way to be outside the tolerance has its line") {
  CHECK(mentions(suite::judge({{plan("a", 1070, 1000)}}, {}).faults, "'a' is off by 7.0 %, over 6.0 %"));
  CHECK(mentions(suite::judge({{plan("a", 1030, 1000)}}, {}).faults,
                 "mean error of dense cases is 3.0 %, over 2.0 %"));
  Case lossy = plan("a", 1030, 1000);
  lossy.is_dense = false;
  CHECK(suite::judge({{lossy}}, {}).faults.empty());
  lossy.runs[0].predicted_us = 1050;
  CHECK(mentions(suite::judge({{lossy}}, {}).faults, "mean error of compressed and sparse cases is 5.0 %"));
  // b is predicted best, and measured 2 % slower.
  CHECK(mentions(suite::judge({{plan("a", 1010, 1000), plan("b", 1005, 1020)}}, {}).faults,
                 "'b', predicted best, takes 2.0 % longer than 'a'"));
  CHECK(suite::judge({{plan("a", 1010, 1000), plan("b", 1005, 1009)}}, {}).faults.empty());
  // A predicted gain of 5 % and more must be measured.
  CHECK(mentions(
      suite::judge({{plan("ddp", 1000, 1000, Part::ddp), plan("fusewise", 950, 1001, Part::exact)}}, {})
          .faults,
      "'fusewise' was predicted 5.0 % faster than 'ddp' and is not"));
  // A predictor must be better than the null predictor.
  CHECK(mentions(
      suite::judge({{plan("wfbp", 1058, 1000, Part::wfbp), plan("one", 1050, 1100, Part::one_group)}}, {})
          .faults,
      "the null predictor is off by 4.5 %, less than 2 times our"));
}

TEST_CASE("suite: what a noisy run measured is shown and not judged, and neither is its group's ranking") {
  std::vector<Case> cases = {plan("a", 5000, 1000), plan("b", 1000, 1000)};
  cases[0].runs[0].noise = {"a fixed loop spreads by 30 %"};
  const suite::Report report = suite::judge(cases, {});
  CHECK(report.rows[0].verdict == Verdict::not_judged);
  CHECK(report.rows[0].measured_us.value == 1000);
  CHECK(report.rows[1].verdict == Verdict::passed);
  CHECK(report.not_judged == 1);
  CHECK(report.dense.cases == 1);
  CHECK(report.rankings[0].verdict == Verdict::not_judged);
  CHECK(report.faults.empty());
  CHECK(suite::report_table(report, {}).find("not judged: a fixed loop spreads by 30 %") !=
        std::string::npos);

  cases[0].runs.push_back(run_of(5000, 5000));  // a quiet one counts alone
  CHECK(suite::judge(cases, {}).rows[0].verdict == Verdict::passed);
  CHECK(suite::judge(cases, {}).rows[0].measured_us.value == 5000);
}

TEST_CASE("suite: each run is held against the prediction that was made before it") {
  // The machine was once twice as slow, during calibration and during the run.
  Case moody = plan("a", 1010, 1000);
  moody.runs.push_back(run_of(2020, 2000));
  moody.runs.push_back(run_of(1010, 1000));
  suite::Row row = suite::judge({{moody}}, {}).rows[0];
  CHECK(row.error == doctest::Approx(0.01));
  CHECK(row.error_low == doctest::Approx(0.01));
  CHECK(row.error_high == doctest::Approx(0.01));
  CHECK(*row.alpha_beta_error == doctest::Approx(-0.495));
  CHECK(row.predicted_us == doctest::Approx(1010));
  CHECK(row.measured_us.value == doctest::Approx(1000));
  // Errors of +1, +4 and -2 %, each of 20 iterations: the median is in the middle of them.
  moody.runs[1].predicted_us = 2080;
  moody.runs[2].predicted_us = 980;
  row = suite::judge({{moody}}, {}).rows[0];
  CHECK(row.error == doctest::Approx(0.01));
  CHECK(row.predicted_us == doctest::Approx(1010));
  // Only the first run counts if the others are noisy.
  moody.runs[0].noise = moody.runs[2].noise = {"noise"};
  CHECK(suite::judge({{moody}}, {}).rows[0].error == doctest::Approx(0.04));
}

TEST_CASE("suite: a page says how it came about, and holds every case") {
  const suite::Report report = suite::judge({{plan("a|b", 1010, 1000), plan("c", 3000, 1000)}}, {});
  const std::string page = suite::report_page(report, {},
                                              {.suite = "s",
                                               .date = "2026-01-02",
                                               .machine = "2 cores",
                                               .versions = "fusewise 1",
                                               .command = "fusewise validate s.json",
                                               .places = {"g: 4 processes"}});
  for (const char* words :
       {"fusewise validate s.json", "2026-01-02", "2 cores", "| g | a\\|b | waiting | 1.01 | 1.00 | +1.0 %",
        "| failed |", "* g: 4 processes", "g: 'c' is off by 200.0 %"})
    CHECK_MESSAGE(page.find(words) != std::string::npos, words);
}

}  // namespace
