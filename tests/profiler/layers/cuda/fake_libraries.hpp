// Every function of the libraries, in the place of the real ones.

#pragma once

#include "profiler/layers/cuda/libraries.hpp"

namespace support {

class FakeGpu;

/// Every function; they act on the current GPU.
profiler::cuda::Libraries fake_libraries();
void set_current(FakeGpu* gpu);

}  // namespace support
