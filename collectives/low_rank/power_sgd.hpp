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
  bool operator==(const Matrix&) const = default;
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

bool is_approximated(const Matrix& tensor, const PowerSgdOptions& options);

/// A tensor that is approximated as P Q': where it and its factors lie.
struct Approximated {
  Matrix tensor;
  std::size_t rank = 0;    ///< at most the tensor's rows and columns
  std::size_t at = 0;      ///< in the gradient
  std::size_t p = 0;       ///< rank x rows, among the first factors
  std::size_t q = 0;       ///< rank x columns, among the second factors
  std::size_t number = 0;  ///< of the tensor in the group
};

/// One rank's part of PowerSGD for one group of tensors, which lie one after another in a gradient, and what
/// it keeps between calls. A call is encode(), the sum of rest() and p() over all ranks, factor(), the sum of
/// q(), decode(); sum() does all of it.
class PowerSgd {
 public:
  /// Throws std::invalid_argument if the rank is 0.
  PowerSgd(std::span<const Matrix> tensors, const PowerSgdOptions& options);

  /// With error feedback adds the residual to the gradient. Then computes P = M Q of each matrix and copies
  /// the tensors that are not approximated into rest(). Throws std::invalid_argument if the gradient has
  /// another size than the tensors.
  void encode(std::span<float> gradient);
  /// Makes the columns of each summed P orthonormal, and computes Q = M' P.
  void factor(std::span<const float> gradient);
  /// Replaces the gradient by the approximation of the sum over `ranks` ranks, and keeps the rank's share of
  /// what it leaves out. Where a sum is not finite nothing is kept, so that a broken gradient is sent once.
  void decode(std::span<float> gradient, std::uint32_t ranks);

  /// All of it, with three all-reduces of the ring. The same bytes on all ranks.
  void sum(transport::Transport& transport, std::span<float> gradient);

  /// These three are summed over all ranks. Each may be empty.
  std::span<float> rest() { return rest_; }
  std::span<float> p() { return p_; }
  std::span<float> q() { return q_; }
  /// Returns the number of elements in these three.
  std::size_t sent_elements() const { return rest_.size() + p_.size() + q_.size(); }
  /// What approximations have left out, as large as the gradient; empty without error feedback.
  std::span<const float> residual() const { return residual_; }

 private:
  /// A tensor that is summed as it is.
  struct Plain {
    std::size_t at = 0;  ///< in the gradient
    std::size_t elements = 0;
  };

  PowerSgdOptions options_;
  std::vector<Approximated> approximated_;
  std::vector<Plain> plain_;
  std::size_t elements_ = 0;
  std::vector<float> rest_;
  std::vector<float> p_;
  std::vector<float> q_;  ///< those of the last call, from which the next one goes on; the same on all ranks
  std::vector<float> residual_;
  std::uint64_t calls_ = 0;
};

}  // namespace low_rank
