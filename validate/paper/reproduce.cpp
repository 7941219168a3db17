#include "validate/paper/reproduce.hpp"

#include <algorithm>
#include <cmath>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

bool is_calibrated(const Paper& paper, const std::string& figure) {
  return std::ranges::any_of(paper.parameters, [&](const Parameter& parameter) {
    const auto& on = parameter.calibrated_on;
    return std::ranges::find(on, figure) != on.end();
  });
}

void check_finite(const Figure& figure, const Values& values) {
  for (const Value& each : values)
    if (!std::isfinite(each.value))
      figure.quantity.expected("a quantity that is a number", fmt::format("{}", each.value));
}

ScoreResult mean_of(const Score& score, const Paper& paper, const std::vector<FigureResult>& figures) {
  ScoreResult out = {.score = score, .figures = 0, .calibrated = 0, .missing = {}, .mean_error = 0};
  for (const FigureResult& each : figures) {
    if (each.figure.score != score.name) continue;
    if (is_calibrated(paper, each.figure.name)) {
      ++out.calibrated;
    } else if (!each.outcome.error) {
      out.missing.push_back(each.figure.name);
    } else {
      ++out.figures;
      out.mean_error += *each.outcome.error;
    }
  }
  if (out.figures > 0) out.mean_error /= static_cast<double>(out.figures);
  return out;
}

/// Returns the fault of a mean, to follow its name, or nothing.
std::string fault_of(const ScoreResult& result) {
  if (!result.missing.empty())
    return fmt::format("is over {} of {} figures, as '{}' {} none", result.figures, result.all(),
                       fmt::join(result.missing, "', '"), result.missing.size() == 1 ? "has" : "have");
  if (result.figures == 0)
    return fmt::format("is over 0 of {} figures, as inputs were fitted to all", result.all());
  const std::optional<double>& max = result.score.max_mean_error;
  if (!max || result.mean_error <= *max) return "";
  return fmt::format("is {:.1f} %, over {:.1f} %", 100 * result.mean_error, 100 * *max);
}

}  // namespace

PaperResult reproduce(const Paper& paper, const std::function<void(const std::string&)>& progress) {
  PaperResult out = {.paper = paper, .figures = {}, .scores = {}};
  for (const Figure& figure : paper.figures) {
    if (progress) progress(figure.name);
    Values ours = measure(paper, figure);
    check_finite(figure, ours);
    const Outcome outcome = judge(figure, ours, is_calibrated(paper, figure.name));
    out.figures.push_back({.figure = figure,
                           .ours = std::move(ours),
                           .outcome = outcome,
                           .is_wall_clock = quantity_of(figure).is_wall_clock});
  }
  for (const Score& score : paper.scores) out.scores.push_back(mean_of(score, paper, out.figures));
  return out;
}

std::vector<std::filesystem::path> paper_files(const std::filesystem::path& folder) {
  constexpr std::string_view kEnding = ".paper.json";
  std::vector<std::filesystem::path> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().filename().string().ends_with(kEnding)) out.push_back(entry.path());
  if (error)
    throw core::InputError(fmt::format("{}: /: expected a folder that can be read, got: {}",
                                       core::one_line(folder.string()), error.message()));
  if (out.empty())
    throw core::InputError(fmt::format("{}: /: expected a folder with files *{}, got none",
                                       core::one_line(folder.string()), kEnding));
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> faults(const std::vector<PaperResult>& results) {
  std::vector<std::string> out;
  for (const PaperResult& result : results) {
    for (const FigureResult& each : result.figures)
      if (!each.outcome.fault.empty())
        out.push_back(fmt::format("{}: '{}' {}", result.paper.name, each.figure.name, each.outcome.fault));
    for (const ScoreResult& each : result.scores)
      if (const std::string fault = fault_of(each); !fault.empty())
        out.push_back(fmt::format("{}: mean error of '{}' {}", result.paper.name, each.score.name, fault));
  }
  return out;
}

}  // namespace validate
