#include "validate/live/gradients.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>

namespace live {
namespace {

constexpr std::size_t kPeriod = 8191;  // prime, so it divides no buffer size
constexpr std::size_t kTurn = 1009;    // offset of the numbers from one iteration to the next

constexpr int kNarrow = 4;
constexpr int kWide = 1 << 15;

std::vector<std::vector<float>> sampled(std::uint64_t seed, std::size_t ranks, int max) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> out(ranks + 1, std::vector<float>(kPeriod));
  const auto choices = static_cast<std::uint64_t>(2 * max + 1);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < kPeriod; ++i) {
      out[rank][i] = static_cast<float>(static_cast<int>(random() % choices) - max);
      out[ranks][i] += out[rank][i];
    }
  return out;
}

/// Calls visit(offset in values, part of the period) until all `count` values are covered.
template <typename Visit>
void go_round(const std::vector<float>& period, std::size_t from, std::size_t count, Visit visit) {
  std::size_t place = from % kPeriod;
  for (std::size_t done = 0; done < count;) {
    const std::size_t length = std::min(kPeriod - place, count - done);
    visit(done, std::span(period).subspan(place, length));
    done += length;
    place = 0;
  }
}

std::string difference_from(const std::vector<float>& period, std::size_t from,
                            std::span<const float> values) {
  std::string out;
  go_round(period, from, values.size(), [&](std::size_t done, std::span<const float> part) {
    if (out.empty()) out = first_difference(values.subspan(done, part.size()), part, done);
  });
  return out;
}

}  // namespace

Gradients::Gradients(std::uint64_t seed, std::uint32_t ranks)
    : ranks_(ranks), narrow_(sampled(seed, ranks, kNarrow)), wide_(sampled(seed + 1, ranks, kWide)) {}

void Gradients::fill(Spread spread, std::uint32_t rank, std::uint32_t iteration, std::size_t first,
                     std::span<float> values) const {
  go_round(period(spread, rank), first + kTurn * iteration, values.size(),
           [&](std::size_t done, std::span<const float> part) {
             std::ranges::copy(part, values.begin() + static_cast<std::ptrdiff_t>(done));
           });
}

std::string Gradients::fault_of_sums(Spread spread, std::uint32_t iteration, std::size_t first,
                                     std::span<const float> values) const {
  return difference_from(period(spread, ranks_), first + kTurn * iteration, values);
}

std::string Gradients::fault_of_copies(std::uint32_t iteration, std::size_t first,
                                       std::span<const float> values) const {
  return difference_from(period(Spread::wide, 0), first + kTurn * iteration, values);
}

std::string first_difference(std::span<const float> values, std::span<const float> expected,
                             std::size_t first) {
  const auto [wrong, right] = std::mismatch(values.begin(), values.end(), expected.begin(), expected.end());
  if (wrong == values.end() && right == expected.end()) return "";
  if (wrong == values.end() || right == expected.end())
    return fmt::format("there are {} values, expected {}", values.size(), expected.size());
  return fmt::format("value {} is {}, expected {}", first + static_cast<std::size_t>(wrong - values.begin()),
                     *wrong, *right);
}

}  // namespace live
