#include "planner/advise/consider/variants.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/schedule/choice.hpp"

namespace planner::considered {
namespace {

using nlohmann::ordered_json;

/// Whether the compressor drops elements: less than one bit per four-byte element implies it.
bool is_sparse(const ordered_json& compressor) {
  constexpr double kOneBit = 1.0 / 32;
  if (compressor.contains("rank")) return false;
  return !compressor.contains("ratio") || compressor.at("ratio").get<double>() < kOneBit;
}

/// Sets the ratio for a density: an index takes four bytes in addition to each value.
void set_density(double density, double value_bytes, ordered_json& compressor) {
  constexpr double kIndexBytes = 4;
  if (compressor.contains("ratio"))
    compressor["ratio"] = density * (kIndexBytes + value_bytes) / value_bytes;
  else
    compressor["density"] = density;
}

std::vector<Variant> variants_of(const BuiltInCompressor& known, const std::vector<double>& densities,
                                 double value_bytes) {
  ordered_json json = ordered_json::parse(known.json);
  const std::string label(known.name);
  if (!is_sparse(json))
    return {{.label = label, .compressor = built_in_compressor(known.name), .density = {}}};
  std::vector<Variant> out;
  for (const double density : densities) {
    set_density(density, value_bytes, json);
    const core::Field field = core::Field::parse(json.dump(), label);
    out.push_back({.label = label, .compressor = read_compressor(field), .density = density});
  }
  return out;
}

/// Whether it equals a built-in compressor, wherever it compresses.
bool is_built_in(Compressor compressor) {
  compressor.between_nodes = false;
  const auto all = built_in_compressors();
  return std::ranges::any_of(all, [&](const BuiltInCompressor& known) {
    return known.name == compressor.name && built_in_compressor(known.name) == compressor;
  });
}

/// The same variants, dense inside a node and compressed between nodes only.
std::vector<Variant> between_nodes(std::vector<Variant> variants) {
  for (Variant& variant : variants) {
    variant.label += " between nodes";
    variant.compressor.between_nodes = true;
  }
  return variants;
}

bool has_several_nodes(const Setting& setting) {
  const std::vector<core::Level>& levels = setting.network->levels;
  return levels.size() > 1 && setting.costs.workers() > *levels.front().size;
}

/// A sparse all-reduce with the costs of its table entry, at each density.
std::vector<Variant> variants_of(const SparseEntry& entry, const std::vector<double>& densities) {
  std::vector<Variant> out;
  for (const double density : densities)
    out.push_back({.label = std::string(entry.name),
                   .compressor = sparse_compressor(entry.name, density),
                   .density = density});
  return out;
}

bool is_looked_at(const std::vector<std::vector<Variant>>& all, const Compressor& compressor) {
  return std::ranges::any_of(all, [&](const std::vector<Variant>& variants) {
    return std::ranges::any_of(variants,
                               [&](const Variant& variant) { return variant.compressor == compressor; });
  });
}

bool has_label(const std::vector<std::vector<Variant>>& all, const std::string& label) {
  return std::ranges::any_of(
      all, [&](const std::vector<Variant>& variants) { return variants.front().label == label; });
}

/// A unique label: the name, with its density, or with a number.
std::string own_label(const std::vector<std::vector<Variant>>& all, const Compressor& compressor) {
  if (!has_label(all, compressor.name)) return compressor.name;
  std::string kept = fmt::format("{} (ratio {})", compressor.name, compressor.ratio);
  if (compressor.sparse) kept = fmt::format("{} (density {})", compressor.name, density(compressor));
  if (compressor.low_rank) kept = fmt::format("{} (rank {})", compressor.name, compressor.low_rank->rank);
  std::string out = kept;
  for (int number = 2; has_label(all, out); ++number) out = fmt::format("{} #{}", kept, number);
  return out;
}

}  // namespace

std::vector<std::vector<Variant>> all_variants(const Setting& setting, const ConsiderOptions& options) {
  const auto value_bytes = static_cast<double>(core::bytes_per_element(setting.workload.profile->dtype));
  std::vector<std::vector<Variant>> out;
  for (const BuiltInCompressor& known : built_in_compressors())
    out.push_back(variants_of(known, options.densities, value_bytes));
  if (has_several_nodes(setting))
    for (const BuiltInCompressor& known : built_in_compressors())
      if (!built_in_compressor(known.name).low_rank)
        out.push_back(between_nodes(variants_of(known, options.densities, value_bytes)));
  for (const SparseEntry& entry : sparse_collectives())
    if (!entry.is_alias) out.push_back(variants_of(entry, options.densities));
  for (const Compressor& compressor : options.offered) {
    const bool is_known = !compressor.between_nodes && is_built_in(compressor);
    if (compressor.is_none() || is_known || is_looked_at(out, compressor)) continue;
    out.push_back({{.label = own_label(out, compressor), .compressor = compressor, .density = {}}});
  }
  return out;
}

std::string obstacle(const Setting& setting, const Schedule& schedule, const Variant& variant) {
  const std::string_view pipeline = schedule.pipeline->name;
  if (!schedule.pipeline->takes_compression) return fmt::format("pipeline {} takes no compressor", pipeline);
  if (schedule.options.all_reduces) return "all_reduce_gradients takes no compressor";
  if (has_types_of_its_own(setting, schedule)) return "collectives have data types of their own";
  const Compressor& compressor = variant.compressor;
  if (compressor.low_rank && !has_shapes(*setting.workload.profile))
    return "the profile has no shapes of tensors, on which its cost depends";
  const bool is_conversion = is_built_in(compressor) && !variant.density && !compressor.low_rank &&
                             compressor.collective == core::CollectiveKind::all_reduce;
  const bool is_narrow = setting.workload.profile->dtype != core::Dtype::float32;
  if (is_conversion && is_narrow) return "gradients have two bytes an element already";
  if (compressor.sparse && is_narrow)
    return "gradients have two bytes an element, and what it sends is counted for four";
  const ordered_json json = {{"pipeline", pipeline}, {"compression", compressor_json(compressor)}};
  try {
    read_schedule(core::Field::parse(json.dump(), "schedule"));
  } catch (const core::InputError&) {
    return fmt::format("pipeline {} takes only what an all-reduce can sum", pipeline);
  }
  return {};
}

double factor_of(const ConsiderOptions& options, const Variant& variant) {
  double general = 1;
  std::optional<double> special;
  for (const ExtraIterations& extra : options.extra) {
    if (extra.compressor != variant.compressor.name) continue;
    if (!extra.density)
      general = extra.factor;
    else if (extra.density == variant.density)
      special = extra.factor;
  }
  return special.value_or(general);
}

}  // namespace planner::considered
