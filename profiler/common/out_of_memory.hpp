// A device that has less memory than was thought.

#pragma once

#include "models/errors.hpp"

namespace profiler {

class OutOfMemory : public models::WorldError {
 public:
  using WorldError::WorldError;
};

}  // namespace profiler
