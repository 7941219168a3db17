#include "profiler/fit/report.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"

namespace fit {
namespace {

/// Returns the requested algorithm, or the one in the log if it is known here.
std::string algorithm_of(const traces::Series& series, const Options& options) {
  if (!options.algorithm.empty() || !series.algorithm) return options.algorithm;
  const auto known = link_algorithms();
  return std::find(known.begin(), known.end(), *series.algorithm) == known.end() ? "" : *series.algorithm;
}

/// Fits a link for each collective and algorithm; a single worker sends nothing.
std::vector<LinkFit> fit_links(const std::vector<traces::Series>& all, const Options& options) {
  std::vector<std::vector<traces::Series>> alike;
  for (const traces::Series& series : all) {
    if (series.workers <= 1) continue;
    const auto group = std::find_if(alike.begin(), alike.end(), [&](const auto& each) {
      return each.front().collective == series.collective && each.front().algorithm == series.algorithm;
    });
    if (group == alike.end())
      alike.push_back({series});
    else if (group->back().workers != series.workers)
      group->push_back(series);
  }
  std::vector<LinkFit> out;
  out.reserve(alike.size());
  for (const std::vector<traces::Series>& group : alike) {
    out.push_back(fit_link(group, algorithm_of(group.front(), options), options.segments));
    out.back().measured_algorithm = group.front().algorithm;
  }
  return out;
}

/// Returns the powers of four within the measured sizes, and both ends.
std::vector<double> sizes_to_show(const LinkFit& link) {
  constexpr double kStep = 4;
  std::vector<double> sizes = {link.min_bytes};
  for (double size = 1; size < link.max_bytes; size *= kStep)
    if (size > link.min_bytes) sizes.push_back(size);
  if (link.max_bytes > link.min_bytes) sizes.push_back(link.max_bytes);
  return sizes;
}

Prediction predict(const LinkFit& link, std::int64_t workers) {
  Prediction out = {.collective = link.collective, .workers = workers, .times = {}};
  for (const double bytes : sizes_to_show(link)) {
    PredictedTime time = {.bytes = bytes, .us = link.us(workers, bytes), .between_us = {}};
    if (link.left_out) time.between_us = {time.us * link.left_out->min, time.us * link.left_out->max};
    out.times.push_back(time);
  }
  return out;
}

/// Sorted, without the measured numbers of workers.
std::vector<std::int64_t> not_measured(std::vector<std::int64_t> wanted, const LinkFit& link) {
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::erase_if(wanted, [&](std::int64_t workers) {
    return std::find(link.workers.begin(), link.workers.end(), workers) != link.workers.end();
  });
  return wanted;
}

core::Fit fit_of(const core::LineFit& line) {
  return {.r2 = line.r2,
          .mean_relative_error = line.mean_relative_error,
          .max_relative_error = line.max_relative_error};
}

core::Network network_of(const Report& report, const traces::Measurements& measurements,
                         const Options& options) {
  core::Network out = traces::network_of(measurements, options.name);
  out.line_rate_gbps = options.line_rate_gbps;
  if (options.write_segments)
    for (std::size_t i = 0; i < out.measured.size(); ++i) {
      out.measured[i].curve = curve_of(report.curves[i].segments);
      out.measured[i].spread_us.clear();  // valid for measured points only
      out.measured[i].p99_us.clear();
    }
  std::vector<std::int64_t> predicted;
  for (const LinkFit& link : report.links) {
    if (!out.link && link.collective == core::CollectiveKind::all_reduce && link.workers.size() > 1)
      out.link = core::Link{.alpha_us = link.link.line.alpha_us,
                            .beta_us_per_byte = link.link.line.beta_us_per_byte,
                            .gamma_us_per_byte = 0};
    for (const std::int64_t workers : not_measured(options.predict, link)) {
      out.measured.push_back({.collective = link.collective,
                              .algorithm = link.measured_algorithm,
                              .workers = workers,
                              .curve = curve_of(link, workers)});
      predicted.push_back(workers);
    }
  }
  if (out.link) out.origin.source += "; link fitted to all of them, gamma is part of beta";
  if (!predicted.empty())
    out.origin.source += fmt::format("; PREDICTED, not measured: {} workers", fmt::join(predicted, ", "));
  return out;
}

}  // namespace

Report fit(const traces::Measurements& measurements, const Options& options) {
  Report out;
  for (const traces::Series& series : measurements.series)
    out.curves.push_back(fit_curve(series, options.test, options.segments));
  out.links = fit_links(measurements.series, options);
  if (!options.predict.empty() && out.links.empty())
    throw core::InputError("--predict-workers: expected measurements on two workers or more, got none");
  for (const LinkFit& link : out.links)
    for (const std::int64_t workers : options.predict) out.predictions.push_back(predict(link, workers));
  out.network = network_of(out, measurements, options);
  for (std::size_t i = 0; i < out.curves.size(); ++i)
    out.network.measured[i].fit = fit_of(out.curves[i].line);
  out.warnings = warnings(out);
  return out;
}

std::string size_text(double bytes) {
  constexpr double kKibi = 1024;
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >= kKibi) {
    bytes /= kKibi;
    ++unit;
  }
  return fmt::format("{:.4g} {}", bytes, kUnits.at(unit));
}

}  // namespace fit
