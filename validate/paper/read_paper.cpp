#include "validate/paper/read_paper.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files.hpp"
#include "validate/paper/judge.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

using core::Field;

constexpr double kLargest = 1e15;
constexpr std::size_t kMaxParameters = 2;

/// Formats a value for display: a number as it is written, or text.
std::string shown_value(const Field& field) {
  return field.is_number() ? fmt::format("{:.10g}", field.number(-kLargest, kLargest)) : field.text();
}

std::string text_at(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  return found ? found->text() : "";
}

template <typename Read>
auto list_at(const Field& field, std::string_view key, Read read) {
  std::vector<decltype(read(field))> out;
  const std::optional<Field> found = field.find(key);
  if (!found) return out;
  for (const Field& item : found->items()) out.push_back(read(item));
  return out;
}

/// Names must be unique, because others refer to them.
template <typename Named>
void check_names(const Field& list, const std::vector<Named>& all) {
  std::set<std::string> known;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!known.insert(all[i].name).second) list.items()[i].at("name").expected("a name of its own");
}

Input read_input(const Field& field) {
  field.allow_only({"what", "value", "unit", "kind", "from"});
  return {.what = field.at("what").name(),
          .value = shown_value(field.at("value")),
          .unit = text_at(field, "unit"),
          .kind = field.at("kind").one_of({"published", "derived", "estimated"}),
          .from = field.at("from").name()};
}

Parameter read_parameter(const Field& field) {
  field.allow_only({"name", "value", "unit", "why", "calibrated_on"});
  Parameter out = {.name = field.at("name").name(),
                   .value = shown_value(field.at("value")),
                   .unit = text_at(field, "unit"),
                   .why = field.at("why").name(),
                   .calibrated_on = {}};
  if (const auto figures = field.find("calibrated_on"))
    for (const Field& each : figures->non_empty_items()) out.calibrated_on.push_back(each.name());
  return out;
}

Score read_score(const Field& field) {
  field.allow_only({"name", "what", "max_mean_error"});
  Score out = {.name = field.at("name").name(), .what = field.at("what").name(), .max_mean_error = {}};
  if (const auto max = field.find("max_mean_error")) out.max_mean_error = max->number(0, 1);
  return out;
}

std::string range_text(const Published& published, int decimals) {
  if (published.min && published.max)
    return fmt::format("{:.{}f} to {:.{}f}", *published.min, decimals, *published.max, decimals);
  return published.min ? fmt::format("from {:.{}f} on", *published.min, decimals)
                       : fmt::format("up to {:.{}f}", *published.max, decimals);
}

Published read_range(const Field& field, int decimals) {
  Published out;
  const auto end = [](const Field& at) { return at.number(-kLargest, kLargest); };
  if (const auto between = field.find("between")) {
    field.allow_only({"between"});
    const std::vector<Field> two = between->items();
    if (two.size() != 2) between->expected("an array of 2 numbers");
    out.between = {end(two[0]), end(two[1])};
    out.text = fmt::format("between {:g} and {:g}", out.between->first, out.between->second);
    return out;
  }
  field.allow_only({"min", "max"});
  if (const auto min = field.find("min")) out.min = end(*min);
  if (const auto max = field.find("max")) out.max = end(*max);
  if (!out.min && !out.max) field.expected("min, max or between");
  if (out.min && out.max && *out.min > *out.max) field.at("max").expected("at least `min`");
  out.text = range_text(out, decimals);
  return out;
}

Published read_published(const Field& field, int decimals) {
  Published out;
  if (field.is_object()) return read_range(field, decimals);
  if (field.is_array()) {
    for (const Field& each : field.non_empty_items()) out.order.push_back(each.name());
    out.text = fmt::format("{}", fmt::join(out.order, " < "));
  } else if (field.is_number()) {
    out.value = field.number(-kLargest, kLargest);
    out.text = fmt::format("{:.{}f}", *out.value, decimals);
  } else if (field.is_text()) {
    out.text = field.name();
  } else {
    out.holds = field.boolean();
    out.text = *out.holds ? "holds" : "does not hold";
  }
  return out;
}

void check_needs(const Field& published, const Figure& figure) {
  const Published& has = figure.published;
  using Needs = Judge::Needs;
  const auto require = [&](Needs needs, bool there, std::string_view what) {
    if (figure.judge->needs == needs && !there)
      published.expected(fmt::format("{}, as it is judged by '{}'", what, figure.judge->name));
  };
  require(Needs::value, has.value.has_value(), "a number");
  require(Needs::range, has.min || has.max, "a range");
  require(Needs::between, has.between.has_value(), "two numbers between which it is");
  require(Needs::order, !has.order.empty(), "an array of labels");
  require(Needs::holds, has.holds.has_value(), "true or false");
}

const Judge& read_judge(const Field& field) {
  std::vector<std::string_view> names;
  for (const Judge& each : judges()) names.push_back(each.name);
  const std::string name = field.one_of(names);
  return *std::ranges::find(judges(), name, &Judge::name);
}

/// Reads the keys that only some judges accept.
void read_judge_keys(const Field& field, const std::vector<Score>& scores, Figure& figure) {
  const Judge& judge = *figure.judge;
  const auto only = [&](std::string_view key, bool wanted) {
    if (field.has(key) && !wanted)
      field.at(key).expected(fmt::format("no such key where '{}' judges", judge.name));
  };
  only("within", judge.takes_within);
  only("score", judge.is_scored || !judge.claims);
  only("best", judge.needs == Judge::Needs::order);
  only("reason", judge.claims);
  if (judge.takes_within) figure.within = field.at("within").number(0, 1);
  if (judge.is_scored || field.has("score")) {
    if (!figure.published.value) field.at("score").expected("a figure with one published number");
    std::vector<std::string_view> names;
    for (const Score& each : scores)
      if (each.max_mean_error.has_value() == judge.is_scored) names.push_back(each.name);
    figure.score = field.at("score").one_of(names);
  }
  if (judge.needs == Judge::Needs::order)
    figure.max_is_best = field.at("best").one_of({"min", "max"}) == "max";
}

Figure read_figure(const Field& field, const std::vector<Score>& scores) {
  field.allow_only({"name", "where", "what", "read", "published", "unit", "decimals", "judge", "within",
                    "score", "best", "reason", "quantity"});
  constexpr int kMaxDecimals = 9;
  const std::optional<Field> decimals = field.find("decimals");
  Figure out = {.name = field.at("name").name(),
                .where = field.at("where").name(),
                .what = field.at("what").name(),
                .read = field.at("read").one_of({"text", "table", "graph", "equation", "code"}),
                .published = {},
                .unit = text_at(field, "unit"),
                .decimals = decimals ? static_cast<int>(decimals->integer(0, kMaxDecimals)) : 2,
                .judge = &read_judge(field.at("judge")),
                .within = {},
                .score = {},
                .reason = text_at(field, "reason"),
                .quantity = field.at("quantity")};
  const std::optional<Field> published = field.find("published");
  if (published)
    out.published = read_published(*published, out.decimals);
  else if (out.judge->needs != Judge::Needs::nothing)
    (void)field.at("published");  // reports that it is missing
  if (published) check_needs(*published, out);
  if (out.judge->needs == Judge::Needs::order && out.published.order.size() > 1) {
    const bool max = field.at("best").text() == "max";
    out.published.text = fmt::format("{}", fmt::join(out.published.order, max ? " > " : " < "));
  }
  read_judge_keys(field, scores, out);
  check_quantity(out.quantity);
  return out;
}

/// A score without figures is rejected, because it would always be within its bound.
void check_scores(const Field& field, const Paper& paper) {
  for (std::size_t i = 0; i < paper.scores.size(); ++i) {
    const auto is_its = [&](const Figure& figure) { return figure.score == paper.scores[i].name; };
    if (std::ranges::none_of(paper.figures, is_its))
      field.at("scores").items()[i].at("name").expected("the name of a score that figures have");
  }
}

/// The figures that inputs were fitted to must exist.
void check_calibrated(const Field& field, const Paper& paper) {
  std::vector<std::string_view> names;
  for (const Figure& figure : paper.figures) names.push_back(figure.name);
  if (const auto parameters = field.find("parameters"))
    for (const Field& parameter : parameters->items())
      if (const auto calibrated = parameter.find("calibrated_on"))
        for (const Field& each : calibrated->items()) (void)each.one_of(names);
}

}  // namespace

Paper read_paper(const std::string& text, const std::string& source) {
  const Field field = Field::parse(text, source);
  field.check_format("fusewise.paper");
  field.allow_only({"format", "version", "name", "title", "source", "inputs", "parameters", "scenarios",
                    "scores", "figures"});
  Paper paper = {.name = field.at("name").name(),
                 .title = field.at("title").name(),
                 .source = field.at("source").name(),
                 .inputs = list_at(field, "inputs", read_input),
                 .parameters = list_at(field, "parameters", read_parameter),
                 .scenarios = {},
                 .scores = list_at(field, "scores", read_score),
                 .figures = {}};
  if (paper.parameters.size() > kMaxParameters)
    field.at("parameters").expected(fmt::format("at most {} free parameters", kMaxParameters));
  if (const auto scenarios = field.find("scenarios")) {
    paper.scenarios = read_scenarios(*scenarios, text);
    check_names(*scenarios, paper.scenarios);
  }
  if (field.has("scores")) check_names(field.at("scores"), paper.scores);
  for (const Field& item : field.at("figures").non_empty_items())
    paper.figures.push_back(read_figure(item, paper.scores));
  check_names(field.at("figures"), paper.figures);
  check_scores(field, paper);
  check_calibrated(field, paper);
  return paper;
}

Paper load_paper(const std::filesystem::path& file) {
  (void)Field::load(file);  // reports why it cannot be read
  return read_paper(core::read_file(file), file.string());
}

}  // namespace validate
