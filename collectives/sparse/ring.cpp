#include "collectives/sparse/ring.hpp"

#include <cstring>

#include <fmt/format.h>

#include "collectives/sparse/tags.hpp"
#include "collectives/transport/bytes.hpp"

namespace sparse {
namespace {

using transport::Transport;

template <typename T>
std::span<T> part_of(std::span<T> values, std::size_t part, std::size_t parts) {
  const std::size_t begin = part_begin(values.size(), part, parts);
  return values.subspan(begin, part_begin(values.size(), part + 1, parts) - begin);
}

/// Sends a part to the next rank and receives another with `size` values from the previous one.
template <typename T>
transport::Bytes pass_on(Transport& transport, std::span<const T> out, std::size_t count, Tag tag) {
  const std::uint32_t size = transport.size();
  const std::uint32_t next = (transport.rank() + 1) % size;
  const std::uint32_t before = (transport.rank() + size - 1) % size;
  transport::Bytes message =
      send_recv(transport, next, transport::to_bytes(out), before, tag_of(tag), count * sizeof(T));
  if (message.size() != count * sizeof(T))
    throw transport::TransportError(
        fmt::format("a message of {} bytes where {} were expected", message.size(), count * sizeof(T)));
  return message;
}

template <typename T>
void reduce_scatter(Transport& transport, std::span<T> values) {
  const std::size_t size = transport.size();
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t out = (transport.rank() + size - step) % size;
    const std::span<T> sum = part_of(values, (out + size - 1) % size, size);
    const transport::Bytes arrived =
        pass_on<T>(transport, part_of(values, out, size), sum.size(), Tag::reduce_scatter);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      T value{};
      std::memcpy(&value, arrived.data() + i * sizeof(T), sizeof(T));
      sum[i] = sum_of(value, sum[i]);
    }
  }
}

template <typename T>
void all_gather_parts(Transport& transport, std::span<T> values) {
  const std::size_t size = transport.size();
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t out = (transport.rank() + size - step + 1) % size;
    const std::span<T> in = part_of(values, (out + size - 1) % size, size);
    transport::from_bytes<T>(pass_on<T>(transport, part_of(values, out, size), in.size(), Tag::all_gather),
                             in);
  }
}

}  // namespace

void ring_reduce_scatter(Transport& transport, std::span<float> values) { reduce_scatter(transport, values); }

void ring_all_gather(Transport& transport, std::span<float> values) { all_gather_parts(transport, values); }

void ring_all_reduce(Transport& transport, std::span<float> values) {
  reduce_scatter(transport, values);
  all_gather_parts(transport, values);
}

void ring_all_reduce(Transport& transport, std::span<std::uint64_t> values) {
  reduce_scatter(transport, values);
  all_gather_parts(transport, values);
}

}  // namespace sparse
