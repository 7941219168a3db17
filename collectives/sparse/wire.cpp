#include "collectives/sparse/wire.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/ring.hpp"

namespace sparse {
namespace {

constexpr std::size_t kBytesPerElement = compression::kBytesPerKept;

/// Copies `bytes` bytes; both pointers may be null if there are none.
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

bool grow_within(std::span<const std::uint32_t> indexes, Range range) {
  const bool grow = std::ranges::adjacent_find(indexes, std::greater_equal<>()) == indexes.end();
  return grow && (indexes.empty() || (indexes.front() >= range.begin && indexes.back() < range.end));
}

std::size_t elements_in(std::span<const std::byte> message) {
  if (message.size() % kBytesPerElement != 0)
    throw transport::TransportError(
        fmt::format("a message of {} bytes is not one of indexes and values", message.size()));
  return message.size() / kBytesPerElement;
}

[[noreturn]] void refuse_indexes(Range range) {
  throw transport::TransportError(
      fmt::format("a message's indexes do not grow from {} to below {}", range.begin, range.end));
}

/// Returns the elements at `places`.
SparseVector elements_at(const SparseVector& vector, std::span<const std::uint32_t> places) {
  SparseVector some;
  some.indexes.reserve(places.size());
  some.values.reserve(places.size());
  for (const std::uint32_t place : places) {
    some.indexes.push_back(vector.indexes[place]);
    some.values.push_back(vector.values[place]);
  }
  return some;
}

}  // namespace

transport::Bytes encode(const SparseVector& vector, std::size_t first, std::size_t count) {
  transport::Bytes message(count * kBytesPerElement);
  copy(message.data(), vector.indexes.data() + first, count * sizeof(std::uint32_t));
  copy(message.data() + count * sizeof(std::uint32_t), vector.values.data() + first, count * sizeof(float));
  return message;
}

transport::Bytes encode(const SparseVector& vector) { return encode(vector, 0, vector.indexes.size()); }

transport::Bytes encode(const Marks& marks, const float* values, Range within) {
  const std::size_t count = marks.count(within);
  transport::Bytes message(count * kBytesPerElement);
  std::byte* indexes = message.data();
  std::byte* kept = message.data() + count * sizeof(std::uint32_t);
  marks.for_each(within, [&](std::size_t at) {
    const auto index = static_cast<std::uint32_t>(at);
    copy(indexes, &index, sizeof index);
    copy(kept, values + (at - marks.range().begin), sizeof *values);
    indexes += sizeof index;
    kept += sizeof *values;
  });
  return message;
}

SparseVector decode(std::span<const std::byte> message, Range range) {
  const std::size_t count = elements_in(message);
  SparseVector vector{std::vector<std::uint32_t>(count), std::vector<float>(count)};
  copy(vector.indexes.data(), message.data(), count * sizeof(std::uint32_t));
  copy(vector.values.data(), message.data() + count * sizeof(std::uint32_t), count * sizeof(float));
  if (!grow_within(vector.indexes, range)) refuse_indexes(range);
  return vector;
}

Range places_in(const SparseVector& vector, Range range) {
  const auto begin = vector.indexes.begin();
  const auto place = [&](std::size_t bound) {
    return static_cast<std::size_t>(std::lower_bound(begin, vector.indexes.end(), bound) - begin);
  };
  return {place(range.begin), place(range.end)};
}

SparseVector slice(const SparseVector& vector, Range places) {
  const auto cut = [&](const auto& all) {
    const auto at = [&](std::size_t place) { return all.begin() + static_cast<std::ptrdiff_t>(place); };
    return std::decay_t<decltype(all)>(at(places.begin), at(places.end));
  };
  return {cut(vector.indexes), cut(vector.values)};
}

void check_sparse(const SparseVector& vector, std::size_t elements, std::string_view what) {
  if (vector.indexes.size() != vector.values.size() || !grow_within(vector.indexes, {0, elements}))
    throw std::invalid_argument(fmt::format("{}: not a sparse vector of {} elements", what, elements));
}

void append(SparseVector& vector, const SparseVector& tail) {
  vector.indexes.insert(vector.indexes.end(), tail.indexes.begin(), tail.indexes.end());
  vector.values.insert(vector.values.end(), tail.values.begin(), tail.values.end());
}

SparseVector top_of(const SparseVector& vector, std::size_t k) {
  return elements_at(vector, compression::top_k(vector.values, k).indexes);
}

Accumulator::Accumulator(Range range)
    : present_(range), own_(std::make_unique_for_overwrite<float[]>(range.size())), values_(own_.get()) {}

Accumulator::Accumulator(Range range, std::span<float> place) : present_(range), values_(place.data()) {}

void Accumulator::add(std::uint32_t index, float value) {
  if (present_.has(index)) {
    value_at(index) = sum_of(value_at(index), value);
  } else {
    present_.set(index);
    value_at(index) = value;
    ++count_;
  }
}

void Accumulator::add(const SparseVector& vector) {
  for (std::size_t i = 0; i < vector.indexes.size(); ++i) add(vector.indexes[i], vector.values[i]);
}

void Accumulator::add(std::span<const std::byte> message, Range within) {
  const std::size_t count = elements_in(message);
  const auto index_at = [&](std::size_t i) {
    std::uint32_t index = 0;
    std::memcpy(&index, message.data() + i * sizeof index, sizeof index);
    return index;
  };
  std::size_t min = within.begin;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = index_at(i);
    if (index < min || index >= within.end) refuse_indexes(within);
    min = index + std::size_t{1};
  }
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, message.data() + count * sizeof(std::uint32_t) + i * sizeof value, sizeof value);
    add(index_at(i), value);
  }
}

void Accumulator::clear() {
  present_.clear();
  count_ = 0;
}

void Accumulator::drop(std::size_t index) {
  present_.clear(index);
  --count_;
}

void Accumulator::keep_at_least(float threshold, Range within) {
  const std::uint32_t min = compression::min_magnitude(threshold);
  present_.for_each(within, [&](std::size_t index) {
    if (compression::magnitude(value_at(index)) < min) drop(index);
  });
}

void Accumulator::keep_top(std::size_t k) {
  if (count_ <= k) return;
  if (k == 0) return clear();
  zero_absent();  // these are then among the smallest, and not examined below
  const std::uint32_t min =
      compression::magnitude(compression::kth_magnitude({values_, present_.range().size()}, k));
  std::size_t equals_left = k;
  present_.for_each(present_.range(), [&](std::size_t index) {
    if (compression::magnitude(value_at(index)) > min) --equals_left;
  });
  present_.for_each(present_.range(), [&](std::size_t index) {
    const std::uint32_t magnitude = compression::magnitude(value_at(index));
    if (magnitude > min || (magnitude == min && equals_left > 0))
      equals_left -= magnitude == min ? 1 : 0;
    else
      drop(index);
  });
}

std::uint32_t Accumulator::min_magnitude() const {
  std::uint32_t min = compression::magnitude(std::numeric_limits<float>::infinity());
  present_.for_each(present_.range(),
                    [&](std::size_t index) { min = std::min(min, compression::magnitude(value_at(index))); });
  return min;
}

SparseVector Accumulator::take() const {
  SparseVector sum;
  sum.indexes.reserve(count_);
  sum.values.reserve(count_);
  present_.for_each(present_.range(), [&](std::size_t index) {
    sum.indexes.push_back(static_cast<std::uint32_t>(index));
    sum.values.push_back(value_at(index));
  });
  return sum;
}

void Accumulator::zero_absent() {
  const Range range = present_.range();
  for (std::size_t index = range.begin; index < range.end; ++index)
    if (!present_.has(index)) value_at(index) = 0;
}

}  // namespace sparse
