// Gradient compression as costs: the compressed size and the times of encoding and decoding.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "core/network.hpp"
#include "planner/cost/code_cost.hpp"
#include "planner/cost/low_rank.hpp"
#include "planner/cost/sparse.hpp"

namespace planner {

/// A compressor. Each worker contributes ratio * x bytes for a group of x dense bytes, unrounded.
struct Compressor {
  std::string name = "none";
  double ratio = 1;
  CodeCost encode;
  CodeCost decode;  ///< for the whole received message, once
  /// Time on the channel beyond the messages of an all-reduce: selection and summation between them.
  CodeCost in_transit = {};
  /// The collective for the encoded group: all_reduce if encoded gradients can be summed, otherwise
  /// all_gather.
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  /// Set if the sparse all-reduce with this name transfers the group; it keeps half the ratio as its share of
  /// the elements.
  std::optional<SparseOptions> sparse = {};
  /// `decode` is the time for one contribution, and every gathered contribution is decoded.
  bool decodes_each = false;
  /// Gradients stay dense inside a node: each worker of a node sums one part, and only that part is encoded,
  /// sent between nodes and decoded.
  bool between_nodes = false;
  /// Set for PowerSGD: what a group sends and computes then depends on the shapes of its tensors, `ratio` has
  /// no meaning, and encode, in_transit and decode are the costs of one matrix.
  std::optional<LowRankOptions> low_rank = {};

  bool is_none() const { return name == "none"; }
  bool operator==(const Compressor&) const = default;
};

/// A compressor with built-in costs.
struct BuiltInCompressor {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  ///< where the costs come from
  std::string_view json;    ///< the same compressor as a JSON object of a scenario
};

/// Every built-in compressor, in the order in which help lists them.
std::span<const BuiltInCompressor> built_in_compressors();

/// The share of elements kept by a compressor that sends an index and a value for each.
double density(const Compressor& compressor);

/// The share of elements kept if the compressor drops elements, of gradients whose elements take so many
/// bytes.
std::optional<double> kept_share(const Compressor& compressor, double value_bytes);

/// Its name with what it keeps, such as "dgc (density 0.01)" or "power-sgd (rank 1)". Where the size of an
/// element is not known, the ratio stands for the density.
std::string described(const Compressor& compressor, std::optional<double> value_bytes = {});

/// A sparse all-reduce with the defaults of its table entry. The name must be one of sparse_collectives().
Compressor sparse_compressor(std::string_view name, double density);

/// PowerSGD with these settings and the costs of the table, which are estimated.
Compressor low_rank_compressor(const LowRankOptions& options);
/// Says where costs of coding are from if the compressor is PowerSGD and has some of the table; else empty.
std::string estimated_low_rank_costs(const Compressor& compressor);

/// Reads `none`, a built-in name, or an object, in which `costs` names a file of measured costs. Throws
/// InputError.
Compressor read_compressor(const core::Field& field);

/// Writes a built-in compressor's name or the object that read_compressor() reads.
nlohmann::ordered_json compressor_json(const Compressor& compressor);

/// The built-in compressor with that name, or no compression for `none`. The name must exist.
Compressor built_in_compressor(std::string_view name);

}  // namespace planner
