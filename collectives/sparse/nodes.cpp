#include "collectives/sparse/nodes.hpp"

#include <stdexcept>
#include <vector>

#include <fmt/format.h>

namespace sparse {

using transport::Group;
using transport::Transport;

void check_full_nodes(const Transport& all, std::uint32_t workers, std::string_view what) {
  if (workers == 0 || all.size() % workers != 0)
    throw std::invalid_argument(
        fmt::format("{}: {} ranks are not full nodes of {}", what, all.size(), workers));
}

Group node_of(Transport& all, std::uint32_t workers) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t i = 0; i < workers; ++i) members.push_back(all.rank() / workers * workers + i);
  return {all, members};
}

Group peers_of(Transport& all, std::uint32_t workers) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = all.rank() % workers; rank < all.size(); rank += workers) members.push_back(rank);
  return {all, members};
}

}  // namespace sparse
