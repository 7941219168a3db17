#include "collectives/sparse/gather.hpp"

#include <algorithm>
#include <numeric>

#include "collectives/sparse/tags.hpp"
#include "collectives/transport/bytes.hpp"

namespace sparse {
namespace {

using transport::Bytes;
using transport::Transport;

Bytes joined(std::span<const Bytes> blocks) {
  Bytes all;
  std::size_t bytes = 0;
  for (const Bytes& block : blocks) bytes += block.size();
  all.reserve(bytes);
  for (const Bytes& block : blocks) all.insert(all.end(), block.begin(), block.end());
  return all;
}

std::size_t sum_of(std::span<const std::size_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

/// Cuts `all` into blocks of the given sizes and appends them.
void append_blocks(const Bytes& all, std::span<const std::size_t> sizes, std::vector<Bytes>& blocks) {
  if (sum_of(sizes) != all.size())
    throw transport::TransportError("a gathered message is not as long as its blocks");
  auto at = all.begin();
  for (const std::size_t size : sizes) {
    const auto end = at + static_cast<std::ptrdiff_t>(size);
    blocks.emplace_back(at, end);
    at = end;
  }
}

/// The P-1 messages around a ring, from this rank to the next and from the previous one to this. Blocks keep
/// the order that they would have without a window: the first of the messages that have not arrived is never
/// behind one that waits.
class WindowedRing {
 public:
  WindowedRing(Transport& transport, Window window, std::size_t max_bytes)
      : transport_(transport),
        window_(window),
        max_bytes_(max_bytes),
        next_((transport.rank() + 1) % transport.size()),
        before_((transport.rank() + transport.size() - 1) % transport.size()) {}

  void send(Tag tag, Bytes message) {
    if (window_ > 0 && sent_ >= window_) {
      const transport::Phase phase(transport_, "taken");
      transport_.recv(next_, tag_of(Tag::taken), 0);
    }
    transport_.send(next_, tag_of(tag), std::move(message));
    ++sent_;
  }

  Bytes recv(Tag tag) {
    Bytes message = transport_.recv(before_, tag_of(tag), max_bytes_);
    if (window_ > 0 && received_ + window_ + 1 < transport_.size()) {
      const transport::Phase phase(transport_, "taken");
      transport_.send(before_, tag_of(Tag::taken), {});
    }
    ++received_;
    return message;
  }

 private:
  Transport& transport_;
  Window window_;
  std::size_t max_bytes_;
  std::uint32_t next_;
  std::uint32_t before_;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
};

}  // namespace

std::vector<Bytes> all_gather(Transport& transport, Bytes own, std::size_t max_bytes) {
  const std::uint32_t size = transport.size();
  const std::uint32_t next = (transport.rank() + 1) % size;
  const std::uint32_t before = (transport.rank() + size - 1) % size;
  std::vector<Bytes> blocks(size);
  blocks[transport.rank()] = std::move(own);
  for (std::uint32_t step = 1; step < size; ++step) {
    const std::uint32_t out = (transport.rank() + size - step + 1) % size;
    blocks[(out + size - 1) % size] =
        send_recv(transport, next, blocks[out], before, tag_of(Tag::all_gather), max_bytes);
  }
  return blocks;
}

void all_gather_each(Transport& transport, Bytes own,
                     const std::function<void(std::uint32_t, std::span<const std::byte>)>& visit,
                     Window window, std::size_t max_bytes) {
  const std::uint32_t size = transport.size();
  WindowedRing ring(transport, window, max_bytes);
  Bytes block = std::move(own);
  visit(transport.rank(), block);
  for (std::uint32_t step = 1; step < size; ++step) {
    ring.send(Tag::all_gather, std::move(block));
    block = ring.recv(Tag::all_gather);
    visit((transport.rank() + size - step) % size, block);
  }
}

void all_gather_in_order(Transport& transport, Bytes own,
                         const std::function<void(std::span<const std::byte>)>& visit, Window window,
                         std::size_t max_bytes) {
  const std::uint32_t size = transport.size();
  const std::uint32_t next = (transport.rank() + 1) % size;
  WindowedRing ring(transport, window, max_bytes);
  for (std::uint32_t origin = 0; origin < size; ++origin) {
    Bytes block = origin == transport.rank() ? std::move(own) : ring.recv(Tag::in_order);
    visit(block);
    if (next != origin) ring.send(Tag::in_order, std::move(block));
  }
}

void all_gather_within(Transport& transport, Bytes own, std::size_t max_bytes, std::size_t room,
                       const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr Window kFew = 2;
  if (max_bytes > room / transport.size())
    return all_gather_in_order(transport, std::move(own), visit, kFew, max_bytes);
  std::vector<Bytes> blocks = all_gather(transport, std::move(own), max_bytes);
  for (Bytes& block : blocks) {
    visit(block);
    Bytes().swap(block);  // frees the memory of visited blocks
  }
}

std::vector<Bytes> all_gather_known(Transport& transport, Bytes own, std::span<const std::size_t> sizes) {
  const std::uint32_t size = transport.size();
  const std::uint32_t rank = transport.rank();
  if (sizes.size() != size || sizes[rank] != own.size())
    throw std::invalid_argument("all_gather_known: the sizes are not those of what is gathered");
  std::vector<std::size_t> lengths(sizes.begin(), sizes.end());  // from this rank on
  std::rotate(lengths.begin(), lengths.begin() + rank, lengths.end());
  std::vector<Bytes> blocks;  // of this rank and those after it
  blocks.reserve(size);
  blocks.push_back(std::move(own));
  for (std::uint32_t have = 1; have < size; have *= 2) {
    const std::uint32_t count = std::min(have, size - have);
    const auto awaited = std::span<const std::size_t>(lengths).subspan(have, count);
    const Bytes arrived = send_recv(transport, (rank + size - have) % size, joined({blocks.data(), count}),
                                    (rank + have) % size, tag_of(Tag::doubling), sum_of(awaited));
    append_blocks(arrived, awaited, blocks);
  }
  std::rotate(blocks.begin(), blocks.begin() + (size - rank) % size, blocks.end());
  return blocks;
}

std::vector<std::uint32_t> all_gather_word(Transport& transport, std::uint32_t own) {
  const std::vector<std::size_t> sizes(transport.size(), sizeof own);
  std::vector<std::uint32_t> words;
  for (const Bytes& block :
       all_gather_known(transport, transport::to_bytes(std::span<const std::uint32_t>(&own, 1)), sizes)) {
    std::uint32_t word = 0;
    transport::from_bytes(block, std::span(&word, 1));
    words.push_back(word);
  }
  return words;
}

}  // namespace sparse
