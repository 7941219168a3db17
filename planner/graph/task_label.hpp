// The label of a task: its kind, item and iteration.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/network.hpp"

namespace planner {

/// Stored packed in sim::Task::label.
struct TaskLabel {
  enum class Kind : std::uint8_t {
    read,                  ///< reads the input, if reading is not overlapped
    forward,               ///< item: layer; continues over micro-batches that are run layer by layer
    backward,              ///< item: step of Workload::backward; continues from the last micro-batch to the
                           ///< first
    micro_batch_forward,   ///< item: micro-batch
    micro_batch_backward,  ///< item: micro-batch
    tick,                  ///< waits for the tick of group `item`
    encode,                ///< item: group, the same in every micro-batch; the next four likewise
    all_reduce,
    reduce_scatter,
    all_gather,
    decode,
    lars,
    lars_gather,
    update,
    group_update,     ///< item: group
    backward_gather,  ///< gathers parameters before a backward pass; item: group, numbered as for backward
    forward_gather,   ///< gathers parameters before a forward pass; item: group, numbered as for forward
  };
  static constexpr std::size_t kKinds = static_cast<std::size_t>(Kind::forward_gather) + 1;

  /// The collective that tasks of this kind run for a group; none for other tasks.
  static std::optional<core::CollectiveKind> collective(Kind kind);

  Kind kind = Kind::read;
  std::uint32_t iteration = 0;
  std::uint32_t item = 0;

  std::uint64_t packed() const;
  static TaskLabel unpack(std::uint64_t label);
  bool operator==(const TaskLabel&) const = default;
};

}  // namespace planner
