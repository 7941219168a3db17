// 1-bit SGD (Seide et al. 2014): one bit per element, and the means of the non-negative and of the negative
// elements. Encoding: the first mean, the second mean without its sign (float32), then the signs. An infinity
// makes its half of the elements infinite, a NaN makes the non-negative elements NaN, so a broken gradient is
// not hidden.

#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sums.hpp"

namespace compression {
namespace {

float mean_of(double sum, double count) {
  return count == 0 ? 0 : plain_nan(static_cast<float>(sum / count));
}

struct Traits {
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

Compressor onebit_compressor() { return SignWire<Traits>::compressor(); }

}  // namespace compression
