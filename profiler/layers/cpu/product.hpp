// A matrix product, compiled for several instruction sets.

#pragma once

#include <cstdint>

namespace profiler {

/// c = a b, or c + a b. Rows are `stride` apart; a transposed matrix is stored as (columns x rows).
struct Product {
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t rows = 0;     ///< of a and c
  std::int64_t columns = 0;  ///< of b and c
  std::int64_t inner = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool add = false;
};

using ProductFunction = void (*)(const Product&);

void product_baseline(const Product& product);
void product_avx2(const Product& product);
void product_avx512(const Product& product);

}  // namespace profiler
