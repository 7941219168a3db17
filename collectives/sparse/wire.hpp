// Encodes sparse vectors for the network (4 bytes of index and 4 of value per element, without a header), and
// the slices and sums of them from which the collectives are built.

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

/// Bytes of a word, the unit in which the papers count: a float32 or an int32 index.
inline constexpr std::int64_t kBytesPerWord = 4;

/// Encodes the elements first to first + count - 1 of `vector`, in their order.
transport::Bytes encode(const SparseVector& vector, std::size_t first, std::size_t count);
transport::Bytes encode(const SparseVector& vector);

/// Encodes the marked elements in `within`; `values` covers the range of `marks`.
transport::Bytes encode(const Marks& marks, const float* values, Range within);

/// Throws TransportError unless the message holds whole elements with increasing indexes in `range`.
SparseVector decode(std::span<const std::byte> message, Range range);

/// Returns the positions in `vector` of the elements whose indexes are in `range`.
Range places_in(const SparseVector& vector, Range range);

/// Returns the elements at `places` of `vector`.
SparseVector slice(const SparseVector& vector, Range places);

/// Throws std::invalid_argument, which mentions `what`, unless it is a sparse vector of `elements` elements.
void check_sparse(const SparseVector& vector, std::size_t elements, std::string_view what);

/// Appends `tail` to `vector`, whose indexes are all lower.
void append(SparseVector& vector, const SparseVector& tail);

/// Returns the k elements of largest magnitude, or all if there are fewer; ties go to the lowest indexes.
SparseVector top_of(const SparseVector& vector, std::size_t k);

/// Sums sparse vectors over a range of indexes. An element's value is the sum of all contributions in the
/// order in which they were added; an element without contributions is absent, one whose sum is zero is
/// present. Memory: 4 1/8 bytes per element of the range, of which only touched pages count; an eighth of a
/// byte if the caller provides the memory of the sums.
class Accumulator {
 public:
  explicit Accumulator(Range range);
  /// Sums in `place`, which is as long as the range.
  Accumulator(Range range, std::span<float> place);

  /// All indexes, here and below, must be within the range.
  void add(std::uint32_t index, float value);
  void add(const SparseVector& vector);
  /// Adds an encoding, as decode() reads it, without a copy. Throws TransportError unless its indexes
  /// increase and are in `within`.
  void add(std::span<const std::byte> message, Range within);
  /// Removes all elements; those below a magnitude; all but the k of largest magnitude (ties go to the lowest
  /// indexes).
  void clear();
  void keep_at_least(float threshold, Range within);
  void keep_top(std::size_t k);

  std::size_t count() const { return count_; }
  bool has(std::size_t index) const { return present_.has(index); }
  /// Returns the smallest magnitude, as compression::magnitude() gives it; that of infinity if there are no
  /// elements.
  std::uint32_t min_magnitude() const;
  SparseVector take() const;
  /// encode(take()) without the copy, for all elements or for a part.
  transport::Bytes encoded() const { return encoded(present_.range()); }
  transport::Bytes encoded(Range within) const { return encode(present_, values_, within); }
  /// Sets the values of absent elements to 0.
  void zero_absent();

 private:
  float& value_at(std::size_t index) { return values_[index - present_.range().begin]; }
  float value_at(std::size_t index) const { return values_[index - present_.range().begin]; }
  void drop(std::size_t index);

  Marks present_;
  std::unique_ptr<float[]> own_;  ///< if the caller provided none
  float* values_;                 ///< valid where an element is present
  std::size_t count_ = 0;
};

}  // namespace sparse
