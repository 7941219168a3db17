#include "validate/measurements/measurements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/estimate/estimated_profile.hpp"
#include "core/limits.hpp"

namespace validate {
namespace {

using core::Field;
using core::InputError;
using core::printable;

constexpr std::array<std::string_view, 5> kColumns = {"model", "network", "schedule", "workers",
                                                      "samples_per_s"};
constexpr std::size_t kMaxRows = 100'000;
constexpr double kMinRate = 1e-9;
constexpr double kMaxRate = 1e15;
constexpr double kMinIterationUs = 1e-3;
constexpr std::string_view kIterationColumn = "iteration_us";  // in place of the last

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    out.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

/// One line of the file.
class Line {
 public:
  Line(const std::string& source, std::int64_t number, std::string_view text)
      : source_(source), number_(number), cells_(split(text, ',')) {
    if (text.starts_with('{')) expected("a line of a table (CSV)", text);
    if (text.find('"') != std::string_view::npos) expected("cells without quotes", text);
  }

  const std::vector<std::string_view>& cells() const { return cells_; }

  [[noreturn]] void expected(std::string_view what, std::string_view got) const {
    throw InputError(fmt::format("{}:{}: expected {}, got '{}'", source_, number_, what, printable(got)));
  }

  std::string name(std::size_t column) const {
    if (cells_[column].empty()) expected("a name in every cell", "");
    return std::string(cells_[column]);
  }

  template <typename Number>
  Number number(std::size_t column, Number min, Number max) const {
    const std::string_view text = cells_[column];
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (!whole || !(value >= min && value <= max))
      expected(fmt::format("a number from {:g} to {:g}", static_cast<double>(min), static_cast<double>(max)),
               text);
    return value;
  }

 private:
  const std::string& source_;
  std::int64_t number_;
  std::vector<std::string_view> cells_;
};

/// The position of each of kColumns, and whether the last one holds iteration times.
struct Header {
  std::array<std::size_t, kColumns.size()> at{};
  bool has_iterations = false;
};

Header read_header(const Line& line) {
  const auto& cells = line.cells();
  Header out;
  out.has_iterations = std::ranges::find(cells, kIterationColumn) != cells.end();
  auto columns = kColumns;
  if (out.has_iterations) columns.back() = kIterationColumn;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto found = std::ranges::find(cells, columns.at(i));
    if (found == cells.end() || cells.size() != columns.size())
      line.expected(fmt::format("the columns {}", fmt::join(kColumns, ",")),
                    fmt::format("{}", fmt::join(cells, ",")));
    out.at.at(i) = static_cast<std::size_t>(found - cells.begin());
  }
  return out;
}

Measurement read_row(const Line& line, std::int64_t number, const Header& columns) {
  const auto [model, network, schedule, workers, result] = columns.at;
  Measurement out = {.line = number,
                     .model = line.name(model),
                     .network = line.name(network),
                     .schedule = line.name(schedule),
                     .workers = line.number<std::int64_t>(workers, 1, core::kMaxWorkers)};
  if (columns.has_iterations)
    out.iteration_us = line.number<double>(result, kMinIterationUs, core::kMaxTimeUs);
  else
    out.samples_per_s = line.number<double>(result, kMinRate, kMaxRate);
  return out;
}

std::string cell(const Measurement& row, std::string_view key) {
  if (key == "line") return fmt::to_string(row.line);
  if (key == "workers") return fmt::to_string(row.workers);
  if (key == "model") return row.model;
  return key == "network" ? row.network : row.schedule;
}

/// Reads objects with a `name` and one more key.
template <typename Read>
auto named(const Field& list, std::string_view key, Read read) {
  std::map<std::string, decltype(read(list))> out;
  for (const Field& item : list.non_empty_items()) {
    item.allow_only({"name", key});
    const Field name = item.at("name");
    if (!out.emplace(name.name(), read(item.at(key))).second) name.expected("a name of its own");
  }
  return out;
}

SetupModel read_model(const Field& at) {
  SetupModel out = {.profile = core::read_or_estimate_profile(at)};
  if (!at.is_object() || !at.has("estimate")) out.overlap = core::read_profile_overlap(at);
  return out;
}

SetupSchedule read_schedule(const Field& item, const Setup& setup) {
  item.allow_only({"name", "schedule", "model", "workers"});
  SetupSchedule out = {.name = item.at("name").name(), .model = {}, .schedule = {}};
  if (const auto model = item.find("model")) {
    out.model = model->name();
    if (setup.models.find(out.model) == setup.models.end()) model->expected("a model of this file");
  }
  if (const auto workers = item.find("workers")) out.workers = workers->integer(1, core::kMaxWorkers);
  for (const SetupSchedule& other : setup.schedules)
    if (other.name == out.name && other.model == out.model && other.workers == out.workers)
      item.at("name").expected("a name of its own");
  out.schedule = planner::read_schedule(item.at("schedule"));
  return out;
}

}  // namespace

std::vector<Measurement> read_measurements(std::string_view text, const std::string& source) {
  std::vector<Measurement> out;
  std::optional<Header> columns;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (content.empty()) continue;
    const Line line(source, number, content);
    if (!columns) {
      columns = read_header(line);
      continue;
    }
    if (line.cells().size() != kColumns.size())
      line.expected(fmt::format("{} cells", kColumns.size()), content);
    if (out.size() == kMaxRows) line.expected(fmt::format("at most {} rows", kMaxRows), "more");
    out.push_back(read_row(line, number, *columns));
  }
  if (out.empty())
    throw InputError(
        fmt::format("{}:{}: expected the columns {} and a row of measurements, got the end of "
                    "the file",
                    source, number + 1, fmt::join(kColumns, ",")));
  return out;
}

Setup read_setup(const Field& field) {
  field.check_format("fusewise.setup");
  field.allow_only({"format", "version", "models", "networks", "schedules", "collectives"});
  Setup out;
  out.models = named(field.at("models"), "profile", [](const Field& at) { return read_model(at); });
  out.networks = named(field.at("networks"), "network", core::read_network_reference);
  if (const auto schedules = field.find("schedules"))
    for (const Field& item : schedules->non_empty_items()) out.schedules.push_back(read_schedule(item, out));
  if (const auto collectives = field.find("collectives"))
    out.all_reduce = planner::read_collectives(*collectives);
  return out;
}

const planner::Schedule* schedule_of(const Setup& setup, const Measurement& row) {
  for (const SetupSchedule& each : setup.schedules)
    if (each.name == row.schedule && (each.model.empty() || each.model == row.model) &&
        (each.workers == 0 || each.workers == row.workers))
      return &each.schedule;
  return nullptr;
}

std::vector<bool> select_rows(const std::vector<Measurement>& rows, const std::string& option) {
  constexpr std::array<std::string_view, 5> kKeys = {"model", "network", "schedule", "workers", "line"};
  std::vector<bool> out(rows.size(), true);
  for (const std::string_view condition : split(option, ',')) {
    const std::size_t equals = condition.find('=');
    const std::string_view key = trimmed(condition.substr(0, equals));
    if (equals == std::string_view::npos || std::ranges::find(kKeys, key) == kKeys.end())
      throw InputError(fmt::format("--calibrate-on: expected KEY=VALUE with a key among {}, got '{}'",
                                   fmt::join(kKeys, ", "), printable(condition)));
    const std::string_view value = trimmed(condition.substr(equals + 1));
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = out[i] && cell(rows[i], key) == value;
  }
  if (std::ranges::find(out, true) == out.end())
    throw InputError(fmt::format("--calibrate-on: expected a row of the measurements, got none with '{}'",
                                 printable(option)));
  return out;
}

}  // namespace validate
