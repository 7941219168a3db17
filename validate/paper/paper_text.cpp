#include "validate/paper/paper_text.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"

namespace validate {
namespace {

using nlohmann::ordered_json;

constexpr std::array<Verdict, 5> kVerdicts = {Verdict::reproduced, Verdict::scored, Verdict::calibrated,
                                              Verdict::shown, Verdict::not_reproduced};

std::string with_unit(const std::string& text, const Figure& figure) {
  return text.empty() || figure.unit.empty() ? text : text + ' ' + figure.unit;
}

std::string published_text(const Figure& figure) {
  const Published& published = figure.published;
  const bool is_number = published.value || published.min || published.max || published.between;
  return is_number ? with_unit(published.text, figure) : published.text;
}

std::string ordered_text(const Figure& figure, Values values) {
  std::ranges::stable_sort(values, [&](const Value& a, const Value& b) {
    return figure.max_is_best ? a.value > b.value : a.value < b.value;
  });
  std::vector<std::string> parts;
  for (const Value& each : values)
    parts.push_back(fmt::format("{} {:.{}f}", each.label, each.value, figure.decimals));
  return fmt::format("{}", fmt::join(parts, figure.max_is_best ? " > " : " < "));
}

std::string ours_text(const FigureResult& result) {
  const Figure& figure = result.figure;
  const Values& ours = result.ours;
  if (ours.empty()) return "none";
  if (figure.published.holds)
    return std::ranges::all_of(ours, [](const Value& each) { return each.value != 0; }) ? "holds"
                                                                                        : "does not hold";
  if (figure.published.between && ours.size() == 2)
    return with_unit(fmt::format("between {:g} and {:g}", ours[0].value, ours[1].value), figure);
  if (!figure.published.order.empty()) return with_unit(ordered_text(figure, ours), figure);
  const std::string low = fmt::format("{:.{}f}", min(ours), figure.decimals);
  const std::string high = fmt::format("{:.{}f}", max(ours), figure.decimals);
  return with_unit(low == high ? low : low + " to " + high, figure);
}

std::string error_text(const FigureResult& result) {
  return result.outcome.error ? fmt::format("{:.1f} %", 100 * *result.outcome.error) : "";
}

std::size_t count(const PaperResult& result, Verdict verdict) {
  return static_cast<std::size_t>(std::ranges::count_if(
      result.figures, [&](const FigureResult& each) { return each.outcome.verdict == verdict; }));
}

std::string counts(const std::vector<PaperResult>& results) {
  std::size_t all = 0;
  std::vector<std::string> parts;
  for (const Verdict verdict : kVerdicts) {
    std::size_t number = 0;
    for (const PaperResult& each : results) number += count(each, verdict);
    all += number;
    parts.push_back(fmt::format("{} {}", number, name(verdict)));
  }
  return fmt::format("{} figure{} of {} paper{}: {}", all, all == 1 ? "" : "s", results.size(),
                     results.size() == 1 ? "" : "s", fmt::join(parts, ", "));
}

std::string score_text(const ScoreResult& result) {
  std::string out = fmt::format("{}: mean error {:.1f} % over {} of {} figures", result.score.what,
                                100 * result.mean_error, result.figures, result.all());
  if (result.calibrated > 0) out += fmt::format(", {} calibrated", result.calibrated);
  if (!result.missing.empty()) out += fmt::format(", {} missing", result.missing.size());
  if (!result.score.max_mean_error) return out + " (shown)";
  return out + fmt::format(" (at most {:.1f} %)", 100 * *result.score.max_mean_error);
}

std::vector<std::string> row_of(const PaperResult& paper, const FigureResult& result) {
  const Figure& figure = result.figure;
  std::vector<std::string> row = {fmt::format("{} {}", paper.paper.name, figure.where),
                                  figure.what,
                                  published_text(figure),
                                  ours_text(result),
                                  error_text(result),
                                  std::string(name(result.outcome.verdict))};
  return row;
}

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : core::one_line(text)) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string inputs_page(const Paper& paper) {
  if (paper.inputs.empty()) return "";
  std::string out = "| input | value | kind | from |\n| --- | ---: | --- | --- |\n";
  for (const Input& each : paper.inputs)
    out += fmt::format("| {} | {} {} | {} | {} |\n", cell(each.what), cell(each.value), cell(each.unit),
                       each.kind, cell(each.from));
  return out + '\n';
}

std::string parameters_page(const Paper& paper) {
  std::string out;
  for (const Parameter& each : paper.parameters)
    out += fmt::format(
        "Free parameter: {}, {} {}, {}. {}\n\n", cell(each.name), cell(each.value), cell(each.unit),
        each.calibrated_on.empty() ? "not fitted"
                                   : fmt::format("calibrated on {}", fmt::join(each.calibrated_on, ", ")),
        cell(each.why));
  return out;
}

std::string figures_page(const PaperResult& result) {
  std::string out =
      "| where | what | read from | published | ours | error | verdict |\n"
      "| --- | --- | --- | --- | --- | ---: | --- |\n";
  for (const FigureResult& each : result.figures) {
    const Figure& figure = each.figure;
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cell(figure.where), cell(figure.what),
                       figure.read, cell(published_text(figure)),
                       each.is_wall_clock ? "(differs from run to run)" : cell(ours_text(each)),
                       each.is_wall_clock ? "" : error_text(each), name(each.outcome.verdict));
  }
  return out + '\n';
}

std::string reasons_page(const PaperResult& result) {
  std::string out;
  for (const FigureResult& each : result.figures)
    if (each.outcome.verdict == Verdict::not_reproduced)
      out += fmt::format("* **{}, {}**: {}\n", cell(each.figure.where), cell(each.figure.what),
                         cell(each.figure.reason));
  return out.empty() ? "" : "Not reproduced:\n\n" + out + '\n';
}

ordered_json json_of(const FigureResult& result) {
  const Figure& figure = result.figure;
  ordered_json ours = ordered_json::array();
  for (const Value& each : result.ours) ours.push_back({{"label", each.label}, {"value", each.value}});
  ordered_json out = {{"name", figure.name},
                      {"where", figure.where},
                      {"what", figure.what},
                      {"read", figure.read},
                      {"published", figure.published.text},
                      {"unit", figure.unit},
                      {"ours", std::move(ours)},
                      {"judge", figure.judge->name}};
  if (result.outcome.error) out["relative_error"] = *result.outcome.error;
  out["verdict"] = name(result.outcome.verdict);
  if (!figure.reason.empty()) out["reason"] = figure.reason;
  if (!result.outcome.fault.empty()) out["failure"] = result.outcome.fault;
  return out;
}

ordered_json json_of(const PaperResult& result) {
  ordered_json figures = ordered_json::array();
  for (const FigureResult& each : result.figures) figures.push_back(json_of(each));
  ordered_json scores = ordered_json::array();
  for (const ScoreResult& each : result.scores) {
    scores.push_back({{"name", each.score.name},
                      {"what", each.score.what},
                      {"figures", each.figures},
                      {"calibrated", each.calibrated},
                      {"missing", each.missing},
                      {"mean_error", each.mean_error}});
    if (each.score.max_mean_error) scores.back()["max_mean_error"] = *each.score.max_mean_error;
  }
  return {{"name", result.paper.name},
          {"title", result.paper.title},
          {"figures", std::move(figures)},
          {"scores", std::move(scores)}};
}

}  // namespace

std::string papers_table(const std::vector<PaperResult>& results, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"figure", "what", "published", "ours", "error", "verdict"}};
  for (const PaperResult& result : results)
    for (const FigureResult& each : result.figures) rows.push_back(row_of(result, each));
  std::string out = core::aligned(rows, {0, 1, 2, 3, 5}, width) + '\n';
  for (const PaperResult& result : results)
    for (const ScoreResult& each : result.scores)
      out += fmt::format("{}: {}\n", result.paper.name, core::one_line(score_text(each)));
  return out + counts(results) + '\n';
}

std::string papers_json(const std::vector<PaperResult>& results) {
  ordered_json papers = ordered_json::array();
  for (const PaperResult& each : results) papers.push_back(json_of(each));
  return core::json_text(
      {{"format", "fusewise.reproduction"}, {"version", 1}, {"papers", std::move(papers)}});
}

std::string papers_page(const std::vector<PaperResult>& results) {
  std::string out = fmt::format(
      "# Reproduced results of papers\n"
      "Written by `fusewise validate validate/papers -o docs/reproduction.md`; `validate/papers/README.md` "
      "says\n"
      "how figures are judged. {}.\n\n",
      counts(results));
  for (const PaperResult& result : results) {
    out +=
        fmt::format("## {}\n{}\n\n", core::one_line(result.paper.title), core::one_line(result.paper.source));
    out += inputs_page(result.paper) + parameters_page(result.paper) + figures_page(result);
    for (const ScoreResult& each : result.scores) out += core::one_line(score_text(each)) + ".\n\n";
    out += reasons_page(result);
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace validate
