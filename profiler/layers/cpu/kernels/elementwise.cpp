// Element-wise functions.

#include <algorithm>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

using Values = Eigen::ArrayXf;

/// output = function(input)
template <typename Function>
void map(const Pass& pass, const Function& function) {
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    array(pass.output + begin, count) = function(array(pass.inputs[0] + begin, count));
  });
}

/// input gradient = output gradient * slope(input, output)
template <typename Slope>
void map_back(const Pass& pass, const Slope& slope) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  const float* output = pass.output;
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    put(room, begin, count,
        array(pass.output_gradient + begin, count) *
            slope(array(pass.inputs[0] + begin, count), array(output + begin, count)));
  });
}

/// The standard normal distribution function. Abramowitz and Stegun, 7.1.26: within 1e-7.
Values normal_below(const ConstArray& x) {
  constexpr float kSqrtHalf = 0.70710678F;
  const Values z = x.abs() * kSqrtHalf;
  const Values t = 1 / (1 + 0.3275911F * z);
  const Values tail =
      0.5F * t *
      (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F)))) *
      (-z.square()).exp();
  return (x > 0).select(1 - tail, tail);
}

constexpr float kSqrtTwoOverPi = 0.79788456F;
constexpr float kCubic = 0.044715F;
constexpr float kInverseSqrtTwoPi = 0.39894228F;

Values tanh_part(const ConstArray& x) { return (kSqrtTwoOverPi * (x + kCubic * x.cube())).tanh(); }

Values sigmoid(const ConstArray& x) { return 1 / (1 + (-x).exp()); }

bool is_by_tanh(const Pass& pass) { return pass.as<core::Gelu>().tanh; }

}  // namespace

void relu_forward(const Pass& pass) {
  map(pass, [](const ConstArray& x) { return x.max(0.0F); });
}

void relu_backward(const Pass& pass) {
  map_back(pass, [](const ConstArray& x, const ConstArray&) { return (x > 0).cast<float>(); });
}

void gelu_forward(const Pass& pass) {
  if (is_by_tanh(pass))
    map(pass, [](const ConstArray& x) -> Values { return 0.5F * x * (1 + tanh_part(x)); });
  else
    map(pass, [](const ConstArray& x) -> Values { return x * normal_below(x); });
}

void gelu_backward(const Pass& pass) {
  if (is_by_tanh(pass)) {
    map_back(pass, [](const ConstArray& x, const ConstArray&) -> Values {
      const Values t = tanh_part(x);
      return 0.5F * (1 + t) + 0.5F * x * (1 - t.square()) * kSqrtTwoOverPi * (1 + 3 * kCubic * x.square());
    });
    return;
  }
  map_back(pass, [](const ConstArray& x, const ConstArray&) -> Values {
    return normal_below(x) + x * kInverseSqrtTwoPi * (-0.5F * x.square()).exp();
  });
}

void silu_forward(const Pass& pass) {
  map(pass, [](const ConstArray& x) -> Values { return x * sigmoid(x); });
}

void silu_backward(const Pass& pass) {
  map_back(pass, [](const ConstArray& x, const ConstArray&) -> Values {
    const Values s = sigmoid(x);
    return s * (1 + x * (1 - s));
  });
}

void tanh_forward(const Pass& pass) {
  map(pass, [](const ConstArray& x) { return x.tanh(); });
}

void tanh_backward(const Pass& pass) {
  map_back(pass, [](const ConstArray&, const ConstArray& y) { return 1 - y.square(); });
}

void hardtanh_forward(const Pass& pass) {
  const auto& clamp = pass.as<core::Hardtanh>();
  const auto min = static_cast<float>(clamp.min);
  const auto max = static_cast<float>(clamp.max);
  map(pass, [&](const ConstArray& x) -> Values { return x.max(min).min(max); });
}

void hardtanh_backward(const Pass& pass) {
  const auto& clamp = pass.as<core::Hardtanh>();
  const auto min = static_cast<float>(clamp.min);
  const auto max = static_cast<float>(clamp.max);
  map_back(pass, [&](const ConstArray& x, const ConstArray&) -> Values {
    return (x > min && x < max).cast<float>();
  });
}

void dropout_forward(const Pass& pass) {
  const double probability = pass.as<core::Dropout>().probability;
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    dropout_factors(pass.seed, begin, count, probability, pass.output + begin);
    array(pass.output + begin, count) *= array(pass.inputs[0] + begin, count);
  });
}

void dropout_backward(const Pass& pass) {
  const double probability = pass.as<core::Dropout>().probability;
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    Values factors(count);
    dropout_factors(pass.seed, begin, count, probability, factors.data());
    put(room, begin, count, array(pass.output_gradient + begin, count) * factors);
  });
}

void add_forward(const Pass& pass) {
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    Array out = array(pass.output + begin, count);
    out = array(pass.inputs[0] + begin, count) + array(pass.inputs[1] + begin, count);
    for (std::size_t i = 2; i < pass.inputs.size(); ++i) out += array(pass.inputs[i] + begin, count);
  });
}

void add_backward(const Pass& pass) {
  for (const GradientRoom& room : pass.input_gradients) {
    if (room.data == nullptr) continue;
    each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
      put(room, begin, count, array(pass.output_gradient + begin, count));
    });
  }
}

void multiply_forward(const Pass& pass) {
  each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
    Array out = array(pass.output + begin, count);
    out = array(pass.inputs[0] + begin, count) * array(pass.inputs[1] + begin, count);
    for (std::size_t i = 2; i < pass.inputs.size(); ++i) out *= array(pass.inputs[i] + begin, count);
  });
}

void multiply_backward(const Pass& pass) {
  for (std::size_t to = 0; to < pass.inputs.size(); ++to) {
    const GradientRoom& room = pass.input_gradients[to];
    if (room.data == nullptr) continue;
    each_element(pass, pass.out_count(), [&](std::int64_t begin, std::int64_t count) {
      Values product = array(pass.output_gradient + begin, count);
      for (std::size_t i = 0; i < pass.inputs.size(); ++i)
        if (i != to) product *= array(pass.inputs[i] + begin, count);
      put(room, begin, count, product);
    });
  }
}

}  // namespace profiler::cpu
