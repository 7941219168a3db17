// Values of one rank that dense collectives work on in place: on the host, by the transport's own
// collectives, or in a buffer of another backend's, on a GPU.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "core/network.hpp"
#include "profiler/measure/backend.hpp"
#include "sim/cluster/patterns.hpp"

namespace live {

/// Which of those that are measured.
measure::Collective measured(core::CollectiveKind kind);

class Dense {
 public:
  /// `values` must outlive this. `engine`: an empty buffer of the other backend's, or null.
  Dense(std::span<float> values, const cluster::Shape& shape, std::string all_reduce,
        std::unique_ptr<measure::Engine> engine);

  bool is_elsewhere() const { return engine_ != nullptr; }
  /// Where the values are elsewhere, there and back: not while anything runs.
  void load();
  void store();
  /// To its end. Parts of halves are those of measure::own_part().
  void run(transport::Transport& transport, core::CollectiveKind kind);

 private:
  const cluster::Collective& made(core::CollectiveKind kind);

  std::span<float> values_;
  cluster::Shape shape_;
  std::string all_reduce_;
  std::unique_ptr<measure::Engine> engine_;
  std::vector<std::pair<core::CollectiveKind, cluster::Collective>> made_;
};

}  // namespace live
