// lookahead: a weighted sum over each feature's position and the next ones, with weights per feature.

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// The weights of one step ahead, feature by feature.
using Weights = Eigen::Map<const Eigen::ArrayXf, 0, Eigen::InnerStride<>>;

struct Sizes {
  std::int64_t length;
  std::int64_t features;
  std::int64_t steps;  ///< including its own position
};

Sizes sizes(const Pass& pass) {
  return {.length = pass.in()[0], .features = pass.in()[1], .steps = pass.as<core::Lookahead>().context + 1};
}

Weights weights(const Pass& pass, const Sizes& s, std::int64_t step) {
  return {pass.weights[0] + step, s.features, Eigen::InnerStride<>(s.steps)};
}

}  // namespace

void lookahead_forward(const Pass& pass) {
  const Sizes s = sizes(pass);
  pass.pool->run(pass.batch * s.length, [&](std::int64_t row, int) {
    Array out = array(pass.output + row * s.features, s.features);
    out.setZero();
    for (std::int64_t step = 0; step < s.steps && row % s.length + step < s.length; ++step)
      out += weights(pass, s, step) * array(pass.inputs[0] + (row + step) * s.features, s.features);
  });
}

void lookahead_backward(const Pass& pass) {
  const Sizes s = sizes(pass);
  if (const GradientRoom& room = pass.input_gradients[0]; room.data != nullptr)
    pass.pool->run(pass.batch * s.length, [&](std::int64_t row, int) {
      Array out = array(room.data + row * s.features, s.features);
      if (!room.add) out.setZero();
      for (std::int64_t step = 0; step < s.steps && step <= row % s.length; ++step)
        out += weights(pass, s, step) * array(pass.output_gradient + (row - step) * s.features, s.features);
    });
  const GradientRoom& room = pass.weight_gradients[0];
  pass.pool->run(s.steps, [&](std::int64_t step, int) {
    Eigen::Map<Eigen::ArrayXf, 0, Eigen::InnerStride<>> out(room.data + step, s.features,
                                                            Eigen::InnerStride<>(s.steps));
    if (!room.add) out.setZero();
    for (std::int64_t row = 0; row < pass.batch * s.length; ++row)
      if (row % s.length + step < s.length)
        out += array(pass.output_gradient + row * s.features, s.features) *
               array(pass.inputs[0] + (row + step) * s.features, s.features);
  });
}

}  // namespace profiler::cpu
