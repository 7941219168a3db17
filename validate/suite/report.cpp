#include "validate/suite/report.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"

namespace suite {
namespace {

using core::percent;
using nlohmann::ordered_json;

bool was_run(const Row& row) { return row.measured_us.value > 0; }

std::string ms(double us) { return fmt::format("{:.2f}", us / 1e3); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
std::string percent(const std::optional<double>& share) { return share ? signed_percent(*share) : ""; }

std::string verdict(const Row& row) {
  std::string out(name(row.verdict));
  if (row.verdict == Verdict::not_judged) out += ": " + row.why;
  return row.of.attempts > 1 ? fmt::format("{} (attempt {})", out, row.of.attempts) : out;
}

const std::vector<std::string>& header() {
  static const std::vector<std::string> kHeader = {"group", "plan", "compute", "predicted ms", "measured ms",
                                                   "error", "95 %", "null",    "alpha-beta",   "verdict"};
  return kHeader;
}

std::vector<std::string> cells(const Row& row) {
  const bool shown = was_run(row);
  return {core::one_line(row.of.group),
          core::one_line(row.of.name),
          row.of.compute,
          ms(row.predicted_us),
          shown ? ms(row.measured_us.value) : "",
          shown ? signed_percent(row.error) : "",
          shown ? fmt::format("{:+.1f} .. {:+.1f}", 100 * row.error_low, 100 * row.error_high) : "",
          percent(row.null_error),
          percent(row.alpha_beta_error),
          verdict(row)};
}

std::string mean_line(std::string_view what, const Errors& errors, std::string_view bound) {
  if (errors.cases == 0) return "";
  return fmt::format("{}: mean error {}, worst {}, of {} case{}{}\n", what, percent(errors.mean),
                     percent(errors.worst), errors.cases, errors.cases == 1 ? "" : "s", bound);
}

std::string ranking_line(const Ranking& ranking) {
  if (ranking.verdict == Verdict::not_judged)
    return fmt::format("{}: ranking not judged\n", core::one_line(ranking.group));
  if (ranking.predicted_best == ranking.measured_best)
    return fmt::format("{}: '{}', predicted best, is\n", core::one_line(ranking.group),
                       core::one_line(ranking.predicted_best));
  return fmt::format("{}: '{}', predicted best, takes {} longer than '{}'\n", core::one_line(ranking.group),
                     core::one_line(ranking.predicted_best), percent(ranking.loss),
                     core::one_line(ranking.measured_best));
}

std::vector<std::string> means(const Report& report, const Tolerance& tolerance) {
  const auto at_most = [](double share) { return fmt::format(" (at most {})", percent(share)); };
  std::vector<std::string> out = {
      mean_line("dense plans", report.dense, at_most(tolerance.mean)),
      mean_line("compressed and sparse plans", report.lossy, at_most(tolerance.lossy_mean)),
      mean_line("where plans differ by over 5 %: ours", report.ours_where_plans_differ, ""),
      mean_line("  null, the better of measured WFBP and one group", report.null_where_plans_differ, ""),
      mean_line("  plain alpha-beta model", report.alpha_beta_where_plans_differ, "")};
  std::erase(out, "");
  return out;
}

ordered_json json_of(const Errors& errors) {
  return {{"cases", errors.cases}, {"mean", errors.mean}, {"worst", errors.worst}};
}

ordered_json json_of(const Row& row) {
  ordered_json runs = ordered_json::array();
  for (const CaseRun& run : row.of.runs) {
    ordered_json& into = runs.emplace_back(ordered_json{{"predicted_us", run.predicted_us}});
    if (run.alpha_beta_us) into["alpha_beta_us"] = *run.alpha_beta_us;
    into["iterations_us"] = run.iterations_us;
    into["noise"] = run.noise;
  }
  ordered_json out = {{"group", row.of.group},        {"plan", row.of.name},
                      {"compute", row.of.compute},    {"is_dense", row.of.is_dense},
                      {"verdict", name(row.verdict)}, {"predicted_us", row.predicted_us}};
  if (row.alpha_beta_us) out["alpha_beta_us"] = *row.alpha_beta_us;
  if (was_run(row)) {
    out["measured_us"] = row.measured_us.value;
    out["interval_us"] = {row.measured_us.min, row.measured_us.max};
    out["error"] = row.error;
    out["error_interval"] = {row.error_low, row.error_high};
  }
  if (row.null_error) out["null_error"] = *row.null_error;
  if (row.alpha_beta_error) out["alpha_beta_error"] = *row.alpha_beta_error;
  out["attempts"] = row.of.attempts;
  if (!row.why.empty()) out["not_judged_because"] = row.why;
  out["runs"] = std::move(runs);
  return out;
}

ordered_json json_of(const Ranking& ranking) {
  ordered_json out = {{"group", ranking.group}, {"verdict", name(ranking.verdict)}};
  if (ranking.verdict == Verdict::not_judged) return out;
  out["predicted_best"] = ranking.predicted_best;
  out["measured_best"] = ranking.measured_best;
  out["loss"] = ranking.loss;
  return out;
}

template <typename Items>
ordered_json list_of(const Items& items) {
  ordered_json out = ordered_json::array();
  for (const auto& each : items) out.push_back(json_of(each));
  return out;
}

/// Escapes '|', which ends a cell in Markdown.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

}  // namespace

std::string summary(const Report& report) {
  std::size_t passed = 0;
  for (const Row& row : report.rows) passed += row.verdict == Verdict::passed ? 1 : 0;
  const std::size_t failed = report.rows.size() - report.not_judged - passed;
  return fmt::format("{} cases: {} passed, {} failed, {} not judged; {}", report.rows.size(), passed, failed,
                     report.not_judged,
                     report.faults.empty() ? std::string("nothing judged is outside its tolerance")
                                           : fmt::format("{} outside tolerance", report.faults.size()));
}

std::string report_table(const Report& report, const Tolerance& tolerance, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {header()};
  for (const Row& row : report.rows) rows.push_back(cells(row));
  std::string out = core::aligned(rows, {0, 1, 2, 9}, width) + '\n';
  for (const Ranking& each : report.rankings) out += ranking_line(each);
  for (const std::string& line : means(report, tolerance)) out += line;
  return out + summary(report) + '\n';
}

std::string report_json(const Report& report, const Tolerance& tolerance, const ReportInfo& about) {
  return core::json_text({{"format", "fusewise.accuracy"},
                          {"version", 1},
                          {"suite", about.suite},
                          {"date", about.date},
                          {"machine", about.machine},
                          {"versions", about.versions},
                          {"command", about.command},
                          {"places", about.places},
                          {"tolerance",
                           {{"mean", tolerance.mean},
                            {"worst", tolerance.worst},
                            {"lossy_mean", tolerance.lossy_mean},
                            {"min_null_error_ratio", tolerance.null_times},
                            {"ranking", tolerance.ranking}}},
                          {"cases", list_of(report.rows)},
                          {"rankings", list_of(report.rankings)},
                          {"dense", json_of(report.dense)},
                          {"lossy", json_of(report.lossy)},
                          {"where_plans_differ",
                           {{"ours", json_of(report.ours_where_plans_differ)},
                            {"null", json_of(report.null_where_plans_differ)},
                            {"alpha_beta", json_of(report.alpha_beta_where_plans_differ)}}},
                          {"not_judged", report.not_judged},
                          {"failures", report.faults}});
}

std::string report_page(const Report& report, const Tolerance& tolerance, const ReportInfo& about) {
  std::string out = fmt::format(
      "# Accuracy of predictions\n"
      "Written by `{}` on {}.\n{}\n{}\n\n"
      "Every prediction was on disk before its run began. *error* is predicted over measured, less 1: the "
      "median over\n"
      "iterations, each by the prediction of its own run; *95 %* is what that median leaves open; *null* is "
      "the error of\n"
      "one who says that every plan takes as long as the better of measured WFBP and one group; *alpha-beta* "
      "that of one\n"
      "straight line instead of measured curves. A run beside which the machine was not quiet is *not "
      "judged*, whatever\n"
      "came out.\n\n",
      about.command, about.date, core::one_line(about.machine), core::one_line(about.versions));
  for (const std::string& each : about.places) out += fmt::format("* {}\n", core::one_line(each));
  out += fmt::format("\n| {} |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
                     fmt::join(header(), " | "));
  for (const Row& row : report.rows) {
    std::vector<std::string> line = cells(row);
    for (std::string& each : line) each = cell(each);
    out += fmt::format("| {} |\n", fmt::join(line, " | "));
  }
  out += '\n';
  for (const std::string& line : means(report, tolerance)) out += "* " + line;
  for (const Ranking& each : report.rankings) out += "* " + ranking_line(each);
  out += fmt::format("\n{}.\n", summary(report));
  if (!report.faults.empty()) out += "\nOutside its tolerance:\n\n";
  for (const std::string& each : report.faults) out += fmt::format("* {}\n", core::one_line(each));
  return out;
}

}  // namespace suite
