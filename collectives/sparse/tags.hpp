// The tags of the collectives' messages. Order alone would keep them apart; a tag makes a mix-up an error.

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
  asked,
  taken,
};

constexpr std::uint32_t tag_of(Tag tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace sparse
