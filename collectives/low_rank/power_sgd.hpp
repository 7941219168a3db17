// PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019): instead of a gradient's matrix, two thin factors
// are summed over the workers, so that m x n elements travel as (m + n) rank.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace low_rank {

/// A tensor as a matrix: its first dimension, and the product of the others (1 of a vector).
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 1;

  std::size_t elements() const { return rows * columns; }
};

/// The same on all ranks.
struct PowerSgdOptions {
  std::size_t rank = 1;  ///< of the approximation, at least 1
  /// A tensor is approximated where (m + n) rank times this is less than m n, as by PyTorch's
  /// min_compression_rate; the others are summed as they are.
  double min_compression_rate = 2;
  bool error_feedback = true;
  std::uint64_t seed = 1;  ///< of the factors with which the iteration begins
};

/// What a rank keeps between calls for one group of tensors; starts empty.
struct PowerSgdState {
  std::vector<float> residual;  ///< what approximations have left out, as large as the group
  /// The second factors of the last call, from which the next one goes on; the same on all ranks.
  std::vector<float> factors;
  std::uint64_t calls = 0;
};

bool is_approximated(const Matrix& tensor, const PowerSgdOptions& options);

/// The elements of the two all-reduces of a group; tensors that are not approximated travel with the first.
struct PowerSgdMessages {
  std::size_t first = 0;
  std::size_t second = 0;
};
PowerSgdMessages messages(std::span<const Matrix> tensors, const PowerSgdOptions& options);

/// Replaces `gradient`, in which the tensors lie one after another, by the sum over all ranks of the
/// approximations: the same bytes on all ranks. With error feedback the mean of what was left out is added
/// to the next gradients. Where a sum is not finite nothing is kept, so that a broken gradient is sent once.
/// Throws std::invalid_argument if the sizes of the tensors and of the gradient differ, or the state is that
/// of another group.
void power_sgd(transport::Transport& transport, std::span<const Matrix> tensors, std::span<float> gradient,
               const PowerSgdOptions& options, PowerSgdState& state);

}  // namespace low_rank
