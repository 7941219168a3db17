// linear: y = x w' + b on the last dimension.

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

struct Sizes {
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
};

Sizes sizes(const Pass& pass) {
  const std::int64_t in = pass.in().back();
  return {.rows = pass.in_count() / in, .in = in, .out = pass.out().back()};
}

}  // namespace

void linear_forward(const Pass& pass) {
  const auto [rows, in, out] = sizes(pass);
  const bool has_bias = pass.weights.size() > 1;
  if (has_bias)
    for (std::int64_t row = 0; row < rows; ++row)
      array(pass.output + row * out, out) = array(pass.weights[1], out);
  run_product(pass, {.a = pass.inputs[0],
                     .a_stride = in,
                     .b = pass.weights[0],
                     .b_stride = in,
                     .c = pass.output,
                     .c_stride = out,
                     .rows = rows,
                     .columns = out,
                     .inner = in,
                     .b_transposed = true,
                     .add = has_bias});
}

void linear_backward(const Pass& pass) {
  const auto [rows, in, out] = sizes(pass);
  if (const GradientRoom& room = pass.input_gradients[0]; room.data != nullptr)
    run_product(pass, {.a = pass.output_gradient,
                       .a_stride = out,
                       .b = pass.weights[0],
                       .b_stride = in,
                       .c = room.data,
                       .c_stride = in,
                       .rows = rows,
                       .columns = in,
                       .inner = out,
                       .add = room.add});
  run_product(pass, {.a = pass.output_gradient,
                     .a_stride = out,
                     .b = pass.inputs[0],
                     .b_stride = in,
                     .c = pass.weight_gradients[0].data,
                     .c_stride = in,
                     .rows = out,
                     .columns = in,
                     .inner = rows,
                     .a_transposed = true,
                     .add = pass.weight_gradients[0].add});
  if (pass.weights.size() > 1)
    put_column_sums(pass, pass.output_gradient, rows, out, pass.weight_gradients[1]);
}

}  // namespace profiler::cpu
