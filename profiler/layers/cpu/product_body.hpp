// The source that every product_*.cpp compiles for its instruction set. Eigen gets a different name each
// time: otherwise the linker would keep one copy of its functions for all, which another processor may not be
// able to run. Before including it define FUSEWISE_PRODUCT, the function's name, and FUSEWISE_EIGEN, Eigen's.

#ifndef FUSEWISE_PRODUCT
#error "included by product_*.cpp alone"
#endif

#define Eigen FUSEWISE_EIGEN  // NOLINT
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "profiler/layers/cpu/product.hpp"

namespace profiler {
namespace {

using Stride = Eigen::OuterStride<>;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <typename Left, typename Right>
void multiply(const Product& p, const Left& left, const Right& right) {
  Eigen::Map<Rows, 0, Stride> result(p.c, p.rows, p.columns, Stride(p.c_stride));
  if (p.add)
    result.noalias() += left * right;
  else
    result.noalias() = left * right;
}

template <typename Left>
void multiply(const Product& p, const Left& left) {
  if (p.b_transposed)
    multiply(p, left,
             Eigen::Map<const Rows, 0, Stride>(p.b, p.columns, p.inner, Stride(p.b_stride)).transpose());
  else
    multiply(p, left, Eigen::Map<const Rows, 0, Stride>(p.b, p.inner, p.columns, Stride(p.b_stride)));
}

}  // namespace

void FUSEWISE_PRODUCT(const Product& p) {
  if (p.a_transposed)
    multiply(p, Eigen::Map<const Rows, 0, Stride>(p.a, p.inner, p.rows, Stride(p.a_stride)).transpose());
  else
    multiply(p, Eigen::Map<const Rows, 0, Stride>(p.a, p.rows, p.inner, Stride(p.a_stride)));
}

}  // namespace profiler
