// The tags of the collectives' messages. The order alone would be enough; a tag turns a mix-up into an error.

#pragma once

#include <cstdint>

namespace sparse {

enum class Tag : std::uint32_t {
  reduce_scatter = 1,
  all_gather,
  doubling,
  split,
  balance,
  tree_up,
  tree_down,
  in_order,
  encoded,
  request,
  taken,
};

constexpr std::uint32_t tag_of(Tag tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace sparse
