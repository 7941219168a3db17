// The values of one rank for dense collectives: in host memory with the transport's own collectives, or in a
// buffer of another backend, on a GPU.

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

/// The measured collective for a kind of collective.
measure::Collective measured(core::CollectiveKind kind);

class Dense {
 public:
  /// `values` must outlive this object. `engine` creates a buffer of the other backend, or is null.
  Dense(std::span<float> values, const cluster::Shape& shape, std::string all_reduce,
        std::unique_ptr<measure::Engine> engine);

  bool is_elsewhere() const { return engine_ != nullptr; }
  /// Copies values to the buffer and back if it is elsewhere; not allowed while a collective runs.
  void load();
  void store();
  /// Runs a collective to its end. Parts of reduce-scatter and all-gather are those of measure::own_part().
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
