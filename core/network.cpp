#include "core/network.hpp"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

using core::Field;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kCollectives = {"all_reduce", "reduce_scatter", "all_gather"};

double optional_number(const Field& field, std::string_view key, double otherwise) {
  const std::optional<Field> found = field.find(key);
  return found ? found->number(0, kMaxTimeUs) : otherwise;
}

Link read_link(const Field& field) {
  field.allow_only({"alpha_us", "beta_us_per_byte", "gamma_us_per_byte"});
  return {.alpha_us = field.at("alpha_us").number(0, kMaxTimeUs),
          .beta_us_per_byte = field.at("beta_us_per_byte").number(0, kMaxTimeUs),
          .gamma_us_per_byte = optional_number(field, "gamma_us_per_byte", 0)};
}

std::vector<Level> read_levels(const Field& field) {
  std::vector<Level> levels;
  const std::vector<Field> items = field.items();
  std::int64_t units = 1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Field& item = items[i];
    item.allow_only({"name", "size", "link", "shared"});
    Level level = {.name = item.at("name").name(), .size = {}, .link = read_link(item.at("link"))};
    const bool last = i + 1 == items.size();
    if (!last) {
      level.size = item.at("size").integer(1, kMaxWorkers);
      units *= *level.size;
      if (units > kMaxWorkers)
        item.at("size").expected(fmt::format("sizes that multiply to at most {}", kMaxWorkers));
    } else if (const auto size = item.find("size")) {
      size->expected("no size: the last level takes what workers are left");
    }
    if (const auto shared = item.find("shared")) level.shared = shared->boolean();
    levels.push_back(std::move(level));
  }
  return levels;
}

CostCurve read_segments(const Field& field) {
  std::vector<CostCurve::Segment> segments;
  for (const Field& item : field.non_empty_items()) {
    item.allow_only({"from_bytes", "to_bytes", "startup_us", "us_per_byte"});
    const auto bytes = [&](std::string_view key) {
      return item.at(key).number(0, static_cast<double>(kMaxBytes));
    };
    const CostCurve::Segment segment = {
        .from_bytes = bytes("from_bytes"),
        .to_bytes = bytes("to_bytes"),
        .startup_us = item.at("startup_us").number(-kMaxTimeUs, kMaxTimeUs),
        .us_per_byte = item.at("us_per_byte").number(-kMaxTimeUs, kMaxTimeUs)};
    if (segment.to_bytes <= segment.from_bytes)
      item.at("to_bytes").expected(fmt::format("more than from_bytes, {}", segment.from_bytes));
    if (!segments.empty() && segment.from_bytes != segments.back().to_bytes)
      item.at("from_bytes")
          .expected(fmt::format("the end of the segment before, {}", segments.back().to_bytes));
    segments.push_back(segment);
  }
  return CostCurve::of_segments(segments);
}

Fit read_fit(const Field& field) {
  field.allow_only({"r2", "mean_relative_error", "max_relative_error"});
  return {.r2 = field.at("r2").number(-kMaxTimeUs, 1),
          .mean_relative_error = field.at("mean_relative_error").number(0, kMaxTimeUs),
          .max_relative_error = field.at("max_relative_error").number(0, kMaxTimeUs)};
}

/// Reads one number per point of the curve, optionally at least its time; empty if the key is missing.
std::vector<double> read_each_point(const Field& field, std::string_view key,
                                    const std::vector<std::pair<double, double>>& points,
                                    bool at_least_point) {
  const std::optional<Field> found = field.find(key);
  if (!found) return {};
  if (points.empty()) found->expected("a curve beside it", "segments");
  const std::vector<Field> items = found->items();
  if (items.size() != points.size())
    found->expected(fmt::format("a number for each of the curve's {} points", points.size()));
  std::vector<double> out;
  for (std::size_t i = 0; i < items.size(); ++i)
    out.push_back(items[i].number(at_least_point ? points[i].second : 0, kMaxTimeUs));
  return out;
}

Measured read_measured(const Field& field) {
  field.allow_only({"collective", "algorithm", "workers", "curve", "segments", "fit", "spread_us", "p99_us"});
  const std::string collective = field.at("collective").one_of(kCollectives);
  std::size_t kind = 0;
  while (kCollectives.at(kind) != collective) ++kind;
  Measured measured = {.collective = CollectiveKind{static_cast<int>(kind)},
                       .workers = field.at("workers").integer(1, kMaxWorkers)};
  if (const auto algorithm = field.find("algorithm")) measured.algorithm = algorithm->name();
  if (const auto segments = field.find("segments")) {
    if (const auto curve = field.find("curve")) curve->expected("either a curve or segments", "both");
    measured.curve = read_segments(*segments);
  } else {
    measured.curve = read_curve(field.at("curve"));
  }
  if (const auto fit = field.find("fit")) measured.fit = read_fit(*fit);
  measured.spread_us = read_each_point(field, "spread_us", measured.curve.points(), false);
  measured.p99_us = read_each_point(field, "p99_us", measured.curve.points(), true);
  return measured;
}

ordered_json to_json(const Link& link) {
  return {{"alpha_us", link.alpha_us},
          {"beta_us_per_byte", link.beta_us_per_byte},
          {"gamma_us_per_byte", link.gamma_us_per_byte}};
}

ordered_json to_json(const Level& level) {
  ordered_json out = {{"name", level.name}};
  if (level.size) out["size"] = *level.size;
  out["link"] = to_json(level.link);
  if (level.shared) out["shared"] = true;
  return out;
}

ordered_json to_json(const Measured& measured) {
  ordered_json out = {{"collective", name(measured.collective)}};
  if (measured.algorithm) out["algorithm"] = *measured.algorithm;
  out["workers"] = measured.workers;
  if (!measured.curve.points().empty()) out["curve"] = measured.curve.points();
  for (const CostCurve::Segment& segment : measured.curve.segments())
    out["segments"].push_back({{"from_bytes", segment.from_bytes},
                               {"to_bytes", segment.to_bytes},
                               {"startup_us", segment.startup_us},
                               {"us_per_byte", segment.us_per_byte}});
  if (measured.fit)
    out["fit"] = {{"r2", measured.fit->r2},
                  {"mean_relative_error", measured.fit->mean_relative_error},
                  {"max_relative_error", measured.fit->max_relative_error}};
  if (!measured.spread_us.empty()) out["spread_us"] = measured.spread_us;
  if (!measured.p99_us.empty()) out["p99_us"] = measured.p99_us;
  return out;
}

}  // namespace

std::string_view name(CollectiveKind kind) { return kCollectives.at(static_cast<std::size_t>(kind)); }

CostCurve read_curve(const Field& field) {
  std::vector<std::pair<double, double>> points;
  for (const Field& item : field.non_empty_items()) {
    const std::vector<Field> pair = item.items();
    if (pair.size() != 2) item.expected("a pair [bytes, microseconds]");
    const double bytes = pair[0].number(0, static_cast<double>(kMaxBytes));
    if (!points.empty() && bytes <= points.back().first)
      pair[0].expected(fmt::format("more bytes than the point before, {}", points.back().first));
    points.emplace_back(bytes, pair[1].number(0, kMaxTimeUs));
  }
  return CostCurve::through(points);
}

Network read_network(const Field& field) {
  field.check_format("fusewise.network");
  field.allow_only({"format", "version", "name", "origin", "link", "line_rate_gbps", "levels", "measured"});
  Network network = {.name = field.at("name").name(), .origin = read_origin(field.at("origin"))};
  if (const auto link = field.find("link")) network.link = read_link(*link);
  if (const auto rate = field.find("line_rate_gbps")) {
    network.line_rate_gbps = rate->number(0, kMaxTimeUs);
    if (*network.line_rate_gbps == 0) rate->expected("a rate above 0");
  }
  if (const auto levels = field.find("levels")) network.levels = read_levels(*levels);
  if (const auto measured = field.find("measured"))
    for (const Field& item : measured->items()) network.measured.push_back(read_measured(item));
  if (!network.link && network.levels.empty() && network.measured.empty())
    field.expected("at least one of link, levels, measured", "none of them");
  return network;
}

std::string network_text(const Network& network) {
  ordered_json out = {{"format", "fusewise.network"},
                      {"version", 1},
                      {"name", network.name},
                      {"origin", to_json(network.origin)}};
  if (network.link) out["link"] = to_json(*network.link);
  if (network.line_rate_gbps) out["line_rate_gbps"] = *network.line_rate_gbps;
  for (const Level& level : network.levels) out["levels"].push_back(to_json(level));
  for (const Measured& measured : network.measured) out["measured"].push_back(to_json(measured));
  return core::json_text(out);
}

}  // namespace core
