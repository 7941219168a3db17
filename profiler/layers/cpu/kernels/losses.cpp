// cross_entropy: softmax of the last dimension against a label.

#include <cmath>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

struct Sizes {
  std::int64_t positions;  ///< of one sample
  std::int64_t classes;
  double weight;
};

Sizes sizes(const Pass& pass) {
  const std::int64_t classes = pass.in().back();
  return {.positions = core::element_count(pass.in()) / classes,
          .classes = classes,
          .weight = pass.as<core::Loss>().weight};
}

}  // namespace

/// Stores the softmax and each position's loss.
KernelRoom cross_entropy_room(const LayerWork& work, double batch, int /*threads*/) {
  const core::Shape& in = work.inputs[0].shape;
  const double elements = batch * static_cast<double>(core::element_count(in));
  return {.kept = elements, .scratch = elements / static_cast<double>(in.back())};
}

void cross_entropy_forward(const Pass& pass) {
  const Sizes s = sizes(pass);
  pass.pool->run(pass.batch * s.positions, [&](std::int64_t row, int) {
    const ConstArray x = array(pass.inputs[0] + row * s.classes, s.classes);
    Array softmax = array(pass.kept + row * s.classes, s.classes);
    const float max = x.maxCoeff();
    softmax = (x - max).exp();
    const float sum = softmax.sum();
    softmax *= 1 / sum;
    pass.scratch[row] = std::log(sum) - (x[pass.tokens[row]] - max);
  });
  for (std::int64_t sample = 0; sample < pass.batch; ++sample) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.positions; ++i)
      sum += static_cast<double>(pass.scratch[sample * s.positions + i]);
    pass.output[sample] = static_cast<float>(s.weight * sum / static_cast<double>(s.positions));
  }
}

void cross_entropy_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  const Sizes s = sizes(pass);
  const auto share = static_cast<float>(s.weight / static_cast<double>(s.positions));
  pass.pool->run(pass.batch * s.positions, [&](std::int64_t row, int) {
    const float factor = share * pass.output_gradient[row / s.positions];
    put(room, row * s.classes, s.classes,
        factor * array(static_cast<const float*>(pass.kept) + row * s.classes, s.classes));
    room.data[row * s.classes + pass.tokens[row]] -= factor;
  });
}

}  // namespace profiler::cpu
