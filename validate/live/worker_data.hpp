// The data of a live worker: gradients, and parameters if they are gathered for each pass. Generated for each
// iteration and checked after it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "planner/graph/lowered.hpp"
#include "validate/live/dense.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/gradients.hpp"
#include "validate/live/run.hpp"

namespace live {

class WorkerData {
 public:
  /// `engine` holds the groups' buffers, or is null. The plan's task graph determines which collectives run
  /// for a group.
  WorkerData(const RunSpec& spec, const Prediction& plan, const core::Profile& profile,
             const transport::Transport& transport, const measure::Engine* engine);

  FusionBuffer& fusion_buffer(std::size_t group) { return *fusion_buffers_[group]; }
  /// Runs the group's collective of that kind.
  void carry(transport::Transport& transport, planner::TaskLabel::Kind kind, std::size_t group);

  void draw(std::uint32_t iteration);
  /// Copies the results from buffers that are elsewhere.
  void store();
  /// Corrupts one value of the group's result.
  void spoil(std::size_t group);
  /// "group 2: value 17 is 3, expected 5"; empty if everything is right. Call it for every iteration in
  /// order.
  std::string fault(std::uint32_t iteration);

 private:
  /// Parameters of a group, which are gathered in place.
  struct Parameters {
    Parameters(std::size_t count, std::uint32_t ranks, std::unique_ptr<measure::Engine> engine)
        : values(count), dense(values, {.ranks = ranks}, "", std::move(engine)) {}

    std::vector<float> values;
    Dense dense;
  };
  struct Group {
    std::size_t first = 0;         ///< index of the first element
    bool stays_scattered = false;  ///< each rank keeps only the sum of its own part
    /// For forward and backward; null if the pass gathers no parameters.
    std::array<std::unique_ptr<Parameters>, 2> parameters;
  };

  void draw_parameters(Parameters& parameters, std::uint32_t iteration, std::size_t first) const;
  std::string fault_of(std::uint32_t iteration, std::size_t group);

  std::uint32_t rank_;
  bool is_elsewhere_;
  Gradients gradients_;
  std::vector<float> values_;  // gradients of all tensors in backward order
  std::vector<Group> groups_;
  std::vector<std::unique_ptr<FusionBuffer>> fusion_buffers_;  // by group
  std::vector<Expected> expected_;                             // by group
};

}  // namespace live
