#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"
#include "planner/advise/explain.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

std::string ms(double us) { return fmt::format("{:.3f} ms", us / 1e3); }

/// With the unit.
std::string change(double us) {
  const std::string out = change_text(us);
  return out == "nothing" ? out : out + " ms";
}

std::string_view words(std::string_view waited_for) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"gradients", "its gradients"},
      {"channel", "the channel"},
      {"gather", "an all-gather before it on the channel"},
      {"tick", "the tick"},
      {"scatters", "the limit on reduce-scatters in flight"},
      {"workers", "slower workers"},
  };
  for (const auto& [cause, text] : kWords)
    if (cause == waited_for) return text;
  return waited_for;
}

std::string_view words(core::CollectiveKind kind) {
  switch (kind) {
    case core::CollectiveKind::all_reduce: return "all-reduces";
    case core::CollectiveKind::reduce_scatter: return "reduce-scatters";
    case core::CollectiveKind::all_gather: return "all-gathers";
  }
  return "";
}

/// Where a group has several kinds of collectives and is exposed, the time of each.
std::string exposed_text(const GroupReason& group) {
  if (group.exposed_by_kind.size() < 2 || group.exposed_us == 0)
    return ms(group.exposed_us) + " of it exposed";
  std::string out = ms(group.exposed_us) + " exposed:";
  for (const auto& [kind, us] : group.exposed_by_kind)
    out += fmt::format("{} {} in {}", out.ends_with(':') ? "" : ",", ms(us), words(kind));
  return out;
}

std::string group_text(std::size_t number, const GroupReason& group) {
  std::string out = fmt::format("group {}: {} .. {}, {} bytes\n", number, core::one_line(group.first_tensor),
                                core::one_line(group.last_tensor), group.bytes);
  if (!group.waited_for.empty())
    out += fmt::format("  can be sent {} after backward began, sent {} to {} (waited for {}), {}\n",
                       ms(group.sendable_us), ms(group.start_us), ms(group.end_us), words(group.waited_for),
                       exposed_text(group));
  if (group.merging_costs_us)
    out += fmt::format("  merged with the next group: {}\n", change(*group.merging_costs_us));
  if (group.splitting_costs_us)
    out += fmt::format("  split after {}, where that costs least: {}\n", core::one_line(group.split_after),
                       change(*group.splitting_costs_us));
  return out;
}

std::string compressor_text(const Explanation& all, const CompressorOutlook& outlook, std::size_t width) {
  std::string out = fmt::format("  {:<{}} {:>14}: ", outlook.described, width, ms(outlook.iteration_us));
  out += outlook.iteration_us < all.best_uncompressed_us
             ? fmt::format("saves {:.1f} %", 100 * (1 - outlook.iteration_us / all.best_uncompressed_us))
             : fmt::format("costs {:.1f} %", 100 * (outlook.iteration_us / all.best_uncompressed_us - 1));
  if (!outlook.pays_from) return out + "; pays on no network up to 1,000 times slower per byte\n";
  if (*outlook.pays_from == 0) return out + "; pays on any network up to 1,000 times faster per byte\n";
  out += *outlook.pays_from >= 1
             ? fmt::format("; pays from {:.3g} times slower per byte on", *outlook.pays_from)
             : fmt::format("; pays up to {:.3g} times faster per byte", 1 / *outlook.pays_from);
  if (all.line_rate_gbps) out += fmt::format(" ({:.3g} Gb/s)", *all.line_rate_gbps / *outlook.pays_from);
  return out + '\n';
}

}  // namespace

std::string change_text(double us) {
  constexpr double kNothing = 5e-7;  // less than a picosecond
  if (us > -kNothing && us < kNothing) return "nothing";
  return fmt::format("{:+.3f}", us / 1e3);
}

std::string what_ifs_text(const std::vector<WhatIf>& all, std::string_view suffix) {
  std::vector<std::vector<std::string>> rows = {{"", "this plan", "the best plan", "this one loses"}};
  for (const WhatIf& each : all)
    rows.push_back({fmt::format("  {}{}", each.change, suffix), ms(each.this_plan_us), ms(each.best_plan_us),
                    fmt::format("{:.2f} %", 100 * (each.this_plan_us / each.best_plan_us - 1))});
  return core::aligned(rows, {0});
}

ordered_json what_ifs_json(const std::vector<WhatIf>& rows) {
  ordered_json out = ordered_json::array();
  for (const WhatIf& row : rows)
    out.push_back(
        {{"change", row.change}, {"this_plan_us", row.this_plan_us}, {"best_plan_us", row.best_plan_us}});
  return out;
}

ordered_json combined_json(const CombinedWhatIfs& all) {
  ordered_json out = {{"inputs", ordered_json::array()}};
  for (const CombinedWhatIfs::Input& input : all.inputs)
    out["inputs"].push_back({{"name", input.name}, {"values", input.values}});
  for (const auto& [key, us] :
       {std::pair("this_plan_us", &WhatIf::this_plan_us), std::pair("best_plan_us", &WhatIf::best_plan_us)})
    for (const std::optional<WhatIf>& row : all.rows)
      out[key].push_back(row ? ordered_json(*row.*us) : ordered_json());
  return out;
}

ordered_json group_reason_json(const GroupReason& group) {
  ordered_json out = {
      {"first_tensor", group.first_tensor}, {"last_tensor", group.last_tensor}, {"bytes", group.bytes},
      {"sendable_us", group.sendable_us},   {"start_us", group.start_us},       {"end_us", group.end_us},
      {"waited_for", group.waited_for},     {"exposed_us", group.exposed_us}};
  if (group.exposed_by_kind.size() > 1)
    for (const auto& [kind, us] : group.exposed_by_kind) out["exposed_by_collective"][core::name(kind)] = us;
  if (group.merging_costs_us) out["merge_cost_us"] = *group.merging_costs_us;
  if (group.splitting_costs_us) {
    out["split_cost_us"] = *group.splitting_costs_us;
    out["split_after"] = group.split_after;
  }
  return out;
}

std::string explanation_text(const Explanation& all) {
  std::string out = "Why each group ends where it ends\n";
  for (std::size_t g = 0; g < all.groups.size(); ++g) out += group_text(g + 1, all.groups[g]);

  out += fmt::format("\nWhat bounds the iteration: {}\n", all.bound_by);
  out += what_ifs_text(all.free, " free");
  out += fmt::format("  iteration {}, compute alone {}, simple lower bound {}\n  speed-up {:.2f}",
                     ms(all.iteration_us), ms(all.compute_us), ms(all.lower_bound_us), all.speedup);
  if (all.s_max)
    out +=
        fmt::format("; no overlap of all bytes with forward and backward at these costs beats {:.2f} (S_max)",
                    *all.s_max);

  out += "\n\nIf inputs were other than given\n";
  out += what_ifs_text(all.other, "");

  out += fmt::format("\nDoes compression pay? The best plan without takes {}; with\n",
                     ms(all.best_uncompressed_us));
  std::size_t width = 0;
  for (const CompressorOutlook& outlook : all.compressors) width = std::max(width, outlook.described.size());
  for (const CompressorOutlook& outlook : all.compressors) out += compressor_text(all, outlook, width);
  if (all.compressors.empty()) out += "  nothing: no built-in compressor fits\n";
  return out;
}

std::string explanation_json(const Explanation& all) {
  ordered_json groups = ordered_json::array();
  for (const GroupReason& group : all.groups) groups.push_back(group_reason_json(group));
  ordered_json compressors = ordered_json::array();
  for (const CompressorOutlook& outlook : all.compressors) {
    compressors.push_back({{"name", outlook.name}});
    if (outlook.density) compressors.back()["density"] = *outlook.density;
    compressors.back()["iteration_us"] = outlook.iteration_us;
    if (outlook.pays_from) compressors.back()["break_even_slowdown_per_byte"] = *outlook.pays_from;
  }
  ordered_json out = {{"format", "fusewise.explanation"},
                      {"version", 1},
                      {"iteration_us", all.iteration_us},
                      {"compute_us", all.compute_us},
                      {"lower_bound_us", all.lower_bound_us},
                      {"speedup", all.speedup},
                      {"bound_by", all.bound_by},
                      {"if_free", what_ifs_json(all.free)},
                      {"if_other", what_ifs_json(all.other)},
                      {"groups", std::move(groups)},
                      {"best_uncompressed_us", all.best_uncompressed_us},
                      {"compressors", std::move(compressors)}};
  if (all.s_max) out["s_max"] = *all.s_max;
  if (all.combined) out["combined"] = combined_json(*all.combined);
  return core::json_text(out);
}

}  // namespace planner
