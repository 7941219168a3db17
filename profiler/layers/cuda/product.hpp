// A product of row-major matrices by cuBLASLt: described once, with its algorithm, and run often.

#pragma once

#include <cstdint>

#include "profiler/layers/cuda/device.hpp"

namespace profiler::cuda {

/// c = a b, or c + a b. A transposed matrix is stored as (columns x rows). Strides in elements.
struct ProductShape {
  std::int64_t rows = 0;     ///< of a and c
  std::int64_t columns = 0;  ///< of b and c
  std::int64_t inner = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool add = false;
  const void* bias = nullptr;  ///< a vector added to each row of c
  std::int64_t batch = 1;
  std::int64_t a_apart = 0;  ///< from one matrix of the batch to the next
  std::int64_t b_apart = 0;
  std::int64_t c_apart = 0;
};

class Product {
 public:
  Product(Device& device, const ProductShape& shape);

  void run(const void* a, const void* b, void* c);

 private:
  Blas<cublasLtMatrixLayout_t> layout(bool transposed, std::int64_t rows, std::int64_t columns,
                                      std::int64_t apart);
  void choose();

  Device* device_;
  ProductShape shape_;
  Blas<cublasLtMatmulDesc_t> operation_;
  // As cuBLASLt sees them: column-major, so b comes first and all are transposed.
  Blas<cublasLtMatrixLayout_t> first_;
  Blas<cublasLtMatrixLayout_t> second_;
  Blas<cublasLtMatrixLayout_t> out_;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace profiler::cuda
