// The gradients of live runs: integers, so that sums are exact in any order; they differ by rank and
// iteration, so that stale values are detected.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace live {

/// The range of the numbers. `narrow`: sums are exact in 16 bits, too, on up to 64 ranks. `wide`: few numbers
/// have equal magnitude, as selections require.
enum class Spread : std::uint8_t { narrow, wide };

class Gradients {
 public:
  Gradients(std::uint64_t seed, std::uint32_t ranks);

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(ranks_); }

  /// Fills elements from index `first` on of the rank's gradient in that iteration.
  void fill(Spread spread, std::uint32_t rank, std::uint32_t iteration, std::size_t first,
            std::span<float> values) const;

  /// Returns an empty text if the values are the sums over all ranks, otherwise which value is wrong and how.
  std::string fault_of_sums(Spread spread, std::uint32_t iteration, std::size_t first,
                            std::span<const float> values) const;

  /// The same check against the values of rank 0: parameters that are gathered.
  std::string fault_of_copies(std::uint32_t iteration, std::size_t first,
                              std::span<const float> values) const;

 private:
  /// One period of numbers per rank, then one of their sums.
  using Periods = std::vector<std::vector<float>>;

  const std::vector<float>& period(Spread spread, std::size_t which) const {
    return (spread == Spread::narrow ? narrow_ : wide_)[which];
  }

  std::size_t ranks_;
  Periods narrow_;
  Periods wide_;
};

/// "value 17 is 3, expected 5" for the first value that differs; empty if none does. NaN equals nothing.
std::string first_difference(std::span<const float> values, std::span<const float> expected,
                             std::size_t first = 0);

}  // namespace live
