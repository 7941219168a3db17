// Reads what `fusewise fit --json` prints: the errors of each model, size by size.

#include <filesystem>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "planner/report/report.hpp"

namespace report {
namespace {

using core::Field;
using nlohmann::ordered_json;

constexpr double kMaxNumber = std::numeric_limits<double>::max();

ordered_json errors_of(const Field& field) {
  ordered_json out;
  for (const char* key : {"mean_relative_error", "max_relative_error"})
    out[key] = field.at(key).number(0, kMaxNumber);
  out["residuals"] = ordered_json::array();
  for (const Field& each : field.at("residuals").non_empty_items()) {
    const std::vector<Field> numbers = each.items();
    if (numbers.size() != 3) each.expected("bytes, measured and predicted time");
    const double us = numbers[1].number(0, kMaxNumber);
    if (us == 0) numbers[1].expected("a time above 0", "0");
    out["residuals"].push_back(
        {numbers[0].number(0, kMaxNumber), us, numbers[2].number(-kMaxNumber, kMaxNumber)});
  }
  return out;
}

ordered_json model_of(const Field& field) {
  ordered_json out = {{"model", field.at("model").one_of({"line", "segments", "curve"})},
                      {"pieces", field.at("pieces").integer(0, std::numeric_limits<std::int64_t>::max())}};
  for (const char* key : {"in_sample", "out_of_sample"})
    if (const auto errors = field.find(key)) out[key] = errors_of(*errors);
  return out;
}

ordered_json curve_of(const Field& field, bool is_one_log) {
  std::string title = fmt::format("{} on {} workers", field.at("collective").text(),
                                  field.at("workers").integer(1, 1'000'000));
  if (!is_one_log) title += ", " + std::filesystem::path(field.at("log").text()).filename().string();
  ordered_json out = {
      {"title", title}, {"borders", ordered_json::array()}, {"models", ordered_json::array()}};
  for (const Field& segment : field.at("segments").items())
    out["borders"].push_back(segment.at("from_bytes").number(0, kMaxNumber));
  for (const Field& each : field.at("models").items()) {
    ordered_json model = model_of(each);
    if (model.contains("in_sample") || model.contains("out_of_sample"))
      out["models"].push_back(std::move(model));
  }
  if (out["models"].empty()) field.at("models").expected("a model with errors", "none");
  return out;
}

}  // namespace

Report of_fit(const Field& file) {
  file.check_format("fusewise.fit");
  const std::vector<Field> curves = file.at("curves").non_empty_items();
  std::set<std::string> logs;
  for (const Field& curve : curves) logs.insert(curve.at("log").text());
  const std::string what = logs.size() == 1 ? file.at("name").text() : fmt::format("{} logs", logs.size());
  Report out = {.title = "Fit of " + what, .data = {}, .warnings = {}};
  for (const Field& warning : file.at("warnings").items()) out.warnings.push_back(warning.text());
  out.data = {{"title", out.title},
              {"kind", "fit"},
              {"about", file.at("source").text()},
              {"warnings", out.warnings},
              {"fit", ordered_json::array()}};
  for (const Field& curve : curves) out.data["fit"].push_back(curve_of(curve, logs.size() == 1));
  return out;
}

}  // namespace report
