#include "collectives/compression/sparse_wire.hpp"

namespace compression {
namespace {

constexpr std::size_t kWord = 4;
constexpr auto kPerKept = static_cast<std::size_t>(kBytesPerKept);

void check(std::span<const std::byte> bytes, std::size_t elements) {
  if (bytes.size() % kPerKept != 0) refuse("sparse encoding", "a multiple of 8 bytes", bytes.size());
  std::size_t min = 0;
  for (std::size_t i = 0; i < bytes.size() / kPerKept; ++i) {
    const auto index = get<std::uint32_t>(bytes.data() + i * kWord);
    if (index < min) refuse("sparse encoding", "growing indexes", index);
    if (index >= elements) refuse("sparse encoding", "indexes below the number of elements", index);
    min = std::size_t{index} + 1;
  }
}

template <typename Visit>
void for_each_kept(std::span<const std::byte> bytes, std::size_t elements, Visit visit) {
  check(bytes, elements);
  const std::size_t count = bytes.size() / kPerKept;
  const std::byte* values = bytes.data() + count * kWord;
  for (std::size_t i = 0; i < count; ++i)
    visit(get<std::uint32_t>(bytes.data() + i * kWord), get_float(values + i * kWord));
}

void add(std::span<const std::byte> bytes, std::span<float> out) {
  for_each_kept(bytes, out.size(), [&](std::uint32_t i, float value) { out[i] += value; });
}

void subtract(std::span<const std::byte> bytes, std::span<float> from) {
  for_each_kept(bytes, from.size(),
                [&](std::uint32_t i, float value) { from[i] = is_finite(value) ? from[i] - value : 0; });
}

}  // namespace

Bytes pack(const SparseVector& kept) {
  const std::size_t count = kept.indexes.size();
  Bytes bytes(count * kPerKept);
  for (std::size_t i = 0; i < count; ++i) put(bytes.data() + i * kWord, kept.indexes[i]);
  for (std::size_t i = 0; i < count; ++i) put_float(bytes.data() + (count + i) * kWord, kept.values[i]);
  return bytes;
}

SparseVector unpack(std::span<const std::byte> bytes, std::size_t elements) {
  SparseVector kept;
  for_each_kept(bytes, elements, [&](std::uint32_t i, float value) {
    kept.indexes.push_back(i);
    kept.values.push_back(value);
  });
  return kept;
}

Compressor sparse_compressor() { return {.add_decoded = add, .subtract_decoded = subtract}; }

WireSize sparse_size(std::size_t min, std::size_t max) {
  return {.min = static_cast<std::int64_t>(min) * kBytesPerKept,
          .max = static_cast<std::int64_t>(max) * kBytesPerKept};
}

}  // namespace compression
