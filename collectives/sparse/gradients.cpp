#include "collectives/sparse/gradients.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "sim/draws.hpp"

namespace sparse {
namespace {

/// The purpose of a random number.
enum class Purpose : std::uint8_t { layer_begin, layer_scale, element_scale, common, own };

template <typename... Words>
std::uint64_t bits_of(const GradientSource& source, Purpose draw, Words... words) {
  return sim::hash(source.seed, static_cast<std::uint64_t>(draw), words...);
}

/// Returns cosine and sine of a rotation by `iteration` times 2 arctan(drift), without calls of libm.
std::array<double, 2> turned(double drift, std::uint64_t iteration) {
  const double scale = 1 + drift * drift;
  std::array<double, 2> power = {(1 - drift * drift) / scale, 2 * drift / scale};
  std::array<double, 2> turn = {1, 0};
  const auto times = [](std::array<double, 2> a, std::array<double, 2> b) {
    return std::array<double, 2>{a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
  };
  for (; iteration > 0; iteration /= 2, power = times(power, power))
    if (iteration % 2 == 1) turn = times(turn, power);
  return turn;
}

std::vector<std::size_t> layer_ends(const GradientSource& source, std::size_t elements) {
  std::vector<std::size_t> ends;
  for (std::size_t layer = 1; layer < source.layers; ++layer)
    ends.push_back(bits_of(source, Purpose::layer_begin, layer) % (elements + 1));
  ends.push_back(elements);
  std::ranges::sort(ends);
  return ends;
}

/// A normal variate times the square root of an exponential one with mean 1 is a Laplace variate with
/// variance 1.
double element_scale(const GradientSource& source, std::size_t element) {
  if (source.tails == Tails::gaussian) return 1;
  return std::sqrt(-sim::portable_log(sim::uniform(bits_of(source, Purpose::element_scale, element))));
}

void check(const GradientSource& source) {
  const bool share = source.common >= 0 && source.common <= 1;
  if (source.layers == 0 || !share || !(source.drift >= 0) || !(source.layer_sigma >= 0))
    throw std::invalid_argument("gradient: no such source");
}

}  // namespace

std::vector<float> gradient(const GradientSource& source, std::size_t elements, std::uint32_t rank,
                            std::uint64_t iteration) {
  check(source);
  const auto [along, across] = turned(source.drift, iteration);
  const auto drifting = [along = along, across = across](std::uint64_t bits) {
    return along * sim::standard_normal(bits) +
           (across == 0 ? 0 : across * sim::standard_normal(sim::hash(bits, 1)));
  };
  const double common = std::sqrt(source.common);
  const double own = std::sqrt(1 - source.common);
  std::vector<float> values;
  values.reserve(elements);
  std::size_t layer = 0;
  for (const std::size_t end : layer_ends(source, elements)) {
    const double scale =
        sim::lognormal_mean_one(bits_of(source, Purpose::layer_scale, layer++), source.layer_sigma);
    for (std::size_t i = values.size(); i < end; ++i) {
      const double shared = common == 0 ? 0 : common * drifting(bits_of(source, Purpose::common, i));
      const double alone = own == 0 ? 0 : own * drifting(bits_of(source, Purpose::own, rank, i));
      values.push_back(static_cast<float>(scale * element_scale(source, i) * (shared + alone)));
    }
  }
  return values;
}

}  // namespace sparse
