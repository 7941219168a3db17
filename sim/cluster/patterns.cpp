#include "sim/cluster/patterns.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <variant>

namespace cluster {

// To add a pattern: write patterns/<name>.cpp and list it here; one that is made of rings is a row of
// rings.cpp.
PatternEntry ring();
PatternEntry binary_tree();
PatternEntry recursive_doubling();
PatternEntry halving_doubling();
PatternEntry double_binary_tree();
PatternEntry two_level();
PatternEntry torus();
PatternEntry reduce_scatter();
PatternEntry all_gather();
PatternEntry broadcast();

std::span<const PatternEntry> patterns() {
  static const std::array all = {
      ring(),      binary_tree(), recursive_doubling(), halving_doubling(), double_binary_tree(),
      two_level(), torus(),       reduce_scatter(),     all_gather(),       broadcast()};
  return all;
}

const PatternEntry* find_pattern(std::string_view name) {
  const std::span<const PatternEntry> all = patterns();
  const auto found = std::ranges::find(all, name, &PatternEntry::name);
  return found == all.end() ? nullptr : &*found;
}

std::uint64_t message_count(const Collective& how) {
  if (const auto* pattern = std::get_if<std::unique_ptr<const BytePattern>>(&how))
    return std::uint64_t{(*pattern)->ranks()} * (*pattern)->rounds();
  return 4 * std::uint64_t{std::get<DoubleBinaryTree>(how).ranks()};
}

}  // namespace cluster
