#include "core/compressor_costs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/limits.hpp"

namespace core {
namespace {

using core::Field;
using nlohmann::ordered_json;

constexpr double kBytesPerElement = 4;

CodeTime read_time(const Field& field, std::string_view what) {
  const auto at = [&](std::string_view suffix) { return field.find(fmt::format("{}_{}", what, suffix)); };
  CodeTime out = {.us = field.at(fmt::format("{}_us", what)).number(0, kMaxTimeUs)};
  if (const auto spread = at("spread_us")) out.spread_us = spread->number(0, kMaxTimeUs);
  return out;
}

std::vector<CodePoint> read_points(const Field& field) {
  std::vector<CodePoint> out;
  for (const Field& item : field.non_empty_items()) {
    item.allow_only({"elements", "encode_us", "encode_spread_us", "decode_us", "decode_spread_us", "bytes"});
    const CodePoint point = {.elements = item.at("elements").integer(1, kMaxElements),
                             .encode = read_time(item, "encode"),
                             .decode = read_time(item, "decode"),
                             .bytes = item.at("bytes").number(0, static_cast<double>(kMaxBytes))};
    if (!out.empty() && point.elements <= out.back().elements)
      item.at("elements").expected(fmt::format("more than the point before, {}", out.back().elements));
    out.push_back(point);
  }
  return out;
}

bool have_same_elements(const std::vector<CodePoint>& a, const std::vector<CodePoint>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const CodePoint& p, const CodePoint& q) { return p.elements == q.elements; });
}

std::vector<CodeCurve> read_curves(const Field& field) {
  std::vector<CodeCurve> out;
  const std::vector<Field> items = field.non_empty_items();
  for (const Field& item : items) {
    item.allow_only({"density", "points"});
    CodeCurve curve;
    if (items.size() > 1) item.at("density");
    if (const auto density = item.find("density")) {
      curve.density = density->number(0, 1);
      if (!out.empty() && *curve.density <= *out.back().density)
        density->expected(fmt::format("more than the density before, {}", *out.back().density));
    }
    curve.points = read_points(item.at("points"));
    if (!out.empty() && !have_same_elements(curve.points, out.front().points))
      item.at("points").expected("points of the same elements as the first density's");
    out.push_back(std::move(curve));
  }
  return out;
}

MeasuredCompressor read_compressor(const Field& field) {
  field.allow_only({"name", "collective", "curves"});
  const std::string collective = field.at("collective").one_of({"all_gather", "all_reduce"});
  return {.name = field.at("name").name(),
          .collective = collective == "all_reduce" ? CollectiveKind::all_reduce : CollectiveKind::all_gather,
          .curves = read_curves(field.at("curves"))};
}

ordered_json to_json(const CodePoint& point) {
  return {{"elements", point.elements},
          {"encode_us", point.encode.us},
          {"encode_spread_us", point.encode.spread_us},
          {"decode_us", point.decode.us},
          {"decode_spread_us", point.decode.spread_us},
          {"bytes", point.bytes}};
}

ordered_json to_json(const MeasuredCompressor& compressor) {
  ordered_json curves = ordered_json::array();
  for (const CodeCurve& curve : compressor.curves) {
    ordered_json item = ordered_json::object();
    if (curve.density) item["density"] = *curve.density;
    for (const CodePoint& point : curve.points) item["points"].push_back(to_json(point));
    curves.push_back(std::move(item));
  }
  return {
      {"name", compressor.name}, {"collective", name(compressor.collective)}, {"curves", std::move(curves)}};
}

/// Interpolates linearly between `from` and `to`; exact for a `share` of 0 or 1.
double mixed(double from, double to, double share) { return from * (1 - share) + to * share; }

double ratio_of(const std::vector<CodePoint>& points) {
  double written = 0;
  double dense = 0;
  for (const CodePoint& point : points) {
    written += point.bytes;
    dense += kBytesPerElement * static_cast<double>(point.elements);
  }
  return written / dense;
}

}  // namespace

CompressorCosts read_compressor_costs(const Field& field) {
  field.check_format("fusewise.compressors");
  field.allow_only({"format", "version", "device", "command", "origin", "dtype", "compressors"});
  field.at("dtype").one_of({"float32"});
  CompressorCosts out = {.device = field.at("device").name(),
                         .command = field.at("command").text(),
                         .origin = read_origin(field.at("origin"))};
  for (const Field& item : field.at("compressors").non_empty_items()) {
    MeasuredCompressor compressor = read_compressor(item);
    if (find_compressor(out, compressor.name) != nullptr)
      item.at("name").expected("a name that no other compressor in the file has");
    out.compressors.push_back(std::move(compressor));
  }
  return out;
}

std::string compressor_costs_text(const CompressorCosts& costs) {
  ordered_json out = {{"format", "fusewise.compressors"}, {"version", 1},
                      {"device", costs.device},           {"command", costs.command},
                      {"origin", to_json(costs.origin)},  {"dtype", "float32"}};
  for (const MeasuredCompressor& compressor : costs.compressors)
    out["compressors"].push_back(to_json(compressor));
  return core::json_text(out);
}

const MeasuredCompressor* find_compressor(const CompressorCosts& costs, std::string_view name) {
  const auto found = std::ranges::find(costs.compressors, name, &MeasuredCompressor::name);
  return found == costs.compressors.end() ? nullptr : &*found;
}

CodeAt at_density(const MeasuredCompressor& compressor, double density) {
  const std::vector<CodeCurve>& curves = compressor.curves;
  std::size_t above = 0;
  while (compressor.is_sparse() && above + 1 < curves.size() && *curves[above].density < density) ++above;
  const CodeCurve& high = curves[above];
  const CodeCurve& low = curves[above == 0 || *high.density == density ? above : above - 1];
  const double share = &low == &high ? 0 : (density - *low.density) / (*high.density - *low.density);
  std::vector<std::pair<double, double>> encode;
  std::vector<std::pair<double, double>> decode;
  for (std::size_t i = 0; i < low.points.size(); ++i) {
    const CodePoint& a = low.points[i];
    const CodePoint& b = high.points[i];
    const double bytes = kBytesPerElement * static_cast<double>(a.elements);
    encode.emplace_back(bytes, mixed(a.encode.us, b.encode.us, share));
    decode.emplace_back(bytes, mixed(a.decode.us, b.decode.us, share));
  }
  return {.encode = CostCurve::through(encode),
          .decode = CostCurve::through(decode),
          .ratio = mixed(ratio_of(low.points), ratio_of(high.points), share)};
}

}  // namespace core
