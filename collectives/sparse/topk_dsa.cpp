#include <algorithm>
#include <functional>
#include <utility>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/sparse/tags.hpp"
#include "collectives/transport/bytes.hpp"

namespace sparse {
namespace {

using transport::Bytes;
using transport::Transport;

enum class Form : std::uint32_t { sparse, dense };

bool is_dense(std::size_t non_zeros, std::size_t elements) { return 3 * non_zeros > 2 * elements; }

std::vector<float> dense(const SparseVector& part, Range range) {
  std::vector<float> values(range.size());
  for (std::size_t i = 0; i < part.indexes.size(); ++i)
    values[part.indexes[i] - range.begin] = part.values[i];
  return values;
}

std::size_t max_part_bytes(std::size_t elements) {
  return sizeof(Form) + elements * compression::kBytesPerKept;
}

/// The part must not contain zeros.
Bytes encode_part(const SparseVector& part, Range range) {
  const Form form = is_dense(part.indexes.size(), range.size()) ? Form::dense : Form::sparse;
  Bytes message = transport::to_bytes(std::span<const Form>(&form, 1));
  const Bytes body = form == Form::dense ? transport::to_bytes(dense(part, range)) : encode(part);
  message.insert(message.end(), body.begin(), body.end());
  return message;
}

SparseVector without_zeros(const SparseVector& part) {
  SparseVector rest;
  for (std::size_t i = 0; i < part.indexes.size(); ++i) {
    if (compression::magnitude(part.values[i]) == 0) continue;
    rest.indexes.push_back(part.indexes[i]);
    rest.values.push_back(part.values[i]);
  }
  return rest;
}

SparseVector from_dense(std::span<const std::byte> body, Range range) {
  SparseVector part{{}, std::vector<float>(range.size())};
  transport::from_bytes(body, std::span(part.values));
  for (std::size_t i = range.begin; i < range.end; ++i) part.indexes.push_back(static_cast<std::uint32_t>(i));
  return without_zeros(part);
}

SparseVector decode_part(std::span<const std::byte> message, Range range) {
  Form form{};
  if (message.size() < sizeof form) throw transport::TransportError("a part without its header");
  transport::from_bytes(message.first(sizeof form), std::span(&form, 1));
  const std::span<const std::byte> body = message.subspan(sizeof form);
  return form == Form::dense ? from_dense(body, range) : decode(body, range);
}

Range part_of(std::size_t elements, std::size_t part, std::size_t parts) {
  return {part_begin(elements, part, parts), part_begin(elements, part + 1, parts)};
}

/// Sums this rank's part, in the order of ranks.
SparseVector reduce_own_part(Transport& transport, const SparseVector& own, std::size_t elements) {
  const transport::Phase phase(transport, "reduce");
  const std::uint32_t size = transport.size();
  const std::uint32_t rank = transport.rank();
  const auto own_in = [&](Range part) { return without_zeros(slice(own, places_in(own, part))); };
  for (std::uint32_t step = 1; step < size; ++step) {
    const std::uint32_t to = (rank + step) % size;
    const Range part = part_of(elements, to, size);
    transport.send(to, tag_of(Tag::split), encode_part(own_in(part), part));
  }
  const Range part = part_of(elements, rank, size);
  Accumulator sum(part);
  for (std::uint32_t from = 0; from < size; ++from)
    sum.add(from == rank
                ? own_in(part)
                : decode_part(transport.recv(from, tag_of(Tag::split), max_part_bytes(part.size())), part));
  return without_zeros(sum.take());
}

using Visit = std::function<void(std::uint32_t rank, std::span<const std::byte> message)>;

void gather_each(Transport& transport, Bytes own, std::size_t max_bytes, Gathering gathering,
                 const Visit& visit, std::uint32_t window) {
  if (gathering == Gathering::ring)
    return all_gather_each(transport, std::move(own), visit, window, max_bytes);
  std::vector<std::size_t> sizes;
  for (const std::uint32_t size : all_gather_word(transport, static_cast<std::uint32_t>(own.size())))
    sizes.push_back(size);
  const std::vector<Bytes> messages = all_gather_known(transport, std::move(own), sizes);
  for (std::uint32_t rank = 0; rank < messages.size(); ++rank) visit(rank, messages[rank]);
}

}  // namespace

std::size_t topk_dsa(Transport& transport, const SparseVector& own, std::span<float> sum, Gathering gathering,
                     std::uint32_t window) {
  const std::size_t elements = sum.size();
  check_sparse(own, elements, "topk_dsa");
  const std::uint32_t size = transport.size();
  const SparseVector part = reduce_own_part(transport, own, elements);
  const transport::Phase phase(transport, "gather");
  std::ranges::fill(sum, 0.0F);
  std::size_t non_zeros = 0;
  gather_each(
      transport, encode_part(part, part_of(elements, transport.rank(), size)), max_part_bytes(elements),
      gathering,
      [&](std::uint32_t rank, std::span<const std::byte> message) {
        const SparseVector each = decode_part(message, part_of(elements, rank, size));
        for (std::size_t i = 0; i < each.indexes.size(); ++i) sum[each.indexes[i]] = each.values[i];
        non_zeros += each.indexes.size();
      },
      window);
  return non_zeros;
}

DsaSum topk_dsa(Transport& transport, const SparseVector& own, std::size_t elements, Gathering gathering) {
  DsaSum result{std::vector<float>(elements)};
  result.non_zeros = topk_dsa(transport, own, std::span(result.sum), gathering, 0);
  return result;
}

}  // namespace sparse
