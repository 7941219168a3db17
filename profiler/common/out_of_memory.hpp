// A device that has less memory than was thought.

#pragma once

#include "core/errors.hpp"

namespace profiler {

class OutOfMemory : public core::EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

}  // namespace profiler
