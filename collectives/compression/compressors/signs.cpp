// Signs with one scale or two, which are float32 and come first. An infinity makes all elements that its
// scale stands for infinite, a NaN makes them NaN, so a broken gradient is not hidden.

#include <cmath>

#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sums.hpp"

namespace compression {
namespace {

float mean_of(double sum, double count) {
  return count == 0 ? 0 : plain_nan(static_cast<float>(sum / count));
}

/// EFSignSGD (Karimireddy et al. 2019): the signs, scaled by the mean of |x|.
struct EfSignSgd {
  static constexpr const char* kName = "efsignsgd";
  static constexpr const char* kSummary = "signs and a scale";
  static std::array<float, 1> scales(std::span<const float> x) {
    const double sum = sum_of(x, [](float each) { return std::abs(static_cast<double>(each)); });
    return {mean_of(sum, static_cast<double>(x.size()))};
  }
  static std::array<float, 2> values(std::array<float, 1> scales) { return {scales[0], -scales[0]}; }
};

/// 1-bit SGD (Seide et al. 2014): the means of the non-negative and of the negative elements, the latter
/// without its sign. NaN is not negative.
struct OneBit {
  static constexpr const char* kName = "onebit";
  static constexpr const char* kSummary = "signs and a scale for each";
  static std::array<float, 2> scales(std::span<const float> x) {
    const double negatives =
        sum_of(x, [](float each) { return static_cast<double>(only_if(is_negative(each), 1)); });
    const double below =
        sum_of(x, [](float each) { return static_cast<double>(only_if(is_negative(each), -each)); });
    const double above =
        sum_of(x, [](float each) { return static_cast<double>(only_if(!is_negative(each), each)); });
    return {mean_of(above, static_cast<double>(x.size()) - negatives), mean_of(below, negatives)};
  }
  static std::array<float, 2> values(std::array<float, 2> scales) { return {scales[0], -scales[1]}; }
};

}  // namespace

Compressor efsignsgd_compressor() { return SignWire<EfSignSgd>::compressor(); }
Compressor onebit_compressor() { return SignWire<OneBit>::compressor(); }

}  // namespace compression
