// The gradients of live runs: whole numbers, so that sums are exact in any order, other ones on each rank and
// in each iteration, so that what is left over from before is seen.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace live {

/// How far numbers spread: narrow ones have exact sums in 16 bits, too, on up to 64 ranks; of wide ones few
/// have the same magnitude, as selections want.
enum class Spread : std::uint8_t { narrow, wide };

class Gradients {
 public:
  Gradients(std::uint64_t seed, std::uint32_t ranks);

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ranks_); }

  /// Elements first, first + 1, ... of the rank's gradient in that iteration.
  void fill(Spread spread, std::uint32_t rank, std::uint32_t iteration, std::size_t first,
            std::span<float> values) const;

  /// Empty if these are sums over all ranks; else which value is wrong, and how.
  std::string fault_of_sums(Spread spread, std::uint32_t iteration, std::size_t first,
                            std::span<const float> values) const;

  /// The same of what rank 0 alone has: parameters that are gathered.
  std::string fault_of_copies(std::uint32_t iteration, std::size_t first,
                              std::span<const float> values) const;

 private:
  /// A period of numbers for each rank, then one of their sums.
  using Periods = std::vector<std::vector<float>>;

  const std::vector<float>& period(Spread spread, std::size_t which) const {
    return (spread == Spread::narrow ? narrow_ : wide_)[which];
  }

  std::size_t ranks_;
  Periods narrow_;
  Periods wide_;
};

/// "value 17 is 3, expected 5" of the first that differs; empty if none does. NaN equals nothing.
std::string first_difference(std::span<const float> values, std::span<const float> expected,
                             std::size_t first = 0);

}  // namespace live
