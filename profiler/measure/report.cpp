#include "profiler/measure/report.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/quantities.hpp"
#include "core/statistics.hpp"

namespace measure {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// One curve per collective and algorithm, in the order of measurement.
struct Curve {
  const Samples* first = nullptr;
  Points points;
  std::vector<double> spread_us;
  std::vector<double> p99_us;
};

std::vector<Curve> curves(const std::vector<Samples>& samples) {
  std::vector<Curve> out;
  for (const Samples& each : samples) {
    const bool goes_on = !out.empty() && out.back().first->collective == each.collective &&
                         out.back().first->algorithm == each.algorithm;
    if (!goes_on) out.push_back({.first = &each});
    const core::Statistics times = core::statistics(each.us);
    out.back().points.emplace_back(static_cast<double>(each.bytes), times.median);
    out.back().spread_us.push_back(times.spread);
    out.back().p99_us.push_back(times.p99);
  }
  return out;
}

std::optional<core::LineFit> line(const Points& points) {
  const bool has_times = std::ranges::all_of(points, [](const auto& p) { return p.second > 0; });
  return points.size() >= 2 && has_times ? std::optional(core::fit_line(points)) : std::nullopt;
}

std::string halves_table(const std::vector<Halves>& all) {
  if (all.empty()) return "";
  std::string out = fmt::format("{:>9} {:>17} {:>13} {:>13} {:>30}\n", "size", "reduce_scatter us",
                                "all_gather us", "all_reduce us", "both halves against all_reduce");
  for (const Halves& each : all)
    out += fmt::format("{:>9} {:>17.1f} {:>13.1f} {:>13.1f} {:>30.3f}\n", core::bytes_text(each.bytes),
                       each.reduce_scatter_us, each.all_gather_us, each.all_reduce_us, each.ratio());
  return out;
}

std::optional<std::string> named(const std::string& algorithm) {
  return algorithm.empty() ? std::nullopt : std::optional(algorithm);
}

}  // namespace

bool makes_network(const RunOptions& wanted) {
  return std::ranges::any_of(wanted.collectives, [&](Collective kind) {
    return entry(kind).in_network || (kind == Collective::send_receive && wanted.sizes.size() >= 2);
  });
}

core::Network network(const std::vector<Samples>& samples, const NetworkInfo& about) {
  core::Network out = {.name = about.name,
                       .origin = {.kind = core::OriginKind::measured, .source = about.source},
                       .link = {},
                       .line_rate_gbps = about.line_rate_gbps,
                       .levels = {},
                       .measured = {}};
  for (const Curve& curve : curves(samples)) {
    const std::optional<core::LineFit> fit = line(curve.points);
    if (curve.first->collective == Collective::send_receive && fit)
      out.link = core::Link{.alpha_us = std::max(0.0, fit->startup_us),
                            .beta_us_per_byte = std::max(0.0, fit->us_per_byte)};
    const auto kind = entry(curve.first->collective).in_network;
    if (!kind) continue;
    core::Measured measured = {.collective = *kind,
                               .algorithm = named(curve.first->algorithm),
                               .workers = curve.first->workers,
                               .curve = core::CostCurve::through(curve.points),
                               .fit = {},
                               .spread_us = curve.spread_us,
                               .p99_us = curve.p99_us};
    if (fit)
      measured.fit = core::Fit{.r2 = fit->r2,
                               .mean_relative_error = fit->mean_relative_error,
                               .max_relative_error = fit->max_relative_error};
    out.measured.push_back(std::move(measured));
  }
  if (!out.link && out.measured.empty())
    throw core::EnvironmentError(
        "the measurements give no network: no collective that has a curve in one, and no "
        "send_receive of two sizes");
  return out;
}

std::string table(const std::vector<Samples>& samples) {
  std::string out =
      fmt::format("{:<15} {:<18} {:>9} {:>13} {:>10} {:>13} {:>11} {:>11}\n", "collective", "algorithm",
                  "size", "median us", "iqr us", "p99 us", "algbw GB/s", "busbw GB/s");
  for (const Samples& each : samples) {
    const core::Statistics times = core::statistics(each.us);
    const double gb_per_s = times.median > 0 ? static_cast<double>(each.bytes) / times.median / 1000 : 0;
    const CollectiveEntry& kind = entry(each.collective);
    out += fmt::format("{:<15} {:<18} {:>9} {:>13.1f} {:>10.1f} {:>13.1f} {:>11.4f} {:>11.4f}\n", kind.name,
                       each.ran, core::bytes_text(each.bytes), times.median, times.spread, times.p99,
                       gb_per_s, gb_per_s * kind.share(each.workers));
  }
  for (const Curve& curve : curves(samples))
    if (const auto fit = line(curve.points); fit && curve.points.size() > 2)
      out += fmt::format("{}: {:.1f} us + {:.6g} us/byte, error {:.2f} % in the mean, {:.2f} % at most\n",
                         entry(curve.first->collective).name, fit->startup_us, fit->us_per_byte,
                         100 * fit->mean_relative_error, 100 * fit->max_relative_error);
  return out + halves_table(halves(samples));
}

std::string what_ran(const std::vector<Samples>& samples) {
  std::string out;
  const Samples* before = nullptr;
  for (const Samples& each : samples) {
    const bool goes_on = before != nullptr && before->collective == each.collective;
    if (each.ran != each.algorithm && (!goes_on || before->ran != each.ran))
      out += fmt::format("{}{}{} from {}", out.empty() ? "" : ", ",
                         goes_on ? "" : fmt::format("{} ", entry(each.collective).name), each.ran,
                         core::bytes_text(each.bytes));
    before = &each;
  }
  return out;
}

std::vector<Halves> halves(const std::vector<Samples>& samples) {
  std::map<std::int64_t, Halves> by_size;
  for (const Samples& each : samples) {
    Halves& at = by_size[each.bytes];
    at.bytes = each.bytes;
    const double median = core::statistics(each.us).median;
    if (each.collective == Collective::all_reduce) at.all_reduce_us = median;
    if (each.collective == Collective::reduce_scatter) at.reduce_scatter_us = median;
    if (each.collective == Collective::all_gather) at.all_gather_us = median;
  }
  std::vector<Halves> out;
  for (const auto& [bytes, each] : by_size)
    if (each.all_reduce_us > 0 && each.reduce_scatter_us > 0 && each.all_gather_us > 0) out.push_back(each);
  return out;
}

std::string halves_text(const std::vector<Samples>& samples) {
  std::vector<double> ratios;
  for (const Halves& each : halves(samples)) ratios.push_back(each.ratio());
  if (ratios.empty()) return "";
  const auto [min, max] = std::ranges::minmax(ratios);
  return fmt::format(
      "reduce_scatter and all_gather take {:.2f} times as long as all_reduce (median of {} sizes, {:.2f} to "
      "{:.2f})",
      core::statistics(ratios).median, ratios.size(), min, max);
}

std::string csv(const std::vector<Samples>& samples) {
  std::string out = "collective,algorithm,workers,bytes,repetition,us\n";
  for (const Samples& each : samples)
    for (std::size_t i = 0; i < each.us.size(); ++i)
      out += fmt::format("{},{},{},{},{},{}\n", entry(each.collective).name, each.ran, each.workers,
                         each.bytes, i + 1, each.us[i]);
  return out;
}

}  // namespace measure
