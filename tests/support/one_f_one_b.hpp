// When the passes of 1F1B end, by its rule: an evaluator that knows nothing of the planner's slots and
// graphs.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

/// 1F1B by its rule: a stage with fewer micro-batches under way than stages follow it, itself included, goes
/// forward if it can, and else backward. All passes are repeated until nothing moves. `forward` and
/// `backward` are times by stage, as is the result: when its last pass ends.
inline std::vector<double> ends_of_passes(const std::vector<double>& forward,
                                          const std::vector<double>& backward, std::int64_t micro_batches,
                                          double message) {
  const auto stages = static_cast<std::int64_t>(forward.size());
  const auto count = static_cast<std::size_t>(micro_batches);
  std::vector<std::vector<double>> forward_end(forward.size(), std::vector<double>(count));
  std::vector<std::vector<double>> backward_end = forward_end;
  for (bool moves = true; moves;) {
    moves = false;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      double now = 0;
      std::size_t forwards = 0;
      for (std::size_t backwards = 0; backwards < count;) {
        const bool goes_forward =
            forwards < count && forwards - backwards < static_cast<std::size_t>(stages - stage);
        double begin = now;
        if (goes_forward && s > 0) begin = std::max(begin, forward_end[s - 1][forwards] + message);
        if (!goes_forward && s + 1 < forward.size())
          begin = std::max(begin, backward_end[s + 1][backwards] + message);
        now = begin + (goes_forward ? forward[s] : backward[s]);
        double& end = goes_forward ? forward_end[s][forwards++] : backward_end[s][backwards++];
        moves = moves || end != now;
        end = now;
      }
    }
  }
  std::vector<double> out;
  for (const std::vector<double>& ends : backward_end) out.push_back(ends.back());
  return out;
}

}  // namespace support
