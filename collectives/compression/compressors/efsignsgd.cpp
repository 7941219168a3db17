// EFSignSGD (Karimireddy et al. 2019): the signs, scaled by the mean of |x|. Encoding: the scale (float32),
// then the signs. One infinity makes all elements infinite, one NaN makes them NaN, so a broken gradient is
// not hidden.

#include <cmath>

#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sums.hpp"

namespace compression {
namespace {

struct Traits {
  static constexpr const char* kName = "efsignsgd";
  static constexpr const char* kSummary = "signs and a scale";
  static std::array<float, 1> scales(std::span<const float> x) {
    const double sum = sum_of(x, [](float each) { return std::abs(static_cast<double>(each)); });
    return {x.empty() ? 0 : plain_nan(static_cast<float>(sum / static_cast<double>(x.size())))};
  }
  static std::array<float, 2> values(std::array<float, 1> scales) { return {scales[0], -scales[0]}; }
};

}  // namespace

Compressor efsignsgd_compressor() { return SignWire<Traits>::compressor(); }

}  // namespace compression
