#define FUSEWISE_PRODUCT product_baseline
#define FUSEWISE_EIGEN eigen_baseline
#include "profiler/layers/cpu/product_body.hpp"
