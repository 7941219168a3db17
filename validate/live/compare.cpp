#include "validate/live/compare.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/chrome_trace.hpp"
#include "core/field.hpp"
#include "core/json_text.hpp"
#include "planner/run/slices.hpp"
#include "validate/live/names.hpp"

namespace live {
namespace {

/// Ranks (from 0) that bound the median's 95 % interval: the innermost that leave at most 2.5 % on each side.
/// (Uses logarithms, as the probability that none of a thousand values is below the median underflows.)
std::size_t lower_rank(std::size_t count) {
  const auto n = static_cast<double>(count);
  double log_chance = n * std::log(0.5);  // log probability that k of them are below the median, from k = 0
  double at_most = 0;
  std::size_t rank = 0;
  for (std::size_t k = 0; k < count; ++k) {
    at_most += std::exp(log_chance);
    if (at_most > 0.025) break;
    rank = k;
    const auto below = static_cast<double>(k);
    log_chance += std::log((n - below) / (below + 1));
  }
  return rank;
}

std::vector<double> of_iterations(const WorkerRecord& worker,
                                  const std::function<double(const Iteration&)>& quantity) {
  std::vector<double> out;
  for (const Iteration& iteration : worker.iterations) out.push_back(quantity(iteration));
  return out;
}

/// The length of each iteration: that of the slowest worker.
std::vector<double> lengths(const Record& record) {
  std::vector<double> out(record.workers.front().iterations.size());
  for (const WorkerRecord& worker : record.workers)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::max(out[i], worker.iterations[i].length_us);
  return out;
}

Compared compared(std::string quantity, std::optional<std::uint32_t> worker, double predicted_us,
                  std::vector<double> measured_us, double of_us) {
  const Median median = median_of(std::move(measured_us));
  return {.quantity = std::move(quantity),
          .worker = worker,
          .predicted_us = predicted_us,
          .measured_us = median.value,
          .min_us = median.min,
          .max_us = median.max,
          .error = (predicted_us - median.value) / of_us};
}

const Piece* find(const Iteration& iteration, const Piece& like) {
  const auto found = std::ranges::find_if(iteration.pieces, [&](const Piece& piece) {
    return piece.kind == like.kind && piece.item == like.item;
  });
  return found == iteration.pieces.end() ? nullptr : &*found;
}

// How the names of the two ends of a collective end.
constexpr std::string_view kStart = " start";
constexpr std::string_view kEnd = " end";

using Quantity = double (*)(const Iteration&);
struct NamedQuantity {
  std::string_view name;
  Quantity of;
};
constexpr NamedQuantity kQuantities[] = {
    {"forward", [](const Iteration& i) { return i.forward_us(); }},
    {"backward", [](const Iteration& i) { return i.backward_us(); }},
    {"encoding, decoding, update", [](const Iteration& i) { return i.code_us(); }},
    {"exposed communication", [](const Iteration& i) { return i.exposed_us(); }}};

void compare_worker(const WorkerRecord& worker, const Iteration& predicted, const core::Profile& profile,
                    std::size_t groups, double of_us, std::vector<Compared>& out) {
  for (const NamedQuantity& quantity : kQuantities)
    out.push_back(compared(std::string(quantity.name), worker.rank, quantity.of(predicted),
                           of_iterations(worker, quantity.of), of_us));
  for (const Piece& piece : predicted.pieces) {
    if (!piece.is_collective()) continue;
    std::vector<double> starts;
    std::vector<double> ends;
    for (const Iteration& iteration : worker.iterations)
      if (const Piece* same = find(iteration, piece)) {
        starts.push_back(same->start_us);
        ends.push_back(same->end_us);
      }
    if (starts.empty()) continue;
    const std::string what = name(piece, profile, groups);
    out.push_back(compared(what + " start", worker.rank, piece.start_us, std::move(starts), of_us));
    out.push_back(compared(what + " end", worker.rank, piece.end_us, std::move(ends), of_us));
  }
}

std::size_t median_iteration(const Record& record) {
  const std::vector<double> all = lengths(record);
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  std::ranges::nth_element(order, middle, {}, [&](std::size_t i) { return all[i]; });
  return *middle;
}

void add_iteration(const Shown& shown, const Iteration& iteration, const std::string& process,
                   std::vector<core::Track>& tracks, std::vector<core::Slice>& slices) {
  const std::size_t compute = tracks.size();
  tracks.push_back({.process = process, .thread = "compute"});
  tracks.push_back({.process = process, .thread = "communication"});
  for (const Piece& piece : iteration.pieces)
    slices.push_back({.track = compute + (piece.is_collective() ? 1 : 0),
                      .name = name(piece, *shown.profile, shown.prediction->groups.size()),
                      .category = std::string(planner::category(piece.kind)),
                      .start = sim::from_us(std::max(0.0, piece.start_us)),
                      .end = sim::from_us(std::max(0.0, piece.end_us))});
}

bool is_of_collective(const Compared& compared) {
  return compared.quantity.ends_with(kStart) || compared.quantity.ends_with(kEnd);
}

/// The entry with the greatest error among those selected, over all workers; null if none is selected.
template <typename IsLookedAt>
const Compared* furthest_off(const Comparison& comparison, const IsLookedAt& is_looked_at) {
  const Compared* out = nullptr;
  for (const Compared& each : comparison.others)
    if (is_looked_at(each) && (out == nullptr || std::abs(each.error) > std::abs(out->error))) out = &each;
  return out;
}

std::string row(const Compared& compared) {
  return fmt::format("{:<34} {:>12.3f} {:>12.3f}   {:>10.3f} to {:>10.3f} {:>8.2f} %\n", compared.quantity,
                     compared.predicted_us / 1000, compared.measured_us / 1000, compared.min_us / 1000,
                     compared.max_us / 1000, 100 * compared.error);
}

nlohmann::ordered_json compared_json(const Compared& compared) {
  nlohmann::ordered_json out = {{"quantity", compared.quantity}};
  if (compared.worker) out["worker"] = *compared.worker;
  out["predicted_us"] = compared.predicted_us;
  out["measured_us"] = compared.measured_us;
  out["min_us"] = compared.min_us;
  out["max_us"] = compared.max_us;
  out["error"] = compared.error;
  return out;
}

Compared read_compared(const core::Field& field) {
  field.allow_only({"quantity", "worker", "predicted_us", "measured_us", "min_us", "max_us", "error"});
  const auto number = [&](const char* key) {
    return field.at(key).number(-std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
  };
  Compared out = {.quantity = field.at("quantity").name(),
                  .worker = {},
                  .predicted_us = number("predicted_us"),
                  .measured_us = number("measured_us"),
                  .min_us = number("min_us"),
                  .max_us = number("max_us"),
                  .error = number("error")};
  if (const auto worker = field.find("worker"))
    out.worker = static_cast<std::uint32_t>(worker->integer(0, std::numeric_limits<std::uint32_t>::max()));
  return out;
}

}  // namespace

Median median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t count = values.size();
  const std::size_t lower = lower_rank(count);
  return {.value = (values[(count - 1) / 2] + values[count / 2]) / 2,
          .min = values[lower],
          .max = values[count - 1 - lower]};
}

Comparison compare(const RunSpec& spec, const core::Profile& profile, const Prediction& prediction,
                   const Record& record) {
  const std::vector<double> measured = lengths(record);
  const double of_us = median_of(measured).value;
  Comparison out = {.name = spec.name,
                    .iteration = compared("iteration", {}, prediction.iteration_us, measured, of_us),
                    .others = {}};
  for (std::size_t i = 0; i < record.workers.size(); ++i)
    compare_worker(record.workers[i], prediction.iterations[i], profile, prediction.groups.size(), of_us,
                   out.others);
  return out;
}

double error_of(const Comparison& comparison) { return std::abs(comparison.iteration.error); }

std::vector<Compared> greatest_errors(const Comparison& comparison) {
  std::vector<Compared> out = {comparison.iteration};
  for (const NamedQuantity& quantity : kQuantities) {
    const Compared* found =
        furthest_off(comparison, [&](const Compared& each) { return each.quantity == quantity.name; });
    const bool is_nothing = found == nullptr || (found->predicted_us == 0 && found->measured_us == 0);
    if (!is_nothing) out.push_back(*found);
  }
  return out;
}

std::vector<ComparedCollective> collectives_of_first(const Comparison& comparison) {
  std::vector<ComparedCollective> out;
  for (std::size_t i = 0; i + 1 < comparison.others.size(); ++i) {
    const Compared& start = comparison.others[i];
    const Compared& end = comparison.others[i + 1];  // which follows its start
    if (start.worker != comparison.others.front().worker || !start.quantity.ends_with(kStart)) continue;
    const std::string name = start.quantity.substr(0, start.quantity.size() - kStart.size());
    if (end.worker == start.worker && end.quantity == name + std::string(kEnd))
      out.push_back({.name = name, .start = start, .end = end});
  }
  return out;
}

std::string comparison_table(const Comparison& comparison) {
  std::string out =
      fmt::format("{}\n{:<34} {:>12} {:>12}   {:>24} {:>10}\n", core::printable(comparison.name), "",
                  "predicted ms", "measured ms", "95 % interval of median", "error");
  for (const Compared& each : greatest_errors(comparison)) out += row(each);
  const Compared* worst = furthest_off(comparison, is_of_collective);
  if (worst == nullptr) return out;
  double sum = 0;
  std::size_t count = 0;
  for (const Compared& each : comparison.others)
    if (is_of_collective(each)) sum += std::abs(each.error), ++count;
  return out +
         fmt::format("starts and ends of collectives are off by {:.2f} % on average; furthest:\n",
                     100 * sum / static_cast<double>(count)) +
         row(*worst);
}

std::string comparisons_json(const std::vector<Comparison>& comparisons, const std::string& where) {
  using nlohmann::ordered_json;
  ordered_json plans = ordered_json::array();
  for (const Comparison& comparison : comparisons) {
    ordered_json others = ordered_json::array();
    for (const Compared& each : comparison.others) others.push_back(compared_json(each));
    plans.push_back({{"name", comparison.name},
                     {"iteration", compared_json(comparison.iteration)},
                     {"quantities", std::move(others)}});
  }
  return core::json_text({{"format", "fusewise.live-validation"},
                          {"version", 1},
                          {"where", where},
                          {"plans", std::move(plans)}});
}

std::vector<Comparison> read_comparisons(const core::Field& file) {
  file.check_format("fusewise.live-validation");
  file.allow_only({"format", "version", "where", "plans"});
  std::vector<Comparison> out;
  for (const core::Field& plan : file.at("plans").non_empty_items()) {
    plan.allow_only({"name", "iteration", "quantities"});
    Comparison& read = out.emplace_back(Comparison{
        .name = plan.at("name").name(), .iteration = read_compared(plan.at("iteration")), .others = {}});
    if (!(read.iteration.measured_us > 0))
      plan.at("iteration").at("measured_us").expected("a number above 0");
    for (const core::Field& each : plan.at("quantities").items()) read.others.push_back(read_compared(each));
  }
  return out;
}

std::string timeline(const std::vector<Shown>& all) {
  std::vector<core::Track> tracks;
  std::vector<core::Slice> slices;
  for (const Shown& shown : all) {
    const std::size_t iteration = median_iteration(*shown.record);
    for (std::size_t i = 0; i < shown.record->workers.size(); ++i) {
      add_iteration(shown, shown.prediction->iterations[i],
                    fmt::format("{}: worker {}, predicted", shown.name, i), tracks, slices);
      add_iteration(shown, shown.record->workers[i].iterations[iteration],
                    fmt::format("{}: worker {}, measured", shown.name, i), tracks, slices);
    }
  }
  return core::chrome_trace(tracks, slices);
}

}  // namespace live
