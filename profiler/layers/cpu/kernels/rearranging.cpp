// Layers that only move data: joining, transposing, selecting a part.

#include <algorithm>
#include <vector>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// Calls work(input, its first element, output's first element, elements) for each contiguous range.
template <typename Work>
void each_joined(const Pass& pass, const Work& work) {
  const std::size_t axis = pass.as<core::Concat>().axis;
  const std::int64_t outer = pass.batch * element_count(pass.out(), 0, axis);
  const std::int64_t whole = element_count(pass.out(), axis, pass.out().size());
  constexpr std::int64_t kGrain = 1;
  run_ranges(*pass.pool, outer, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < pass.work->inputs.size(); ++i) {
      const std::int64_t part = element_count(pass.in(i), axis, pass.in(i).size());
      for (std::int64_t at = begin; at < end; ++at) work(i, at * part, at * whole + offset, part);
      offset += part;
    }
  });
}

/// Calls work(first input element, its stride, first output element, elements) for each row of the output.
template <typename Work>
void each_transposed(const Pass& pass, const Work& work) {
  const std::vector<std::size_t>& axes = pass.as<core::Transpose>().axes;
  const core::Shape& in = pass.in();
  const core::Shape& out = pass.out();
  std::vector<std::int64_t> strides;  // strides of the input, indexed by dimension of the output
  for (const std::size_t axis : axes) strides.push_back(element_count(in, axis + 1, in.size()));
  const std::int64_t row = out.back();
  const std::int64_t rows = element_count(out, 0, out.size() - 1);
  constexpr std::int64_t kGrain = 64;
  run_ranges(*pass.pool, pass.batch * rows, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t at = begin; at < end; ++at) {
      std::int64_t from = at / rows * rows * row;
      std::int64_t rest = at % rows;
      for (std::size_t dimension = out.size() - 1; dimension-- > 0; rest /= out[dimension])
        from += rest % out[dimension] * strides[dimension];
      work(from, strides.back(), at * row, row);
    }
  });
}

using Strided = Eigen::Map<Eigen::ArrayXf, 0, Eigen::InnerStride<>>;
using ConstStrided = Eigen::Map<const Eigen::ArrayXf, 0, Eigen::InnerStride<>>;

}  // namespace

void concat_forward(const Pass& pass) {
  each_joined(pass, [&](std::size_t i, std::int64_t from, std::int64_t to, std::int64_t elements) {
    std::copy_n(pass.inputs[i] + from, elements, pass.output + to);
  });
}

void concat_backward(const Pass& pass) {
  each_joined(pass, [&](std::size_t i, std::int64_t from, std::int64_t to, std::int64_t elements) {
    const GradientRoom& room = pass.input_gradients[i];
    if (room.data != nullptr) put(room, from, elements, array(pass.output_gradient + to, elements));
  });
}

void transpose_forward(const Pass& pass) {
  each_transposed(pass, [&](std::int64_t from, std::int64_t stride, std::int64_t to, std::int64_t elements) {
    array(pass.output + to, elements) =
        ConstStrided(pass.inputs[0] + from, elements, Eigen::InnerStride<>(stride));
  });
}

void transpose_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  each_transposed(pass, [&](std::int64_t from, std::int64_t stride, std::int64_t to, std::int64_t elements) {
    Strided gradient(room.data + from, elements, Eigen::InnerStride<>(stride));
    const ConstArray given = array(pass.output_gradient + to, elements);
    if (room.add)
      gradient += given;
    else
      gradient = given;
  });
}

void select_forward(const Pass& pass) {
  const std::int64_t index = pass.as<core::Select>().index;
  const std::int64_t part = core::element_count(pass.out());
  const std::int64_t whole = core::element_count(pass.in());
  for (std::int64_t sample = 0; sample < pass.batch; ++sample)
    std::copy_n(pass.inputs[0] + sample * whole + index * part, part, pass.output + sample * part);
}

void select_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  const std::int64_t index = pass.as<core::Select>().index;
  const std::int64_t part = core::element_count(pass.out());
  const std::int64_t whole = core::element_count(pass.in());
  if (!room.add) array(room.data, pass.batch * whole).setZero();
  for (std::int64_t sample = 0; sample < pass.batch; ++sample)
    array(room.data + sample * whole + index * part, part) +=
        array(pass.output_gradient + sample * part, part);
}

}  // namespace profiler::cpu
