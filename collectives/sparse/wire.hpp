// Sparse vectors on the wire (4 bytes of index and 4 of value per element, nothing else), and the pieces and
// sums of them that the collectives are made of.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/compression/sparse_vector.hpp"
#include "collectives/sparse/marks.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

using compression::SparseVector;

/// Bytes in the words that the papers count in: a float32 or an int32 index.
inline constexpr std::int64_t kBytesPerWord = 4;

/// Elements first to first + count - 1 of `vector`, in the order of the vector.
transport::Bytes encode(const SparseVector& vector, std::size_t first, std::size_t count);
transport::Bytes encode(const SparseVector& vector);

/// What is marked in `within`; `values` are those of the range of `marks`.
transport::Bytes encode(const Marks& marks, const float* values, Range within);

/// TransportError unless the message holds whole elements whose indexes grow and lie in `range`.
SparseVector decode(std::span<const std::byte> message, Range range);

/// The places in `vector` of the elements whose indexes lie in `range`.
Range places_in(const SparseVector& vector, Range range);

/// The elements at `places` of `vector`.
SparseVector slice(const SparseVector& vector, Range places);

/// std::invalid_argument, which calls it `what`, unless it is a sparse vector of `elements` elements.
void check_sparse(const SparseVector& vector, std::size_t elements, std::string_view what);

/// `tail` after `vector`, whose indexes are all lower.
void append(SparseVector& vector, const SparseVector& tail);

/// Of the elements of `vector` the k of greatest magnitude, of equals those with the lowest indexes; all if
/// it has fewer.
SparseVector top_of(const SparseVector& vector, std::size_t k);

/// Sums sparse vectors over a range of indexes. An element's value is the sum of what was added, in the order
/// in which it was added; one that nobody gave is absent, and one whose sum is zero is there. Memory: 4 1/8
/// bytes per element of the range, of which only the pages where something lies are touched; an eighth where
/// the sums have a place already.
class Accumulator {
 public:
  explicit Accumulator(Range range);
  /// Sums in `place`, which is as long as the range.
  Accumulator(Range range, std::span<float> place);

  /// These and what follows ask for indexes within the range.
  void add(std::uint32_t index, float value);
  void add(const SparseVector& vector);
  /// An encoding, as decode() reads it, without a copy. TransportError unless its indexes grow and lie in
  /// `within`.
  void add(std::span<const std::byte> message, Range within);
  /// Forgets all, and what has less than this magnitude, and all but the k of greatest magnitude, of equals
  /// those with the lowest indexes.
  void clear();
  void keep_at_least(float threshold, Range within);
  void keep_top(std::size_t k);

  std::size_t count() const { return count_; }
  bool has(std::size_t index) const { return present_.has(index); }
  /// The least magnitude, as compression::magnitude() gives it; infinity's of none.
  std::uint32_t min_magnitude() const;
  SparseVector take() const;
  /// encode(take()) without the copy, and of those in a part alone.
  transport::Bytes encoded() const { return encoded(present_.range()); }
  transport::Bytes encoded(Range within) const { return encode(present_, values_, within); }
  /// Absent elements are 0 from then on.
  void zero_absent();

 private:
  float& value_at(std::size_t index) { return values_[index - present_.range().begin]; }
  float value_at(std::size_t index) const { return values_[index - present_.range().begin]; }
  void drop(std::size_t index);

  Marks present_;
  std::unique_ptr<float[]> own_;  ///< where no place was given
  float* values_;                 ///< meaningful where present
  std::size_t count_ = 0;
};

}  // namespace sparse
