// Gradient compression as costs: how many bytes are left, and what encoding and decoding take.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "core/network.hpp"
#include "planner/cost/code_cost.hpp"
#include "planner/cost/sparse.hpp"

namespace planner {

/// Each worker contributes ratio x bytes of a group of x dense bytes, unrounded.
struct Compressor {
  std::string name = "none";
  double ratio = 1;
  CodeCost encode;
  CodeCost decode;  ///< of everything that has arrived, once
  /// What an all-reduce takes of the channel beyond its messages: selecting and summing between them.
  CodeCost in_transit = {};
  /// What carries the encoded group: all_reduce where encoded gradients can be summed, else all_gather.
  core::CollectiveKind collective = core::CollectiveKind::all_reduce;
  /// Where a sparse all-reduce of that name carries it; the share of elements that it keeps is half the
  /// ratio.
  std::optional<SparseOptions> sparse = {};
  /// `decode` is of one contribution, and all that are gathered are decoded.
  bool decodes_each = false;
  /// Dense in a node: each of its workers sums a part of the gradient, which alone is encoded, travels
  /// between nodes and is decoded.
  bool between_nodes = false;

  bool is_none() const { return name == "none"; }
  bool operator==(const Compressor&) const = default;
};

/// A compressor with costs of its own.
struct BuiltInCompressor {
  std::string_view name;
  std::string_view summary;
  std::string_view source;  ///< of the costs
  std::string_view json;    ///< the object, as a user could have written it
};

/// Every built-in compressor, in the order in which help lists them.
std::span<const BuiltInCompressor> built_in_compressors();

/// Share of the elements that a compressor keeps which sends an index and a value for each.
double density(const Compressor& compressor);

/// A sparse all-reduce with all else as its table says. The name must be one of sparse_collectives().
Compressor sparse_compressor(std::string_view name, double density);

/// `none`, a built-in name, or an object, in which `costs` names a file of measured ones. Throws InputError.
Compressor read_compressor(const core::Field& field);

/// A built-in compressor's name, or the object, as read_compressor() takes it.
nlohmann::ordered_json compressor_json(const Compressor& compressor);

/// The built-in compressor of that name, which must be one, or none.
Compressor built_in_compressor(std::string_view name);

}  // namespace planner
