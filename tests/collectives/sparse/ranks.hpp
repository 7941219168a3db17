// Runs a collective on ranks that are threads, counts what each sends and receives, and compares bytes; and
// direct implementations with which the collectives are compared.

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/compression/sparse_vector.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/in_process.hpp"

namespace ranks {

using compression::SparseVector;
using transport::Counted;

using Phases = std::map<std::string, transport::Counts, std::less<>>;

template <typename Result>
struct Ran {
  std::vector<Result> results;  ///< indexed by rank, as the next
  std::vector<Phases> phases;

  /// Returns 0 if the rank had no such phase; "" is the sum of all.
  transport::Counts counts(std::size_t rank, std::string_view phase) const {
    transport::Counts sum;
    for (const auto& [name, counts] : phases[rank])
      if (phase.empty() || name == phase) sum += counts;
    return sum;
  }
  std::int64_t words_received(std::size_t rank, std::string_view phase = "") const {
    return counts(rank, phase).bytes_received / 4;
  }
  std::int64_t words_sent(std::size_t rank, std::string_view phase = "") const {
    return counts(rank, phase).bytes_sent / 4;
  }
};

template <typename Collective>
auto run(std::uint32_t size, Collective collective) {
  using Result = std::invoke_result_t<Collective, transport::Transport&>;
  Ran<Result> ran{std::vector<Result>(size), std::vector<Phases>(size)};
  transport::run_ranks(size, [&](transport::Transport& end) {
    Counted counted(end);
    ran.results[end.rank()] = collective(counted);
    ran.phases[end.rank()] = counted.phases();
  });
  return ran;
}

inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> words;
  for (const float value : values) words.push_back(std::bit_cast<std::uint32_t>(value));
  return words;
}

/// The same bytes, NaN included.
inline bool same(std::span<const float> a, std::span<const float> b) { return bits(a) == bits(b); }
inline bool same(const SparseVector& a, const SparseVector& b) {
  return a.indexes == b.indexes && same(a.values, b.values);
}

/// Returns whether |a| is greater than |b|; NaN is greater than everything else.
inline bool greater(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  return std::fabs(a) > std::fabs(b);
}

inline SparseVector all_of(std::span<const float> x) {
  SparseVector all;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    all.indexes.push_back(i);
    all.values.push_back(x[i]);
  }
  return all;
}

inline SparseVector keep_if(const SparseVector& x, const std::function<bool(std::size_t)>& keep) {
  SparseVector kept;
  for (std::size_t place = 0; place < x.indexes.size(); ++place)
    if (keep(place)) {
      kept.indexes.push_back(x.indexes[place]);
      kept.values.push_back(x.values[place]);
    }
  return kept;
}

inline SparseVector plain_top(const SparseVector& x, std::size_t k) {
  std::vector<std::size_t> places(x.indexes.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](std::size_t a, std::size_t b) { return greater(x.values[a], x.values[b]); });
  places.resize(std::min(k, places.size()));
  std::sort(places.begin(), places.end());
  return keep_if(x,
                 [&](std::size_t place) { return std::binary_search(places.begin(), places.end(), place); });
}

inline SparseVector plain_at_least(const SparseVector& x, float threshold) {
  return keep_if(x, [&](std::size_t place) { return !greater(threshold, x.values[place]); });
}

/// Sums element by element in the given order; all NaNs are the same one.
inline SparseVector plain_sum(std::span<const SparseVector> vectors) {
  std::map<std::uint32_t, float> sums;
  for (const SparseVector& vector : vectors)
    for (std::size_t i = 0; i < vector.indexes.size(); ++i) {
      const auto [at, first] = sums.try_emplace(vector.indexes[i], vector.values[i]);
      if (first) continue;
      at->second += vector.values[i];
      if (std::isnan(at->second)) at->second = std::numeric_limits<float>::quiet_NaN();
    }
  SparseVector sum;
  for (const auto& [index, value] : sums) {
    sum.indexes.push_back(index);
    sum.values.push_back(value);
  }
  return sum;
}

inline SparseVector part(const SparseVector& x, std::size_t begin, std::size_t end) {
  return keep_if(x, [&](std::size_t place) { return x.indexes[place] >= begin && x.indexes[place] < end; });
}

inline std::vector<std::uint32_t> common(const SparseVector& a, const SparseVector& b) {
  std::vector<std::uint32_t> both;
  for (const std::uint32_t index : a.indexes)
    if (std::find(b.indexes.begin(), b.indexes.end(), index) != b.indexes.end()) both.push_back(index);
  return both;
}

inline std::int64_t count(const SparseVector& x) { return static_cast<std::int64_t>(x.indexes.size()); }

}  // namespace ranks
