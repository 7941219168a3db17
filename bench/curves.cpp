// Prints the tables of docs/networks.md: how well ways of reading a curve between its points do where points
// are sparse, and how well curves of some numbers of workers predict others, on the bundled networks.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/bundled.hpp"
#include "planner/cost/extrapolate.hpp"
#include "profiler/traces/import.hpp"

namespace {

using core::CollectiveKind;
using Points = std::vector<std::pair<double, double>>;
using Curve = std::function<double(double bytes)>;

double mean(const std::vector<double>& all) {
  double sum = 0;
  for (const double each : all) sum += each;
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}

double largest(const std::vector<double>& all) { return all.empty() ? 0 : *std::ranges::max_element(all); }

std::size_t piece_of(const Points& points, double bytes) {
  std::size_t i = 0;
  while (i + 2 < points.size() && points[i + 1].first <= bytes) ++i;
  return i;
}

// ---- between points

Curve lines(const Points& points) {
  return [curve = core::CostCurve::through(points)](double bytes) { return curve.us(bytes); };
}

Points logarithms(const Points& points) {
  Points out;
  for (const auto& [bytes, us] : points) out.emplace_back(std::log(bytes), std::log(us));
  return out;
}

Curve lines_in_logarithms(const Points& points) {
  return [logs = logarithms(points)](double bytes) {
    const double x = std::log(bytes);
    const std::size_t i = piece_of(logs, x);
    const double t = (x - logs[i].first) / (logs[i + 1].first - logs[i].first);
    return std::exp((1 - t) * logs[i].second + t * logs[i + 1].second);
  };
}

/// Slopes at the points of a cubic that rises where they rise (Fritsch and Butland).
std::vector<double> monotone_slopes(const Points& points) {
  std::vector<double> lines;
  for (std::size_t i = 0; i + 1 < points.size(); ++i)
    lines.push_back((points[i + 1].second - points[i].second) / (points[i + 1].first - points[i].first));
  std::vector<double> out = {lines.front()};
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const double product = lines[i - 1] * lines[i];
    const double before = points[i].first - points[i - 1].first;
    const double after = points[i + 1].first - points[i].first;
    const double w = (before + 2 * after) / (3 * (before + after));
    out.push_back(product > 0 ? product / (w * lines[i] + (1 - w) * lines[i - 1]) : 0);
  }
  out.push_back(lines.back());
  return out;
}

/// A monotone cubic through logarithms of sizes and times.
Curve cubic_in_logarithms(const Points& points) {
  const Points logs = logarithms(points);
  return [logs, slopes = monotone_slopes(logs)](double bytes) {
    const double x = std::log(bytes);
    const std::size_t i = piece_of(logs, x);
    const double h = logs[i + 1].first - logs[i].first;
    const double t = (x - logs[i].first) / h;
    return std::exp((1 + 2 * t) * (1 - t) * (1 - t) * logs[i].second + h * t * (1 - t) * (1 - t) * slopes[i] +
                    t * t * (3 - 2 * t) * logs[i + 1].second + h * t * t * (t - 1) * slopes[i + 1]);
  };
}

/// As `fusewise import` and `fit` write it.
Curve lines_with_jump(const core::Measured& measured, const Points& points) {
  const traces::Series series = {
      .path = {}, .collective = measured.collective, .workers = measured.workers, .points = points};
  return [curve = traces::curve_through(series)](double bytes) { return curve.us(bytes); };
}

struct Way {
  const char* name;
  std::function<Curve(const core::Measured& measured, const Points& points)> through;
};
const std::array<Way, 4>& ways() {
  const auto by_points = [](Curve (*through)(const Points&)) {
    return [through](const core::Measured&, const Points& points) { return through(points); };
  };
  static const std::array<Way, 4> kWays = {
      Way{"straight lines", by_points(lines)}, Way{"lines in log-log", by_points(lines_in_logarithms)},
      Way{"monotone cubic in log-log", by_points(cubic_in_logarithms)},
      Way{"straight lines, and NCCL's change of protocol", lines_with_jump}};
  return kWays;
}

Points every(const Points& points, std::size_t step) {
  Points out;
  for (std::size_t i = 0; i < points.size(); i += step) out.push_back(points[i]);
  if ((points.size() - 1) % step != 0) out.push_back(points.back());
  return out;
}

std::vector<double> errors(const Curve& curve, const Points& measured, const Points& kept) {
  std::vector<double> out;
  for (const auto& point : measured)
    if (std::ranges::find(kept, point) == kept.end())
      out.push_back(std::abs(curve(point.first) / point.second - 1));
  return out;
}

std::vector<std::pair<std::string, core::Network>> networks() {
  std::vector<std::pair<std::string, core::Network>> out;
  for (const core::BundledFile& each : core::bundled_networks())
    out.emplace_back(each.name, core::read_network(*core::find_bundled_network(each.name)));
  return out;
}

void print_interpolation() {
  fmt::print(
      "| kept | way | mean of all curves | worst curve | worst point |\n| --- | --- | ---: | ---: | ---: "
      "|\n");
  for (const std::size_t step : {2U, 4U})
    for (const Way& way : ways()) {
      std::vector<double> means;
      double worst = 0;
      for (const auto& [name, network] : networks())
        for (const core::Measured& measured : network.measured) {
          const Points& all = measured.curve.points();
          const Points kept = every(all, step);
          const std::vector<double> off = errors(way.through(measured, kept), all, kept);
          means.push_back(mean(off));
          worst = std::max(worst, largest(off));
        }
      fmt::print("| every {} size | {} | {:.2f} % | {:.1f} % | {:.0f} % |\n", step == 2 ? "second" : "fourth",
                 way.name, 100 * mean(means), 100 * largest(means), 100 * worst);
    }
}

// ---- other numbers of workers

std::vector<planner::MeasuredOn> curves_of(const core::Network& network, CollectiveKind kind) {
  std::vector<planner::MeasuredOn> out;
  for (const core::Measured& each : network.measured)
    if (each.collective == kind) out.push_back({.workers = each.workers, .curve = &each.curve});
  return out;
}

/// The nearest curve times the ratio of what a ring sends per byte.
Curve nearest_times_ring(const planner::MeasuredOn& nearest, std::int64_t workers) {
  const auto passes = [](std::int64_t p) { return static_cast<double>(p - 1) / static_cast<double>(p); };
  const double ratio = passes(workers) / passes(nearest.workers);
  return [=](double bytes) { return ratio * nearest.curve->us(bytes); };
}

void print_extrapolation(const std::string& name, CollectiveKind kind, std::vector<planner::MeasuredOn> known,
                         const planner::MeasuredOn& truth) {
  const planner::Extrapolation found = planner::extrapolate(known, truth.workers, {}, kind);
  const Points& points = truth.curve->points();
  constexpr double kSmall = 1 << 16;
  constexpr double kLarge = 1 << 25;
  const auto of = [&](const Curve& curve) {
    std::vector<double> small;
    std::vector<double> middle;
    std::vector<double> large;
    for (const auto& [bytes, us] : points)
      (bytes <= kSmall ? small : bytes < kLarge ? middle : large).push_back(std::abs(curve(bytes) / us - 1));
    return fmt::format("{:.1f} % ({:.1f}, {:.1f}, {:.1f})", 100 * mean(errors(curve, points, {})),
                       100 * mean(small), 100 * mean(middle), 100 * mean(large));
  };
  std::size_t inside = 0;
  for (const auto& [bytes, us] : points)
    inside +=
        us >= found.low_factor * found.curve.us(bytes) && us <= found.high_factor * found.curve.us(bytes);
  std::string from;
  for (const planner::MeasuredOn& each : known)
    from += fmt::format("{}{}", from.empty() ? "" : ", ", each.workers);
  const bool refused = found.left_out_error && *found.left_out_error > planner::kMaxLeftOutError;
  fmt::print("| {} | {} | {} -> {} | {} | {} | {} | {:.2f} to {:.2f} | {:.0f} % |{}\n", name,
             core::name(kind), from, truth.workers, of([&](double bytes) { return found.curve.us(bytes); }),
             of(nearest_times_ring(truth.workers > known.back().workers ? known.back() : known.front(),
                                   truth.workers)),
             found.left_out_error ? fmt::format("{:.0f} %", 100 * *found.left_out_error) : "-",
             found.low_factor, found.high_factor,
             100.0 * static_cast<double>(inside) / static_cast<double>(points.size()),
             refused ? " refused |" : " |");
}

void print_extrapolations() {
  fmt::print(
      "| network | collective | workers | error | nearest times ring factor | left-out error | range | "
      "inside it | |\n| --- | --- | --- | ---: | ---: | ---: | --- | ---: | --- |\n");
  for (const auto& [name, network] : networks())
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
      const std::vector<planner::MeasuredOn> all = curves_of(network, kind);
      for (std::size_t i = 1; i < all.size(); ++i) {
        if (i > 1)
          print_extrapolation(name, kind, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i)},
                              all[i]);
        print_extrapolation(name, kind, {all[i - 1]}, all[i]);
      }
      for (std::size_t i = 0; i + 1 < all.size(); ++i) {  // to fewer workers
        if (i + 2 < all.size())
          print_extrapolation(name, kind, {all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end()},
                              all[i]);
        print_extrapolation(name, kind, {all[i + 1]}, all[i]);
      }
    }
}

// ---- halves

void print_halves() {
  fmt::print(
      "| network | workers | (reduce-scatter + all-gather) / all-reduce, smallest size | 1 MiB | largest "
      "size |\n"
      "| --- | ---: | ---: | ---: | ---: |\n");
  for (const auto& [name, network] : networks()) {
    const auto whole = curves_of(network, CollectiveKind::all_reduce);
    const auto first = curves_of(network, CollectiveKind::reduce_scatter);
    const auto second = curves_of(network, CollectiveKind::all_gather);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto ratio = [&](double bytes) {
        return (first[i].curve->us(bytes) + second[i].curve->us(bytes)) / whole[i].curve->us(bytes);
      };
      const Points& points = whole[i].curve->points();
      fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", name, whole[i].workers,
                 ratio(points.front().first), ratio(1 << 20), ratio(points.back().first));
    }
  }
}

}  // namespace

int main() {
  print_interpolation();
  fmt::print("\n");
  print_extrapolations();
  fmt::print("\n");
  print_halves();
}
