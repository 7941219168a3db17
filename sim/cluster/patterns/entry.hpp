// A collective whose messages are known: how it goes, and what each of the files of this folder gives to the
// table.

#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>

#include "sim/cluster/patterns/byte_pattern.hpp"
#include "sim/cluster/patterns/trees.hpp"

namespace cluster {

/// The size of a collective.
struct Shape {
  std::uint32_t ranks = 1;  ///< at least 1
  std::int64_t bytes = 0;   ///< bytes that each rank reduces; for an all-gather the bytes gathered in total
  /// Neighbouring ranks in a node for two_level, in a row for torus; ignored by the others.
  std::uint32_t ranks_per_node = 1;
};

/// A collective proceeds either in rounds or through two trees in which bytes are streamed.
using Collective = std::variant<std::unique_ptr<const BytePattern>, DoubleBinaryTree>;

enum class Outcome : std::uint8_t {
  all_reduce,      ///< every rank has the sum
  reduce_scatter,  ///< rank r has part r of the sum
  all_gather,      ///< rank r had part r, every rank has all parts
  broadcast,       ///< every rank has the data of rank 0
};

struct PatternEntry {
  std::string_view name;
  Outcome outcome = Outcome::all_reduce;
  Collective (*make)(const Shape& shape) = nullptr;
};

}  // namespace cluster
