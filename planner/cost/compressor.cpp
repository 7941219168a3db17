#include "planner/cost/compressor.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/compressor_costs.hpp"
#include "core/limits.hpp"
#include "planner/job/registry.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::Field;

constexpr std::string_view kEspresso =
    "Espresso (commit a0294e3, Apache-2.0), compression_overheads.csv: us at 2^20 elements on a V100, "
    "constant below and linear above";

constexpr std::string_view kPowerSgd = "power-sgd";
constexpr double kLaunchUs = 5;
constexpr double kPassUsPerByte = 1 / 900e3;  // one pass over the memory of a V100

// To add a compressor, add one line. A kept element is sent as an index and a value, 8 bytes instead of 4;
// quantisers send one bit instead of 32. us_per_byte is the cost at 2^20 elements (4 MiB) divided by 4194304.
constexpr auto kBuiltIn = std::to_array<BuiltInCompressor>({
    {"dgc", "1 % of the elements, by double sampling", kEspresso,
     R"({"name": "dgc", "ratio": 0.02, "collective": "all_gather",
         "encode": {"us_per_byte": 8.487701416015625e-5, "floor_us": 356},
         "decode": {"us_per_byte": 8.106231689453125e-6, "floor_us": 34}})"},
    {"random-k", "1 % of the elements, at random", kEspresso,
     R"({"name": "random-k", "ratio": 0.02, "collective": "all_gather",
         "encode": {"us_per_byte": 1.2874603271484375e-5, "floor_us": 54},
         "decode": {"us_per_byte": 8.106231689453125e-6, "floor_us": 34}})"},
    {"efsignsgd", "signs and a scale, with error feedback", kEspresso,
     R"({"name": "efsignsgd", "ratio": 0.03125, "collective": "all_gather",
         "encode": {"us_per_byte": 3.0994415283203125e-5, "floor_us": 130},
         "decode": {"us_per_byte": 3.337860107421875e-5, "floor_us": 140}})"},
    {"onebit", "one bit an element, two scales", kEspresso,
     R"({"name": "onebit", "ratio": 0.03125, "collective": "all_gather",
         "encode": {"us_per_byte": 1.0728836059570312e-4, "floor_us": 450},
         "decode": {"us_per_byte": 4.0531158447265625e-5, "floor_us": 170}})"},
    {"mstopk", "1 % of the elements, by 30 samplings of a threshold",
     "estimated, not measured: 30 passes over the group at 900 GB/s (V100) and 5 us a launch; decoding as "
     "Espresso's DGC. The paper (CommLib, Figure 6) prints no numbers",
     R"({"name": "mstopk", "ratio": 0.02, "collective": "all_gather",
         "encode": {"startup_us": 150, "us_per_byte": 3.3333333333333335e-5},
         "decode": {"us_per_byte": 8.106231689453125e-6, "floor_us": 34}})"},
    {"fp16", "half precision on the wire", kEspresso,
     R"({"name": "fp16", "ratio": 0.5, "collective": "all_reduce",
         "encode": {"us_per_byte": 9.5367431640625e-7, "floor_us": 4},
         "decode": {"us_per_byte": 5.245208740234375e-6, "floor_us": 22}})"},
    {"bf16", "bfloat16 on the wire", "the costs of fp16: either conversion reads four bytes and writes two",
     R"({"name": "bf16", "ratio": 0.5, "collective": "all_reduce",
         "encode": {"us_per_byte": 9.5367431640625e-7, "floor_us": 4},
         "decode": {"us_per_byte": 5.245208740234375e-6, "floor_us": 22}})"},
    {kPowerSgd, "two thin factors of each matrix, of rank 1",
     "estimated, not measured: passes over each matrix at 900 GB/s (V100) and 5 us a launch, as counted in "
     "PyTorch's powerSGD_hook.py (2.13)",
     R"({"name": "power-sgd", "rank": 1})"},
});

/// The launches of Gram-Schmidt in PyTorch's hook: two for each column, and four to subtract it from those
/// after it. The QR that the hook takes beyond rank 2 is taken to cost as much.
double orthogonalization_us(std::int64_t rank) { return kLaunchUs * (6 * static_cast<double>(rank) - 4); }

/// A kept element is sent as an index and a value.
constexpr double kIndexAndValue = 2;

void allow_sparse_keys(const Field& field, const SparseEntry& entry) {
  std::vector<std::string_view> keys = {"name",       "density", "selection",  "decode",
                                        "in_transit", "costs",   "decode_each"};
  keys.insert(keys.end(), entry.option_keys.begin(), entry.option_keys.end());
  field.allow_only(keys);
}

std::int64_t period_at(const Field& field, std::string_view key, std::int64_t otherwise) {
  constexpr std::int64_t kMaxIterations = 1'000'000'000;
  const std::optional<Field> found = field.find(key);
  return found ? found->integer(1, kMaxIterations) : otherwise;
}

bool flag_at(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  return found && found->boolean();
}

SparseOptions read_sparse_options(const Field& field, SparseOptions options) {
  if (const auto overlap = field.find("overlap")) options.overlap = overlap->number(0, 1);
  options.paper_bytes = flag_at(field, "paper_bytes");
  options.recompute_every = period_at(field, "recompute_every", options.recompute_every);
  options.repartition_every = period_at(field, "repartition_every", options.repartition_every);
  if (const auto cost = field.find("recompute_selection"))
    options.recompute_selection = read_code_cost(*cost);
  options.spikes = flag_at(field, "unamortized");
  if (const auto volume = field.find("volume"))
    options.bound = volume->one_of({"expected", "bound"}) == "bound";
  return options;
}

// ---- measured costs

/// A compressor of the file; for sparse compressors `field` gives the density.
core::CodeAt measured_at(const Field& field, const core::CompressorCosts& costs, std::string_view name) {
  const core::MeasuredCompressor* found = core::find_compressor(costs, name);
  if (found == nullptr) {
    std::vector<std::string_view> known;
    for (const core::MeasuredCompressor& each : costs.compressors) known.emplace_back(each.name);
    field.at("costs").expected(fmt::format("a file with costs of {}", name),
                               fmt::format("one of {}", fmt::join(known, ", ")));
  }
  if (!found->is_sparse()) {
    if (const auto own = field.find("density"))
      own->expected(fmt::format("no density, as {} keeps all elements", name));
    return core::at_density(*found, 1);
  }
  const Field own = field.at("density");
  const double density = own.number(0, 1);
  const double min = *found->curves.front().density;
  const double max = *found->curves.back().density;
  if (density < min || density > max)
    own.expected(fmt::format("a density from {} to {}, where {} was measured", min, max, name));
  return core::at_density(*found, density);
}

CodeCost curve_cost(const core::CostCurve& curve) {
  return {.curve = std::make_shared<const core::CostCurve>(curve)};
}

core::CompressorCosts costs_at(const Field& field) {
  return core::read_compressor_costs(field.at("costs").follow());
}

/// Reads {"name": "mstopk", "density": 0.01, "costs": "cpu.compressors.json"}.
Compressor from_measured(const Field& field) {
  field.allow_only({"name", "density", "costs", "between_nodes"});
  const std::string name = field.at("name").name();
  const core::CompressorCosts costs = costs_at(field);
  const core::CodeAt measured = measured_at(field, costs, name);
  const CollectiveKind collective = core::find_compressor(costs, name)->collective;
  return {.name = name,
          .ratio = measured.ratio,
          .encode = curve_cost(measured.encode),
          .decode = curve_cost(measured.decode),
          .collective = collective,
          .decodes_each = collective == CollectiveKind::all_gather,
          .between_nodes = flag_at(field, "between_nodes")};
}

/// Replaces the table's selection costs of a sparse all-reduce by measured ones.
void take_measured(const Field& field, const SparseEntry& entry, Compressor& compressor) {
  const core::CompressorCosts costs = costs_at(field);
  const core::CodeAt selector = measured_at(field, costs, entry.selector);
  compressor.encode = curve_cost(selector.encode);
  compressor.decode = curve_cost(selector.decode);
  compressor.decodes_each = entry.calls == nullptr;
  if (!entry.recompute_selection.is_free())
    compressor.sparse->recompute_selection = curve_cost(measured_at(field, costs, "top-k").encode);
}

/// Reads {"name": "ok-topk", "density": 0.01, ...}.
Compressor from_sparse_object(const Field& field) {
  const std::string name = field.at("name").one_of(names(sparse_collectives()));
  allow_sparse_keys(field, *find_sparse(name));
  Compressor out = sparse_compressor(name, field.at("density").number(0, 1));
  if (field.has("costs")) take_measured(field, *find_sparse(name), out);
  if (const auto cost = field.find("selection")) out.encode = read_code_cost(*cost);
  if (const auto cost = field.find("decode")) out.decode = read_code_cost(*cost);
  if (const auto cost = field.find("in_transit")) out.in_transit = read_code_cost(*cost);
  if (const auto each = field.find("decode_each")) out.decodes_each = each->boolean();
  out.sparse = read_sparse_options(field, *out.sparse);
  return out;
}

/// Reads {"name": "power-sgd", "rank": 2, ...}.
Compressor from_low_rank_object(const Field& field) {
  field.allow_only({"name", "rank", "min_compression_rate", "encode", "in_transit", "decode"});
  LowRankOptions options;
  if (const auto rank = field.find("rank")) options.rank = rank->integer(1, core::kMaxElements);
  constexpr double kMaxRate = 1e12;  // leaves every tensor as it is
  if (const auto rate = field.find("min_compression_rate"))
    options.min_compression_rate = rate->number(0, kMaxRate);
  Compressor out = low_rank_compressor(options);
  if (const auto cost = field.find("encode")) out.encode = read_code_cost(*cost);
  if (const auto cost = field.find("in_transit")) out.in_transit = read_code_cost(*cost);
  if (const auto cost = field.find("decode")) out.decode = read_code_cost(*cost);
  return out;
}

/// Whether the object is PowerSGD. An object with a ratio may use any name, and one with measured costs, too.
bool is_low_rank_object(const Field& field) {
  if (field.has("ratio") || field.has("costs")) return false;
  const std::optional<Field> name = field.find("name");
  return name && name->is_text() && name->text() == kPowerSgd;
}

bool names_sparse(const Field& field) {
  const std::optional<Field> name = field.find("name");
  return name && name->is_text() && find_sparse(name->text()) != nullptr;
}

/// Whether the object is a sparse all-reduce. An object with a ratio may use any name, and one with measured
/// costs may use such a name.
bool is_sparse_object(const Field& field) {
  if (field.has("density") && !field.has("costs")) return true;
  return !field.has("ratio") && names_sparse(field);
}

/// Recognises {"name": "dgc", "between_nodes": true}.
bool is_built_in_between_nodes(const Field& field) {
  return field.has("between_nodes") && !field.has("ratio");
}

Compressor from_object(const Field& field) {
  if (is_low_rank_object(field)) return from_low_rank_object(field);
  if (is_sparse_object(field)) return from_sparse_object(field);
  if (field.has("costs")) return from_measured(field);
  if (is_built_in_between_nodes(field)) {
    field.allow_only({"name", "between_nodes"});
    Compressor out = built_in_compressor(field.at("name").one_of(names(built_in_compressors())));
    out.between_nodes = flag_at(field, "between_nodes");
    return out;
  }
  field.allow_only(
      {"name", "ratio", "encode", "decode", "in_transit", "collective", "decode_each", "between_nodes"});
  constexpr double kMaxRatio = 1e3;  // such a ratio is useless but valid
  Compressor out = {.name = field.at("name").name(),
                    .ratio = field.at("ratio").number(0, kMaxRatio),
                    .encode = {},
                    .decode = {},
                    .collective = CollectiveKind::all_gather};
  if (out.is_none()) field.at("name").expected("a name other than that of no compression");
  if (const auto cost = field.find("encode")) out.encode = read_code_cost(*cost);
  if (const auto cost = field.find("decode")) out.decode = read_code_cost(*cost);
  if (const auto cost = field.find("in_transit")) out.in_transit = read_code_cost(*cost);
  if (const auto collective = field.find("collective"))
    if (collective->one_of({"all_gather", "all_reduce"}) == "all_reduce")
      out.collective = CollectiveKind::all_reduce;
  out.decodes_each = flag_at(field, "decode_each");
  out.between_nodes = flag_at(field, "between_nodes");
  return out;
}

/// The keys that differ from the table's defaults.
nlohmann::ordered_json sparse_json(const Compressor& compressor) {
  const Compressor usual = sparse_compressor(compressor.name, density(compressor));
  const SparseOptions& options = *compressor.sparse;
  nlohmann::ordered_json out = {{"name", compressor.name}, {"density", density(compressor)}};
  if (compressor.encode != usual.encode) out["selection"] = code_cost_json(compressor.encode);
  if (compressor.decode != usual.decode) out["decode"] = code_cost_json(compressor.decode);
  if (!compressor.in_transit.is_free()) out["in_transit"] = code_cost_json(compressor.in_transit);
  if (compressor.decodes_each) out["decode_each"] = true;
  if (options.overlap) out["overlap"] = *options.overlap;
  if (options.paper_bytes) out["paper_bytes"] = true;
  if (options.recompute_every != usual.sparse->recompute_every)
    out["recompute_every"] = options.recompute_every;
  if (options.repartition_every != usual.sparse->repartition_every)
    out["repartition_every"] = options.repartition_every;
  if (options.recompute_selection != usual.sparse->recompute_selection)
    out["recompute_selection"] = code_cost_json(options.recompute_selection);
  if (options.spikes) out["unamortized"] = true;
  if (options.bound) out["volume"] = "bound";
  return out;
}

/// The keys that differ from the table's defaults.
nlohmann::ordered_json low_rank_json(const Compressor& compressor) {
  const LowRankOptions& options = *compressor.low_rank;
  const Compressor usual = low_rank_compressor(options);
  nlohmann::ordered_json out = {{"name", compressor.name}, {"rank", options.rank}};
  if (options.min_compression_rate != LowRankOptions{}.min_compression_rate)
    out["min_compression_rate"] = options.min_compression_rate;
  if (compressor.encode != usual.encode) out["encode"] = code_cost_json(compressor.encode);
  if (compressor.in_transit != usual.in_transit) out["in_transit"] = code_cost_json(compressor.in_transit);
  if (compressor.decode != usual.decode) out["decode"] = code_cost_json(compressor.decode);
  return out;
}

}  // namespace

std::span<const BuiltInCompressor> built_in_compressors() { return kBuiltIn; }

double density(const Compressor& compressor) { return compressor.ratio / kIndexAndValue; }

std::optional<double> kept_share(const Compressor& compressor, double value_bytes) {
  constexpr double kOneBit = 1.0 / 32;  // less than one bit per four-byte element implies dropped elements
  constexpr double kIndexBytes = 4;
  if (compressor.sparse) return density(compressor);
  if (compressor.low_rank || compressor.ratio >= kOneBit) return std::nullopt;
  return compressor.ratio * value_bytes / (kIndexBytes + value_bytes);
}

std::string described(const Compressor& compressor, std::optional<double> value_bytes) {
  constexpr double kAnyBytes = 4;
  const std::string name = core::one_line(compressor.name);
  if (compressor.low_rank) return fmt::format("{} (rank {})", name, compressor.low_rank->rank);
  const std::optional<double> share = kept_share(compressor, value_bytes.value_or(kAnyBytes));
  if (!share) return name;
  if (!compressor.sparse && !value_bytes) return fmt::format("{} (ratio {:g})", name, compressor.ratio);
  return fmt::format("{} (density {:.4g})", name, *share);
}

Compressor sparse_compressor(std::string_view name, double density) {
  const SparseEntry& entry = *find_sparse(name);
  const CodeCost scattering = built_in_compressor("dgc").decode;
  return {.name = std::string(name),
          .ratio = kIndexAndValue * density,
          .encode = entry.selection,
          .decode = scattering,
          .collective = CollectiveKind::all_gather,
          .sparse = SparseOptions{.recompute_selection = entry.recompute_selection}};
}

Compressor low_rank_compressor(const LowRankOptions& options) {
  const double orthogonalization = orthogonalization_us(options.rank);
  return {.name = std::string(kPowerSgd),
          // adds the error, copies the sum, orthogonalizes Q and multiplies
          .encode = {.startup_us = orthogonalization + kLaunchUs, .us_per_byte = 6 * kPassUsPerByte},
          // multiplies, and subtracts to get the error
          .decode = {.startup_us = kLaunchUs, .us_per_byte = 4 * kPassUsPerByte},
          // orthogonalizes P and multiplies
          .in_transit = {.startup_us = orthogonalization + kLaunchUs, .us_per_byte = kPassUsPerByte},
          .collective = CollectiveKind::all_reduce,
          .low_rank = options};
}

std::string estimated_low_rank_costs(const Compressor& compressor) {
  if (!compressor.low_rank) return "";
  const Compressor usual = low_rank_compressor(*compressor.low_rank);
  std::vector<std::string_view> estimated;
  if (compressor.encode == usual.encode) estimated.push_back("encode");
  if (compressor.in_transit == usual.in_transit) estimated.push_back("in_transit");
  if (compressor.decode == usual.decode) estimated.push_back("decode");
  if (estimated.empty()) return "";
  return fmt::format(
      "the costs of {} are estimated for a V100, from passes over memory and launches of kernels, and were "
      "measured on no GPU",
      fmt::join(estimated, ", "));
}

Compressor read_compressor(const Field& field) {
  if (field.is_object()) return from_object(field);
  if (field.is_text() && find_sparse(field.text()) != nullptr)
    field.expected(fmt::format(R"(a density with it: {{"name": "{}", "density": ...}})", field.text()));
  std::vector<std::string_view> known = names(built_in_compressors());
  known.insert(known.begin(), "none");
  return built_in_compressor(field.one_of(known));
}

nlohmann::ordered_json compressor_json(const Compressor& compressor) {
  if (compressor.is_none()) return compressor.name;
  if (compressor.sparse) return sparse_json(compressor);
  for (const BuiltInCompressor& known : built_in_compressors())
    if (known.name == compressor.name && built_in_compressor(known.name) == compressor)
      return compressor.name;
  if (compressor.low_rank) return low_rank_json(compressor);
  nlohmann::ordered_json out = {{"name", compressor.name}, {"ratio", compressor.ratio}};
  if (!compressor.encode.is_free()) out["encode"] = code_cost_json(compressor.encode);
  if (!compressor.decode.is_free()) out["decode"] = code_cost_json(compressor.decode);
  if (!compressor.in_transit.is_free()) out["in_transit"] = code_cost_json(compressor.in_transit);
  out["collective"] = core::name(compressor.collective);
  if (compressor.decodes_each) out["decode_each"] = true;
  if (compressor.between_nodes) out["between_nodes"] = true;
  return out;
}

Compressor built_in_compressor(std::string_view name) {
  if (name == "none") return {};
  return from_object(Field::parse(entry(built_in_compressors(), name).json, std::string(name)));
}

}  // namespace planner
