// Writes the result of considering compression as text and as JSON.

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"
#include "planner/advise/consider.hpp"

namespace planner {
namespace {

using core::percent;
using core::size_text;
using nlohmann::ordered_json;

using Row = std::array<std::string, 8>;

/// Formats "dgc" or "dgc or none".
std::string kind_of(const Candidate& candidate) {
  return core::one_line(candidate.compressor) + (candidate.is_per_group ? " or none" : "");
}

std::string with_density(const std::string& compressor, const std::optional<double>& density) {
  const std::string name = core::one_line(compressor);
  return density ? fmt::format("{} at density {}", name, *density) : name;
}

const Candidate& best_of(const Consideration& all) { return all.candidates[all.best]; }

/// Whether a per-group choice gains nothing over the candidate before it.
bool is_idle_choice(const Consideration& all, std::size_t i) {
  return all.candidates[i].is_per_group && i != all.best &&
         all.candidates[i].weighed_us >= all.candidates[i - 1].weighed_us;
}

std::string table(const std::vector<Row>& rows, std::size_t width) {
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows) {
    cells.emplace_back(row.begin(), row.end());
    cells.back().front().insert(0, "  ");
  }
  return core::aligned(std::move(cells), {0}, width);
}

Row row_of(const Consideration& all, std::size_t i) {
  const Candidate& candidate = all.candidates[i];
  const std::string groups = candidate.is_per_group
                                 ? fmt::format("{} of {}", candidate.encoded_groups, candidate.groups)
                                 : fmt::to_string(candidate.groups);
  return {kind_of(candidate),
          candidate.density ? fmt::to_string(*candidate.density) : "",
          groups,
          fmt::format("{:.3f}", candidate.iteration_us / 1e3),
          fmt::format("{:.4g}", candidate.extra_iterations),
          fmt::format("{:.3f}", candidate.weighed_us / all.candidates.front().weighed_us),
          size_text(candidate.bytes_sent_per_worker),
          fmt::format("{}{}", candidate.optimality_gap_us > 0 ? "~" : "", i == all.best ? "*" : "")};
}

std::string candidates_text(const Consideration& all, std::size_t width) {
  std::vector<Row> rows = {
      {"compressor", "density", "groups", "iteration ms", "extra", "to loss", "sent", ""}};
  bool has_choices = false;
  bool is_heuristic = false;
  for (std::size_t i = 0; i < all.candidates.size(); ++i) {
    if (is_idle_choice(all, i)) continue;
    has_choices = has_choices || all.candidates[i].is_per_group;
    is_heuristic = is_heuristic || all.candidates[i].optimality_gap_us > 0;
    rows.push_back(row_of(all, i));
  }
  std::string out =
      table(rows, width) +
      "extra: times as many iterations to the same loss; to loss: time to it, where none takes 1;\n"
      "sent: by each worker in an iteration; * best\n";
  if (has_choices)
    out += "X or none: at its best density, only groups that gain by it are compressed (so many of all)\n";
  if (is_heuristic) out += "~ the best found: other groups may be better\n";
  return out;
}

std::string gbps(const Consideration& all, double bandwidth) {
  return all.line_rate_gbps ? fmt::format(" ({:.3g} Gb/s)", *all.line_rate_gbps * bandwidth) : "";
}

std::string range_text(const Consideration& all, const BreakEven& row, const BandwidthRange& range) {
  const auto factor = [&](double bandwidth) {
    return fmt::format("{:.4g} times{}", bandwidth, gbps(all, bandwidth));
  };
  if (range.from <= row.looked_from) return "below " + factor(range.to);
  if (range.to >= kBandwidths.to) return "above " + factor(range.from);
  return fmt::format("from {} to {}", factor(range.from), factor(range.to));
}

std::string break_even_text(const Consideration& all, const BreakEven& row) {
  const std::string name = with_density(row.compressor + (row.is_per_group ? " or none" : ""), row.density);
  if (row.never()) return name + ": at none of the bandwidths looked at\n";
  if (row.always()) return name + ": at any bandwidth looked at\n";
  std::vector<std::string> ranges;
  for (const BandwidthRange& range : row.pays) ranges.push_back(range_text(all, row, range));
  return fmt::format("{}: {}\n", name, fmt::join(ranges, ", "));
}

std::string break_evens_text(const Consideration& all) {
  if (all.break_even.empty()) return "";
  std::string out = fmt::format(
      "\nWhere each would pay: on a network so many times as fast per byte as '{}'\n(looked at {:.3g} to "
      "{:.3g} times; startups stay, and both sides have the groups that are best there)\n",
      core::one_line(all.network), kBandwidths.from, kBandwidths.to);
  for (const BreakEven& row : all.break_even) out += "  " + break_even_text(all, row);
  return out;
}

std::string statistics_text(const Consideration& all) {
  if (all.unweighed.empty()) return "";
  const auto compressors =
      std::ranges::count_if(all.break_even, [](const BreakEven& row) { return !row.is_per_group; });
  if (static_cast<std::ptrdiff_t>(all.unweighed.size()) == compressors)
    return "No statistical cost was given (--extra-iterations NAME=1.08): all are taken to need as many "
           "iterations as none.\n";
  return core::one_line(
             fmt::format("No statistical cost was given for {}: taken to need as many iterations as none.",
                         fmt::join(all.unweighed, ", "))) +
         '\n';
}

std::string nothing_pays(const Consideration& all) {
  if (all.workers == 1) return "nothing pays: one worker sends nothing";
  const Candidate* nearest = nullptr;
  for (const Candidate& candidate : all.candidates)
    if (candidate.encoded_groups > 0 && (nearest == nullptr || candidate.weighed_us < nearest->weighed_us))
      nearest = &candidate;
  if (nearest == nullptr)
    return all.candidates.size() == 1 ? "nothing pays: no compressor can be used"
                                      : "nothing pays: no group is sooner there compressed";
  const double more = nearest->weighed_us / all.candidates.front().weighed_us - 1;
  return fmt::format("nothing pays: the nearest, {}, takes {} more time to the same loss than no compression",
                     with_density(nearest->compressor, nearest->density), percent(std::max(more, 0.0)));
}

ordered_json candidate_json(const Consideration& all, std::size_t i) {
  const Candidate& candidate = all.candidates[i];
  ordered_json out = {{"compressor", candidate.compressor}};
  if (candidate.density) out["density"] = *candidate.density;
  out["per_group"] = candidate.is_per_group;
  out["groups"] = candidate.groups;
  out["encoded_groups"] = candidate.encoded_groups;
  out["optimality_gap_us"] = candidate.optimality_gap_us;
  out["iteration_us"] = candidate.iteration_us;
  out["extra_iterations"] = candidate.extra_iterations;
  out["time_to_same_loss"] = candidate.weighed_us / all.candidates.front().weighed_us;
  out["bytes_sent_per_worker"] = candidate.bytes_sent_per_worker;
  out["best"] = i == all.best;
  return out;
}

/// The range in which the compressor pays, in one word.
std::string_view where(const BreakEven& row) {
  if (row.never()) return "never";
  if (row.always()) return "always";
  if (row.pays.size() > 1) return "between";
  if (row.pays.front().from <= row.looked_from) return "below";
  return row.pays.front().to >= kBandwidths.to ? "above" : "between";
}

ordered_json break_even_json(const Consideration& all, const BreakEven& row) {
  ordered_json ranges = ordered_json::array();
  for (const BandwidthRange& range : row.pays) {
    ranges.push_back({{"from_factor", range.from}, {"to_factor", range.to}});
    if (!all.line_rate_gbps) continue;
    ranges.back()["from_gbps"] = *all.line_rate_gbps * range.from;
    ranges.back()["to_gbps"] = *all.line_rate_gbps * range.to;
  }
  ordered_json out = {{"compressor", row.compressor}};
  if (row.density) out["density"] = *row.density;
  out["per_group"] = row.is_per_group;
  out["pays"] = where(row);
  out["searched_from_factor"] = row.looked_from;
  out["searched_to_factor"] = kBandwidths.to;
  out["ranges"] = std::move(ranges);
  return out;
}

}  // namespace

std::string answer(const Consideration& all) {
  if (!all.pays()) return nothing_pays(all);
  const Candidate& best = best_of(all);
  const double dense_us = all.candidates.front().weighed_us;
  return fmt::format(
      "{}{} pays: {} less time to the same loss than no compression",
      with_density(best.compressor, best.density),
      best.is_per_group ? fmt::format(", for {} of {} groups,", best.encoded_groups, best.groups) : "",
      percent(1 - best.weighed_us / dense_us));
}

std::string consideration_text(const Consideration& all, std::size_t width) {
  std::string out = fmt::format(
      "Does compression pay? {} on {} workers, network '{}', pipeline {}, each with its best groups\n{}\n",
      core::one_line(all.model), all.workers, core::one_line(all.network), all.pipeline, answer(all));
  if (all.pays())
    out += fmt::format("(as long as it needs less than {:.3g} times as many iterations)\n",
                       all.candidates.front().iteration_us / best_of(all).iteration_us);
  out += statistics_text(all) + '\n' + candidates_text(all, width) + break_evens_text(all);
  if (!all.left_out.empty()) out += "\nLeft out\n";
  for (const LeftOut& each : all.left_out)
    out += fmt::format("  {}: {}\n", core::one_line(each.compressor), core::one_line(each.why));
  if (!all.taken_away.empty())
    out += fmt::format("\nWithout the scenario's {}: costs are the closed ones\n",
                       fmt::join(all.taken_away, ", "));
  return out;
}

std::string consideration_json(const Consideration& all) {
  ordered_json candidates = ordered_json::array();
  for (std::size_t i = 0; i < all.candidates.size(); ++i) candidates.push_back(candidate_json(all, i));
  ordered_json break_evens = ordered_json::array();
  for (const BreakEven& row : all.break_even) break_evens.push_back(break_even_json(all, row));
  ordered_json left_out = ordered_json::array();
  for (const LeftOut& each : all.left_out)
    left_out.push_back({{"compressor", each.compressor}, {"why", each.why}});
  ordered_json out = {{"format", "fusewise.consideration"},
                      {"version", 1},
                      {"model", all.model},
                      {"workers", all.workers},
                      {"network", all.network},
                      {"pipeline", all.pipeline},
                      {"pays", all.pays()},
                      {"answer", answer(all)},
                      {"candidates", std::move(candidates)},
                      {"break_even", std::move(break_evens)},
                      {"excluded", std::move(left_out)},
                      {"no_statistical_cost_given", all.unweighed},
                      {"excluded_conditions", all.taken_away}};
  if (all.line_rate_gbps) out["line_rate_gbps"] = *all.line_rate_gbps;
  return core::json_text(out);
}

}  // namespace planner
