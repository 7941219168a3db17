#include "collectives/compression/error_feedback.hpp"

namespace compression {

Bytes encode(const Compressor& compressor, std::span<const float> gradient, State& state,
             ErrorFeedback& feedback) {
  std::vector<float>& residual = feedback.residual;
  if (residual.empty()) residual.resize(gradient.size());
  if (residual.size() != gradient.size()) refuse("residual", "as many elements as before", gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) residual[i] += gradient[i];
  Bytes bytes = compressor.encode(residual, state);
  compressor.subtract_decoded(bytes, residual);
  return bytes;
}

}  // namespace compression
