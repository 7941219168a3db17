// Describes as data how a framework communicates the gradients of an iteration. Plans are priced by it, and
// written for it.

#pragma once

#include <string>

#include "planner/pipeline/pipeline.hpp"

namespace planner {

struct Behaviour {
  const Pipeline* pipeline = nullptr;  ///< the collectives of an iteration, and when each is issued
  PipelineOptions options = {};        ///< how many of them are in flight, and which are repeated
  bool compresses = false;             ///< whether the plan's compressors are applied
  /// True if all parameters are gathered in one collective between the update and the next forward pass.
  bool gathers_at_once = false;
  std::string words;  ///< the same as a phrase for people

  bool operator==(const Behaviour& other) const {
    return pipeline == other.pipeline && options == other.options && compresses == other.compresses &&
           gathers_at_once == other.gathers_at_once;
  }
};

}  // namespace planner
