#include "planner/graph/task_label.hpp"

namespace planner {

using core::CollectiveKind;

std::uint64_t TaskLabel::packed() const {
  return (std::uint64_t{iteration} << 40U) | (std::uint64_t{item} << 8U) | static_cast<std::uint64_t>(kind);
}

TaskLabel TaskLabel::unpack(std::uint64_t label) {
  return {.kind = Kind{static_cast<std::uint8_t>(label & 0xffU)},
          .iteration = static_cast<std::uint32_t>(label >> 40U),
          .item = static_cast<std::uint32_t>(label >> 8U)};
}

std::optional<CollectiveKind> TaskLabel::collective(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return CollectiveKind::all_reduce;
    case Kind::reduce_scatter: return CollectiveKind::reduce_scatter;
    case Kind::all_gather:
    case Kind::backward_gather:
    case Kind::forward_gather: return CollectiveKind::all_gather;
    default: return {};
  }
}

}  // namespace planner
