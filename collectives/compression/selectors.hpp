// The approximate selections of sparse compressors: about the k elements of largest magnitude, at lower cost
// than sorting. All keep NaN and infinities first, as top_k() does, except random_k(), which treats them like
// other elements. All return nothing for k = 0 and everything for k >= x.size(), and accept at most 2^32
// elements, otherwise std::invalid_argument.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/compression/select.hpp"
#include "collectives/compression/sparse_vector.hpp"

namespace compression {

inline constexpr int kSamplings = 30;

/// MSTopK (Shi et al. 2021, Algorithm 1): bisects thresholds between the mean and the maximum of |x|
/// `samplings` times; keeps all elements above the lowest threshold that at most k elements reach, and fills
/// up to exactly k with neighbouring elements, from a position given by `seed`, among those that reach the
/// highest threshold that more than k elements reach. Mean and maximum are those of the finite elements. If
/// no threshold leaves at most k, only infinities and NaN count as above (the paper keeps a threshold of 0
/// there, which all elements reach); if k or more elements are not finite, the result is top_k().
SparseVector mstopk(std::span<const float> x, std::size_t k, std::uint64_t seed, int samplings = kSamplings);

/// Deep Gradient Compression (Lin et al. 2018): all elements that reach the threshold of a sample selected by
/// `seed` (1 % of the elements, at least 512; all of a smaller x); if these are more than 5k/4, the k largest
/// of them. Returns from 1 to 5k/4 elements.
SparseVector dgc(std::span<const float> x, std::size_t k, std::uint64_t seed);

/// k elements sampled without replacement: the same indexes for the same seed, k and x.size().
SparseVector random_k(std::span<const float> x, std::size_t k, std::uint64_t seed);

/// Gaussian-k (Shi et al. 2019): all elements that reach the threshold that k elements would reach under a
/// normal distribution with their mean and standard deviation; the threshold is scaled and bisected until
/// 3k/4 to 5k/4 elements reach it. If none is found (ties), top_k().
SparseVector gaussian_k(std::span<const float> x, std::size_t k);

/// A threshold and the number of its uses. `calls` counts all calls.
struct ReusedThreshold {
  std::uint32_t recompute_every = 32;
  std::uint64_t calls = 0;
  float threshold = 0;
};

/// Threshold reuse (Ok-Topk; Li and Hoefler 2022): all elements that reach the k-th magnitude of the last
/// call that computed it; every recompute_every-th call does. It is computed sooner if it is not finite or
/// more than 2k elements reach it; if still more than 2k do (ties), top_k(). Returns at most 2k elements; a
/// call that computes the threshold returns those of top_k() and ties of the last.
SparseVector reuse_threshold(std::span<const float> x, std::size_t k, ReusedThreshold& state);

}  // namespace compression
