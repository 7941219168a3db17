#include "profiler/fit/report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/quantities.hpp"
#include "planner/cost/extrapolate.hpp"
#include "planner/cost/line_rate.hpp"
#include "sim/draws.hpp"

namespace fit {
namespace {

/// Returns the requested algorithm, or the one in the log if it is known here.
std::string algorithm_of(const traces::Series& series, const Options& options) {
  if (!options.algorithm.empty() || !series.algorithm) return options.algorithm;
  const auto known = link_algorithms();
  return std::ranges::find(known, *series.algorithm) == known.end() ? "" : *series.algorithm;
}

using Alike = std::vector<traces::Series>;

/// The series of each collective and algorithm; a single worker sends nothing.
std::vector<Alike> alike_series(const std::vector<traces::Series>& all) {
  std::vector<Alike> alike;
  for (const traces::Series& series : all) {
    if (series.workers <= 1) continue;
    const auto group = std::ranges::find_if(alike, [&](const auto& each) {
      return each.front().collective == series.collective && each.front().algorithm == series.algorithm;
    });
    if (group == alike.end())
      alike.push_back({series});
    else if (group->back().workers != series.workers)
      group->push_back(series);
  }
  return alike;
}

std::vector<LinkFit> fit_links(const std::vector<Alike>& alike, const Options& options) {
  std::vector<LinkFit> out;
  out.reserve(alike.size());
  for (const Alike& group : alike) {
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

/// Whether the fitted link predicts numbers of workers that were left out closely, and better than scaled
/// curves do, as on a network that is a link with alpha and beta; or, where those are refused, well enough.
/// Its startups must not be below 0. Two numbers of workers cannot tell by which algorithm, so it is the ring
/// unless stated.
bool is_trusted(const LinkFit& link, const planner::Extrapolation& scaled, bool is_stated) {
  constexpr double kClose = 0.05;
  const bool tells_algorithm = is_stated || link.workers.size() > 2;
  const bool physical = std::ranges::all_of(link.ranges, [&](const Range& range) {
    return range.link.alpha_us >= 0 && (tells_algorithm || range.algorithm == "ring");
  });
  if (!physical || !link.left_out) return false;
  const double its = link.left_out->mean_relative_error;
  const double of_scaled = scaled.left_out_error.value_or(its + 1);
  if (of_scaled > planner::kMaxLeftOutError && tells_algorithm) return its <= planner::kMaxLeftOutError;
  return its < kClose && its < of_scaled;
}

/// Times on a number of workers that was not measured.
struct Predicted {
  core::CostCurve curve;
  double low_factor = 1;
  double high_factor = 1;
  std::vector<planner::Peak> peaks = {};
  std::string source;

  double high_factor_at(double bytes) const { return high_factor * planner::peak_factor(peaks, bytes); }
};

/// Predicts one collective from the series that measured it.
class Predictor {
 public:
  Predictor(const Alike& group, const LinkFit& link, const Options& options)
      : link_(link),
        named_(algorithm_of(group.front(), options)),
        algorithm_{.name = named_.empty() ? "ring" : named_},
        line_rate_gbps_(options.line_rate_gbps) {
    for (const traces::Series& series : group)
      curves_.try_emplace(series.workers, traces::curve_through(series));
    for (const auto& [workers, curve] : curves_)
      measured_.push_back({.workers = workers, .curve = &curve, .is_stated = !named_.empty()});
  }

  /// The measured curve, if there is one.
  const core::CostCurve* measured(std::int64_t workers) const {
    const auto found = curves_.find(workers);
    return found == curves_.end() ? nullptr : &found->second;
  }

  const Predicted& on(std::int64_t workers) {
    const auto found = predicted_.find(workers);
    return found != predicted_.end() ? found->second
                                     : predicted_.emplace(workers, work_out(workers)).first->second;
  }

 private:
  Predicted work_out(std::int64_t workers) const {
    const planner::Extrapolation scaled =
        planner::extrapolate(measured_, workers, algorithm_, link_.collective);
    const bool by_link = is_trusted(link_, scaled, !named_.empty());
    if (!by_link && scaled.left_out_error && *scaled.left_out_error > planner::kMaxLeftOutError)
      throw core::InputError(fmt::format(
          "--predict-workers: expected numbers of workers that the measured ones tell something "
          "about ({} on {} predict one another with a mean error of {:.0f} %; measure it on {}), got {}",
          core::name(link_.collective), core::list_text(link_.workers), 100 * *scaled.left_out_error, workers,
          workers));
    Predicted out;
    if (by_link) {
      const auto [low, high] = planner::with_untested(
          {std::min(1.0, link_.left_out->min), std::max(1.0, link_.left_out->max)}, measured_, workers);
      out = {.curve = curve_of(link_, workers),
             .low_factor = low,
             .high_factor = high,
             .source = "the fitted link"};
    } else {
      out = {.curve = scaled.curve,
             .low_factor = scaled.low_factor,
             .high_factor = scaled.high_factor,
             .peaks = scaled.peaks,
             .source = fmt::format(
                 "{} workers ({})", fmt::join(scaled.from, " and "),
                 planner::growth_text(scaled.growth, algorithm_, std::max(workers, scaled.from.back())))};
    }
    if (!line_rate_gbps_) return out;
    out.curve = planner::raised(out.curve,
                                planner::physical_us_per_byte(*line_rate_gbps_, workers, link_.collective));
    return out;
  }

  const LinkFit& link_;
  std::string named_;
  planner::Algorithm algorithm_;
  std::optional<double> line_rate_gbps_;
  std::map<std::int64_t, core::CostCurve> curves_;
  std::vector<planner::MeasuredOn> measured_;
  std::map<std::int64_t, Predicted> predicted_;
};

/// The range of a predicted time as an interquartile range, so that a simulation shows it as an interval: 95
/// % of a normal distribution are 3.92, and half of it is 1.349, standard deviations wide.
std::vector<double> spread_of(const Predicted& predicted) {
  std::vector<double> out;
  constexpr double kShare = 1.349 / 3.92;
  for (const auto& [bytes, us] : predicted.curve.points())
    out.push_back(kShare * sim::portable_log(predicted.high_factor_at(bytes) / predicted.low_factor) * us);
  return out;
}

Prediction predict(Predictor& predictor, const LinkFit& link, std::int64_t workers) {
  Prediction out = {.collective = link.collective, .workers = workers, .times = {}, .warnings = {}};
  const core::CostCurve* const measured = predictor.measured(workers);
  const Predicted* const predicted = measured == nullptr ? &predictor.on(workers) : nullptr;
  for (const double bytes : sizes_to_show(link)) {
    PredictedTime time = {.bytes = bytes,
                          .us = (predicted != nullptr ? predicted->curve : *measured).us(bytes),
                          .between_us = {}};
    if (predicted != nullptr)
      time.between_us = {time.us * predicted->low_factor, time.us * predicted->high_factor_at(bytes)};
    out.times.push_back(time);
  }
  if (predicted != nullptr)
    for (const planner::Peak& peak : predicted->peaks)
      out.warnings.push_back(fmt::format("{} on {} workers: {}", core::name(link.collective), workers,
                                         planner::text_of(peak, predicted->high_factor)));
  return out;
}

/// Sorted, without the measured numbers of workers.
std::vector<std::int64_t> not_measured(std::vector<std::int64_t> wanted, const LinkFit& link) {
  std::ranges::sort(wanted);
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::erase_if(wanted, [&](std::int64_t workers) {
    return std::ranges::find(link.workers, workers) != link.workers.end();
  });
  return wanted;
}

core::Fit fit_of(const core::LineFit& line) {
  return {.r2 = line.r2,
          .mean_relative_error = line.mean_relative_error,
          .max_relative_error = line.max_relative_error};
}

/// `predictors` are those of the links; none where nothing is predicted.
core::Network network_of(const Report& report, const traces::Measurements& measurements,
                         std::vector<Predictor>& predictors, const Options& options) {
  core::Network out = traces::network_of(measurements, options.name);
  out.line_rate_gbps = options.line_rate_gbps;
  if (options.write_segments)
    for (std::size_t i = 0; i < out.measured.size(); ++i) {
      out.measured[i].curve = curve_of(report.curves[i].segments);
      out.measured[i].spread_us.clear();  // valid for measured points only
      out.measured[i].p99_us.clear();
    }
  std::vector<std::string> predicted;
  for (std::size_t i = 0; i < report.links.size(); ++i) {
    const LinkFit& link = report.links[i];
    if (!out.link && link.collective == core::CollectiveKind::all_reduce && link.workers.size() > 1)
      out.link = core::Link{.alpha_us = link.link.line.alpha_us,
                            .beta_us_per_byte = link.link.line.beta_us_per_byte,
                            .gamma_us_per_byte = 0};
    for (const std::int64_t workers : not_measured(options.predict, link)) {
      out.measured.push_back({.collective = link.collective,
                              .algorithm = link.measured_algorithm,
                              .workers = workers,
                              .curve = {}});
      const Predicted& found = predictors[i].on(workers);
      out.measured.back().curve = found.curve;
      out.measured.back().spread_us = spread_of(found);
      predicted.push_back(
          fmt::format("{} on {} workers from {}", core::name(link.collective), workers, found.source));
    }
  }
  if (out.link) out.origin.source += "; link fitted to all of them, gamma is part of beta";
  if (!predicted.empty())
    out.origin.source += fmt::format("; PREDICTED, not measured: {}", fmt::join(predicted, ", "));
  return out;
}

}  // namespace

Report fit(const traces::Measurements& measurements, const Options& options) {
  Report out;
  for (const traces::Series& series : measurements.series)
    out.curves.push_back(fit_curve(series, options.test, options.segments));
  const std::vector<Alike> alike = alike_series(measurements.series);
  out.links = fit_links(alike, options);
  if (!options.predict.empty() && out.links.empty())
    throw core::InputError("--predict-workers: expected measurements on two workers or more, got none");
  std::vector<Predictor> predictors;
  predictors.reserve(out.links.size());
  for (std::size_t i = 0; i < out.links.size() && !options.predict.empty(); ++i)
    predictors.emplace_back(alike[i], out.links[i], options);
  for (std::size_t i = 0; i < predictors.size(); ++i)
    for (const std::int64_t workers : options.predict)
      out.predictions.push_back(predict(predictors[i], out.links[i], workers));
  out.network = network_of(out, measurements, predictors, options);
  for (std::size_t i = 0; i < out.curves.size(); ++i)
    out.network.measured[i].fit = fit_of(out.curves[i].line);
  out.warnings = traces::curve_warnings(measurements.series);
  const std::vector<std::string> of_fit = warnings(out);
  out.warnings.insert(out.warnings.end(), of_fit.begin(), of_fit.end());
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
