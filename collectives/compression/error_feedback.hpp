// Error feedback: the error of an encoding is added to the next gradient (Seide et al. 2014, Karimireddy et
// al. 2019), so that it is delayed but not lost.

#pragma once

#include <span>
#include <vector>

#include "collectives/compression/compressor.hpp"

namespace compression {

/// The state of one worker and tensor. It is as large as the gradient; encoding takes up to a quarter more
/// during the selection, then 8 bytes per kept element twice, or half a gradient for fp16 and bf16: less than
/// three gradients in total up to a density of 1/20.
struct ErrorFeedback {
  std::vector<float> residual;  ///< empty before the first call: all 0
};

/// Encodes gradient + residual and leaves the error in the residual: decoded + new residual = gradient + old
/// residual, exactly for sparse encodings, fp16 and bf16, and up to rounding for scaled signs. The residual
/// is 0 where a decoded value is not finite. Throws std::invalid_argument if the residual has another size,
/// and the errors of the compressor; the residual then holds the sum.
Bytes encode(const Compressor& compressor, std::span<const float> gradient, State& state,
             ErrorFeedback& feedback);

}  // namespace compression
