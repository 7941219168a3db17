// The report as text for people.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/quantities.hpp"
#include "core/text_table.hpp"
#include "profiler/fit/report.hpp"

namespace fit {
namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string accuracy_text(const std::optional<Accuracy>& accuracy, std::string_view otherwise) {
  if (!accuracy) return std::string(otherwise);
  const Residual worst = accuracy->worst(1).front();
  return fmt::format("{:>7} {:>8} at {:>9}", percent(accuracy->mean_relative_error),
                     percent(accuracy->max_relative_error), size_text(worst.bytes));
}

void add_curve(std::string& out, const CurveFit& curve) {
  out += fmt::format("{} on {} workers: {} sizes, {} to {}; noise {}\n", core::name(curve.series.collective),
                     curve.series.workers, curve.series.points.size(),
                     size_text(curve.series.points.front().first),
                     size_text(curve.series.points.back().first), percent(curve.noise));
  std::vector<std::vector<std::string>> rows = {
      {"  model", "pieces", "off in sample: mean, worst",
       fmt::format("off on {} sizes, from {}", curve.tested_sizes, curve.fitted_sizes)}};
  for (const ModelFit& model : curve.models)
    rows.push_back({fmt::format("  {}", model.name), fmt::to_string(model.pieces),
                    accuracy_text(model.in_sample, "goes through all"),
                    accuracy_text(model.out_of_sample, "nothing to test on")});
  out += core::aligned(std::move(rows), {0});
  out += fmt::format("  {:>13} {:>13} {:>14} {:>14}\n", "from", "to", "startup us", "us per MB");
  for (const Segment& segment : curve.segments)
    out +=
        fmt::format("  {:>13} {:>13} {:>14.4f} {:>14.4f}\n", size_text(segment.from_bytes),
                    size_text(segment.to_bytes), segment.line.alpha_us, segment.line.beta_us_per_byte * 1e6);
  if (!curve.models.back().out_of_sample) return;
  constexpr std::size_t kShown = 3;
  out += "  worst points of the curve:";
  for (const Residual& residual : curve.models.back().out_of_sample->worst(kShown))
    out += fmt::format(" {} took {:.5g} us, predicted {:.5g};", size_text(residual.bytes), residual.us,
                       residual.predicted_us);
  out.back() = '\n';
}

std::string with_error(double value, double error) { return fmt::format("{:.4g} +- {:.2g}", value, error); }

void add_link(std::string& out, const LinkFit& link) {
  out += fmt::format("\npoint to point, under {} on {} workers\n", core::name(link.collective),
                     core::list_text(link.workers));
  const Line error = link.link.error.value_or(Line{});
  out += fmt::format("  one link, {}: alpha {} us, beta {} us/MB; off by {} in the mean, {} at worst\n",
                     link.algorithm, with_error(link.link.line.alpha_us, error.alpha_us),
                     with_error(link.link.line.beta_us_per_byte * 1e6, error.beta_us_per_byte * 1e6),
                     percent(link.mean_relative_error), percent(link.max_relative_error));
  out += fmt::format("  by ranges of sizes: off by {} in the mean, {} at worst\n",
                     percent(link.ranges_mean_relative_error), percent(link.ranges_max_relative_error));
  out += fmt::format("  {:>13} {:>13}  {:<18} {:>14} {:>14}\n", "from", "to", "algorithm", "alpha us",
                     "beta us/MB");
  for (const Range& range : link.ranges)
    out += fmt::format("  {:>13} {:>13}  {:<18} {:>14.4f} {:>14.4f}\n", size_text(range.from_bytes),
                       size_text(range.to_bytes), range.algorithm, range.link.alpha_us,
                       range.link.beta_us_per_byte * 1e6);
  if (link.left_out)
    out += fmt::format(
        "  each {} from the others: off by {} in the mean, {} at worst;\n"
        "  nine in ten took {:.2f} to {:.2f} times what was predicted\n",
        link.left_out->parts == link.workers.size()
            ? "number of workers"
            : fmt::format("of {} parts of the numbers of workers", link.left_out->parts),
        percent(link.left_out->mean_relative_error), percent(link.left_out->max_relative_error),
        link.left_out->min, link.left_out->max);
  else
    out +=
        "  one number of workers: the algorithm is taken for granted, and what others would take cannot be "
        "tested\n";
}

void add_prediction(std::string& out, const Prediction& prediction) {
  out +=
      fmt::format("\n{} on {} workers, predicted\n  {:>13} {:>14} {:>32}\n",
                  core::name(prediction.collective), prediction.workers, "size", "us", "nine in ten between");
  for (const PredictedTime& time : prediction.times)
    out += fmt::format("  {:>13} {:>14.2f} {:>32}\n", size_text(time.bytes), time.us,
                       time.between_us
                           ? fmt::format("{:.2f} and {:.2f}", time.between_us->first, time.between_us->second)
                           : "not known");
}

}  // namespace

std::string report_table(const Report& report) {
  std::string out;
  for (const CurveFit& curve : report.curves) {
    if (!out.empty()) out += '\n';
    add_curve(out, curve);
  }
  for (const LinkFit& link : report.links) add_link(out, link);
  for (const Prediction& prediction : report.predictions) add_prediction(out, prediction);
  return out;
}

}  // namespace fit
