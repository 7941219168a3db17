// In the place of engine.cu where no CUDA compiler was found.

#include "collectives/compression/cuda/engine.hpp"

namespace compression::cuda {

std::unique_ptr<Engine> open_engine(int /*ordinal*/) {
  throw NoDevice("no CUDA device: this fusewise was built without a CUDA compiler");
}

}  // namespace compression::cuda
