// Divides gradients among reduce-scatters by their sizes, and by what FSDP's annotations say.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kineto {

struct ReadyGradient {
  std::int64_t at_ns = 0;
  std::int64_t elements = 0;
  std::int64_t padded = 0;  ///< with the rows that shards of equal size need in addition
};

struct Scatter {
  std::int64_t launched_ns = 0;
  std::int64_t elements = 0;
  std::int64_t from_ns = INT64_MIN;  ///< none of its gradients is ready before
  bool is_of_model = false;          ///< whether its gradients are those that no module inside the model has
};

struct GroupOfEach {
  std::vector<std::uint32_t> scatter = {};  ///< index by gradient; empty if `unclear` is not
  std::string unclear = {};                 ///< why sizes do not tell the groups
};

/// Both in their order of time. A module's gradients are scattered when its backward pass has ended. So those
/// that became ready last are its own, and those left before belong to modules around it. After the last
/// gradient the scatters may come in any order: there a group has to be the only one of its size.
GroupOfEach group_of_each(const std::vector<ReadyGradient>& gradients, const std::vector<Scatter>& scatters);

}  // namespace kineto
