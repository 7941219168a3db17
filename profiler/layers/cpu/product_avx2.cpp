#define FUSEWISE_PRODUCT product_avx2
#define FUSEWISE_EIGEN eigen_avx2
#include "profiler/layers/cpu/product_body.hpp"
