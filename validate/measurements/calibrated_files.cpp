#include "validate/measurements/calibrated_files.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/limits.hpp"
#include "planner/cost/costs.hpp"
#include "validate/measurements/calibration_text.hpp"

namespace validate {
namespace {

/// An interquartile range from a standard deviation of the logarithm.
constexpr double kRangeOfNormal = 1.349;

std::string file_name(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '.' || c == '_' || c == '-';
    out += is_plain ? c : '-';
  }
  return out;
}

class Writer {
 public:
  Writer(const Calibration& calibration, const Predictor& predictor,
         const std::vector<std::int64_t>& more_workers, const std::string& source)
      : calibration_(calibration), predictor_(predictor), more_workers_(more_workers), source_(source) {}

  std::vector<CalibratedFile> run() {
    std::vector<CalibratedFile> out;
    std::set<std::pair<std::size_t, std::size_t>> pairs;
    std::set<std::size_t> networks;
    for (std::size_t i = 0; i < calibration_.rows.size(); ++i) {
      const Predictor::Configuration& of = configuration(i);
      pairs.emplace(of.model, of.network);
      if (calibration_.rows[i].is_calibrated_on && of.row.workers > 1) networks.insert(of.network);
    }
    for (const std::size_t network : networks)
      out.push_back({.name = own_name(file_name(predictor_.networks()[network]), ".network.json"),
                     .text = core::network_text(network_file(network))});
    for (const auto& [model, network] : pairs)
      if (networks.count(network) > 0)
        out.push_back({.name = own_name(fmt::format("{}-on-{}", file_name(predictor_.models()[model]),
                                                    file_name(predictor_.networks()[network])),
                                        ".profile.json"),
                       .text = profile_file(model, network)});
    return out;
  }

 private:
  /// Names that differ in characters that a file's name does not keep get numbers.
  std::string own_name(const std::string& stem, const std::string& extension) {
    std::string out = stem + extension;
    for (int number = 2; !names_.insert(out).second; ++number)
      out = fmt::format("{}-{}{}", stem, number, extension);
    return out;
  }

  const Predictor::Configuration& configuration(std::size_t row) const {
    return predictor_.configurations()[predictor_.configuration_of(row)];
  }

  /// "FITTED by `fusewise calibrate` to 12 rows of runs.csv: ...; the rest is from: ..."
  core::Origin origin(const std::string& owner, bool of_model, const core::Origin& before) const {
    std::string numbers;
    for (const FittedNumber& each : calibration_.fitted)
      if (each.number.owner == owner && is_of_model(each.number.quantity) == of_model)
        numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", words(each, predictor_));
    if (numbers.empty()) numbers = "nothing of it could be fitted";
    return {.kind = core::OriginKind::estimated,
            .source =
                fmt::format("FITTED by fusewise calibrate to {} rows of {}: {} (95 % intervals){}; the rest "
                            "is from: {}",
                            calibration_.calibrated_rows, source_, numbers, error_text(), before.source)};
  }

  std::string error_text() const {
    if (calibration_.cross_validated_error == 0) return "; too few rows for cross-validation";
    return fmt::format("; cross-validated mean error {:.1f} %", 100 * calibration_.cross_validated_error);
  }

  std::set<std::int64_t> workers_of(std::size_t network) const {
    std::set<std::int64_t> out(more_workers_.begin(), more_workers_.end());
    std::int64_t largest = 2;
    for (std::size_t i = 0; i < calibration_.rows.size(); ++i)
      if (configuration(i).network == network) {
        out.insert(configuration(i).row.workers);
        largest = std::max(largest, configuration(i).row.workers);
      }
    for (std::int64_t p = 2; p <= std::min(2 * largest, core::kMaxWorkers); p *= 2) out.insert(p);
    out.erase(1);
    return out;
  }

  std::map<std::string, planner::Algorithm> algorithms_of(std::size_t network) const {
    std::map<std::string, planner::Algorithm> out;
    for (const Predictor::Configuration& each : predictor_.configurations())
      if (each.network == network) out.emplace(each.all_reduce.name, each.all_reduce);
    return out;
  }

  double largest_model_bytes(std::size_t network) const {
    double out = 1;
    for (const Predictor::Configuration& each : predictor_.configurations()) {
      if (each.network != network) continue;
      const core::Profile& profile = predictor_.profile(each.model);
      out = std::max(
          out, static_cast<double>(core::parameter_count(profile) * core::bytes_per_element(profile.dtype)));
    }
    return out;
  }

  /// A curve whose last piece has no end, which no network file can hold, as points up to `far_bytes`.
  static core::CostCurve with_points(const core::CostCurve& curve, double far_bytes) {
    const auto& segments = curve.segments();
    if (!curve.points().empty() || (!segments.empty() && std::isfinite(segments.back().to_bytes)))
      return curve;
    std::vector<double> sizes = {0};
    for (const core::CostCurve::Segment& segment : segments)
      if (segment.from_bytes > 0) sizes.push_back(segment.from_bytes);
    sizes.push_back(std::max(far_bytes, 2 * sizes.back()));
    std::vector<std::pair<double, double>> points;
    for (const double bytes : sizes) points.emplace_back(bytes, curve.us(bytes));
    return core::CostCurve::through(points);
  }

  /// A curve with its uncertainty: the first point has that of startups, the others that of times per byte.
  static core::Measured with_spread(core::Measured measured, const LevelDeviation& deviation,
                                    double far_bytes) {
    measured.curve = with_points(measured.curve, far_bytes);
    const auto& points = measured.curve.points();
    measured.spread_us.clear();
    measured.p99_us.clear();
    measured.fit.reset();
    for (std::size_t i = 0; i < points.size(); ++i)
      measured.spread_us.push_back(kRangeOfNormal * points[i].second *
                                   (i == 0 ? deviation.startup : deviation.per_byte));
    return measured;
  }

  core::Network network_file(std::size_t index) const {
    const NetworkNumbers& numbers = calibration_.numbers.networks[index];
    const core::Network base = predictor_.calibrated_network(index, numbers);
    core::Network out = base;
    out.name = base.name + "-calibrated";
    out.origin = origin(predictor_.networks()[index], false, base.origin);
    out.measured.clear();
    bool needs_nodes = false;
    const double far_bytes = largest_model_bytes(index);
    for (const auto& [name, algorithm] : algorithms_of(index)) {
      needs_nodes = needs_nodes || planner::algorithm_entry(name).needs_nodes;
      for (const std::int64_t workers : workers_of(index)) {
        const std::size_t level = outermost_level(base, workers);
        add_curves(with_fixed_startup(base, workers, algorithm, numbers.levels.at(level).fixed_startup_us),
                   algorithm, workers, calibration_.deviations[index].at(level), far_bytes, out);
      }
    }
    const bool has_fixed = std::ranges::any_of(
        numbers.levels, [](const LevelNumbers& each) { return each.fixed_startup_us > 0; });
    if (has_fixed && !out.measured.empty()) out.link.reset();
    if (has_fixed && !out.measured.empty() && !needs_nodes) out.levels.clear();
    return out;
  }

  static void add_curves(const core::Network& network, const planner::Algorithm& algorithm,
                         std::int64_t workers, const LevelDeviation& deviation, double far_bytes,
                         core::Network& out) {
    const planner::Costs costs(network, workers, algorithm);
    for (const core::CollectiveKind kind :
         {core::CollectiveKind::all_reduce, core::CollectiveKind::reduce_scatter,
          core::CollectiveKind::all_gather}) {
      try {
        out.measured.push_back(with_spread({.collective = kind,
                                            .algorithm = algorithm.name,
                                            .workers = workers,
                                            .curve = costs.of(kind).curve,
                                            .fit = {}},
                                           deviation, far_bytes));
      } catch (const core::Unsupported&) {  // NOLINT(bugprone-empty-catch): that cost is not known
      }
    }
  }

  std::string profile_file(std::size_t model, std::size_t network) const {
    core::Profile out = predictor_.calibrated_profile(model, calibration_.numbers.models[model]);
    out.origin = origin(predictor_.models()[model], true, out.origin);
    const planner::Overlap& fitted = calibration_.numbers.networks[network].overlap;
    core::ProfileOverlap overlap = {.compute_slowdown = fitted.compute_slowdown,
                                    .communication_slowdown = fitted.communication_slowdown};
    if (const auto& stated = predictor_.overlap(model)) overlap = *stated;
    const bool slows = overlap.compute_slowdown > 0 || overlap.communication_slowdown > 0;
    if (slows && !predictor_.overlap(model))
      out.origin.source += "; FITTED overlap: " + overlap_words(predictor_.networks()[network]);
    return slows ? core::profile_text(out, overlap) : core::profile_text(out);
  }

  std::string overlap_words(const std::string& network) const {
    std::string out;
    for (const FittedNumber& each : calibration_.fitted)
      if (each.number.owner == network && (each.number.quantity == FittedQuantity::communication_slowdown ||
                                           each.number.quantity == FittedQuantity::compute_slowdown))
        out += fmt::format("{}{}", out.empty() ? "" : ", ", words(each, predictor_));
    return out;
  }

  const Calibration& calibration_;
  const Predictor& predictor_;
  const std::vector<std::int64_t>& more_workers_;
  const std::string& source_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<CalibratedFile> calibrated_files(const Calibration& calibration, const Predictor& predictor,
                                             const std::vector<std::int64_t>& more_workers,
                                             const std::string& source) {
  return Writer(calibration, predictor, more_workers, source).run();
}

}  // namespace validate
