// Error feedback: what an encoding leaves out is added to the next gradient (Seide et al. 2014, Karimireddy
// et al. 2019), so that nothing is lost but time.

#pragma once

#include <span>
#include <vector>

#include "collectives/compression/compressor.hpp"

namespace compression {

/// Of one worker and tensor. As large as the gradient; an encoding takes up to a quarter of that more while
/// it selects, and then 8 bytes for each kept element twice, or half of it in fp16 and bf16: less than three
/// gradients in all up to a density of 1/20.
struct ErrorFeedback {
  std::vector<float> residual;  ///< empty before the first call: all 0
};

/// Encodes gradient + residual and leaves in the residual what the bytes do not say: decoded + residual is
/// gradient + residual before, exactly where elements are either sent or not and in fp16 and bf16, to a
/// rounding with scaled signs. Where a decoded value is not finite nothing is left. Throws
/// std::invalid_argument where the residual is of another size, and what the compressor throws; the residual
/// then holds the sum.
Bytes encode(const Compressor& compressor, std::span<const float> gradient, State& state,
             ErrorFeedback& feedback);

}  // namespace compression
