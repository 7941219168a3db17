// The warnings of a fit.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/quantities.hpp"
#include "planner/cost/line_rate.hpp"
#include "profiler/fit/report.hpp"

namespace fit {
namespace {

std::string named(const traces::Series& series) {
  return fmt::format("{} on {} workers", core::name(series.collective), series.workers);
}

/// A slope under the bound makes large messages look cheaper than possible. Checks the line and the last
/// segment, which is extrapolated.
void add_slopes(std::vector<std::string>& out, const CurveFit& curve, double line_rate_gbps) {
  const double bound =
      planner::physical_us_per_byte(line_rate_gbps, curve.series.workers, curve.series.collective);
  const auto warn = [&](std::string_view what, double slope) {
    constexpr double kRounding = 1 - 1e-9;
    if (slope < bound * kRounding)
      out.push_back(
          fmt::format("{}: {} takes {:.6g} us per MB, under the physical bound of {:.6g} at {} Gb/s",
                      named(curve.series), what, slope * 1e6, bound * 1e6, line_rate_gbps));
  };
  warn("the line", curve.line.us_per_byte);
  if (curve.segments.size() > 1) warn("the last segment", curve.segments.back().line.beta_us_per_byte);
}

/// R^2 depends almost only on the large sizes, because their times are large.
void add_small_sizes(std::vector<std::string>& out, const CurveFit& curve) {
  constexpr double kGood = 0.99;
  constexpr double kOff = 0.1;
  const ModelFit& line = curve.models.front();
  if (curve.line.r2 < kGood || !line.in_sample) return;
  const std::vector<Residual>& all = line.in_sample->residuals;
  const std::size_t quarter = std::max<std::size_t>(1, all.size() / 4);
  double mean = 0;
  for (std::size_t i = 0; i < quarter; ++i) mean += std::abs(all[i].error()) / static_cast<double>(quarter);
  if (mean > kOff)
    out.push_back(
        fmt::format("{}: R^2 of one line is {:.5f}, but on sizes up to {} it is off by {:.0f} % in the mean",
                    named(curve.series), curve.line.r2, size_text(all[quarter - 1].bytes), 100 * mean));
}

void add_extrapolation(std::vector<std::string>& out, const LinkFit& link, std::int64_t workers) {
  const auto [min, max] = std::minmax_element(link.workers.begin(), link.workers.end());
  if (link.workers.size() == 1)
    out.push_back(fmt::format(
        "{} on {} workers is predicted from {} workers alone: nothing says how far it can be trusted",
        core::name(link.collective), workers, link.workers.front()));
  else if (workers < *min || workers > *max)
    out.push_back(fmt::format("{} on {} workers is extrapolated: measured on {}", core::name(link.collective),
                              workers, core::list_text(link.workers)));
}

void add_left_out(std::vector<std::string>& out, const LinkFit& link) {
  constexpr double kOff = 0.2;
  if (link.left_out && link.left_out->mean_relative_error > kOff)
    out.push_back(
        fmt::format("{}: numbers of workers predicted from the others are off by {:.0f} % in the mean: no "
                    "algorithm known here describes all of them",
                    core::name(link.collective), 100 * link.left_out->mean_relative_error));
}

}  // namespace

std::vector<std::string> warnings(const Report& report) {
  std::vector<std::string> out;
  for (const CurveFit& curve : report.curves) {
    if (report.network.line_rate_gbps && curve.series.workers > 1)
      add_slopes(out, curve, *report.network.line_rate_gbps);
    add_small_sizes(out, curve);
  }
  for (const LinkFit& link : report.links) {
    if (!report.predictions.empty()) add_left_out(out, link);
    for (const Prediction& prediction : report.predictions)
      if (prediction.collective == link.collective) {
        add_extrapolation(out, link, prediction.workers);
        out.insert(out.end(), prediction.warnings.begin(), prediction.warnings.end());
      }
  }
  return out;
}

}  // namespace fit
