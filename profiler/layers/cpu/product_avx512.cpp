#define FUSEWISE_PRODUCT product_avx512
#define FUSEWISE_EIGEN eigen_avx512
#include "profiler/layers/cpu/product_body.hpp"
