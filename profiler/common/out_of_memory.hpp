// Thrown if a device has less memory than expected.

#pragma once

#include "core/errors.hpp"

namespace profiler {

class OutOfMemory : public core::EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

}  // namespace profiler
