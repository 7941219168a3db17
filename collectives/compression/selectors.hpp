// The selections that sparse compressors are named after: about the k elements of greatest magnitude, for
// less than sorting costs. All keep NaN and infinities first, as top_k() does, but for random_k(), to which
// they are elements like any other. All give nothing for k = 0 and everything for k >= x.size(), and ask for
// at most 2^32 elements, else std::invalid_argument.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/compression/select.hpp"
#include "collectives/compression/sparse_vector.hpp"

namespace compression {

inline constexpr int kSamplings = 30;

/// MSTopK (Shi et al. 2021, Algorithm 1): bisects thresholds between the mean and the maximum of |x|
/// `samplings` times; keeps all above the lowest that at most k elements reach, and fills up to exactly k
/// with neighbours, from a place that `seed` draws, among those that reach the highest that more than k
/// elements reach. Mean and maximum are those of the finite elements; where no threshold leaves at most k,
/// only infinities and NaN are above (the paper leaves a threshold of 0 there, which all elements reach), and
/// where k or more of these are, the result is top_k().
SparseVector mstopk(std::span<const float> x, std::size_t k, std::uint64_t seed, int samplings = kSamplings);

/// Deep Gradient Compression (Lin et al. 2018): all that reach the threshold of a sample drawn by `seed` (1 %
/// of the elements, 512 at least; all of a smaller x); where these are more than 5k/4, the k greatest of
/// them. From 1 to 5k/4 elements.
SparseVector dgc(std::span<const float> x, std::size_t k, std::uint64_t seed);

/// k elements drawn without replacement: the same indexes wherever the seed, k and x.size() are the same.
SparseVector random_k(std::span<const float> x, std::size_t k, std::uint64_t seed);

/// Gaussian-k (Shi et al. 2019): all that reach the threshold that k elements would if they were normally
/// distributed, with their mean and standard deviation; it is scaled and bisected until from 3k/4 to 5k/4 do.
/// Where none is found (ties), top_k().
SparseVector gaussian_k(std::span<const float> x, std::size_t k);

/// A threshold and how often it was used. `calls` counts all calls.
struct ReusedThreshold {
  std::uint32_t recompute_every = 32;
  std::uint64_t calls = 0;
  float threshold = 0;
};

/// Threshold reuse (Ok-Topk; Li and Hoefler 2022): all that reach the k-th magnitude of the last call that
/// computed it, which every recompute_every-th does. It is computed sooner where it is not finite, or more
/// than 2k elements reach it; where still more than 2k do (ties), top_k(). At most 2k elements; those of
/// top_k() and equals of the last in a call that computes it.
SparseVector reuse_threshold(std::span<const float> x, std::size_t k, ReusedThreshold& state);

}  // namespace compression
