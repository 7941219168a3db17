#include "sparse/ok_topk.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "compression/select.hpp"
#include "sparse/gather.hpp"
#include "sparse/ring.hpp"
#include "sparse/tags.hpp"

namespace sparse {
namespace {

using transport::Bytes;
using transport::Phase;
using transport::Transport;

/// The least magnitude among what has been selected; but not 0, because a gradient that was all zeros once
/// would then travel whole, nor NaN, because an infinity would then stay behind.
float threshold_of(const SparseVector& selected) {
  std::uint32_t least = compression::magnitude(std::numeric_limits<float>::infinity());
  for (const float value : selected.values) least = std::min(least, compression::magnitude(value));
  return std::bit_cast<float>(std::max(least, 1U));
}

/// Where this rank would have the regions begin: each gets as many of its selections.
std::vector<std::uint64_t> wished_begins(const SparseVector& local, std::size_t elements,
                                         std::uint32_t size) {
  const std::size_t count = local.indexes.size();
  std::vector<std::uint64_t> begins;
  for (std::uint32_t region = 1; region < size; ++region) {
    const std::size_t place = part_begin(count, region, size);
    begins.push_back(count == 0 ? part_begin(elements, region, size) : local.indexes[place]);
  }
  return begins;
}

/// The mean of what all ranks wish, rounded down.
std::vector<std::size_t> agree_on_boundaries(Transport& transport, const SparseVector& local,
                                             std::size_t elements) {
  const Phase phase(transport, "boundaries");
  std::vector<std::uint64_t> begins = wished_begins(local, elements, transport.size());
  ring_all_reduce(transport, begins);
  std::vector<std::size_t> boundaries = {0};
  for (const std::uint64_t sum : begins) boundaries.push_back(sum / transport.size());
  boundaries.push_back(elements);
  return boundaries;
}

Range region_of(const OkTopkState& state, std::uint32_t rank) {
  return {state.boundaries[rank], state.boundaries[rank + 1]};
}

/// Sends each region of `local` to its rank and sums this rank's, in the order of ranks. Starts with the next
/// rank, so that not all send to one, and a bucket of messages at a time.
SparseVector split_and_reduce(Transport& transport, const SparseVector& local, const OkTopkState& state,
                              std::uint32_t bucket) {
  const Phase phase(transport, "split");
  const std::uint32_t size = transport.size();
  const std::uint32_t rank = transport.rank();
  const Range own = region_of(state, rank);
  std::vector<SparseVector> pieces(size);
  pieces[rank] = slice(local, places_in(local, own));
  for (std::uint32_t first = 1; first < size; first += bucket) {
    const std::uint32_t end = std::min(size, first + bucket);
    for (std::uint32_t step = first; step < end; ++step) {
      const std::uint32_t to = (rank + step) % size;
      const Range places = places_in(local, region_of(state, to));
      transport.send(to, tag_of(Tag::split), encode(local, places.begin, places.size()));
    }
    for (std::uint32_t step = first; step < end; ++step) {
      const std::uint32_t from = (rank + size - step) % size;
      pieces[from] = decode(transport.recv(from, tag_of(Tag::split)), own);
    }
  }
  Accumulator sum(own);
  for (const SparseVector& piece : pieces) sum.add(piece);
  return sum.take();
}

/// All shares one after the other; `counts` tells how many elements each rank has.
SparseVector gather_shares(Transport& transport, const SparseVector& share,
                           std::span<const std::size_t> counts, std::size_t elements) {
  std::vector<std::size_t> bytes;
  for (const std::size_t count : counts) bytes.push_back(count * compression::kBytesPerKept);
  std::vector<Bytes> blocks = all_gather_known(transport, encode(share), bytes);
  SparseVector all;
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  all.indexes.reserve(total);
  all.values.reserve(total);
  for (Bytes& block : blocks) {
    append(all, decode(block, {all.indexes.empty() ? 0 : all.indexes.back() + std::size_t{1}, elements}));
    Bytes().swap(block);  // what has been appended needs no memory any more
  }
  return all;
}

std::vector<std::size_t> gather_counts(Transport& transport, const SparseVector& share) {
  const Phase phase(transport, "sizes");
  const std::vector<std::uint32_t> words =
      all_gather_word(transport, static_cast<std::uint32_t>(share.indexes.size()));
  return {words.begin(), words.end()};
}

/// Places that are in both.
Range overlap(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Who has which places of the shares laid end to end.
std::vector<Range> laid_out(std::span<const std::size_t> counts) {
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  return ranges;
}

std::vector<std::size_t> even_counts(std::size_t total, std::size_t size) {
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < size; ++rank)
    counts.push_back(part_begin(total, rank + 1, size) - part_begin(total, rank, size));
  return counts;
}

/// Moves elements between ranks, in order, until rank r has even[r] of them.
SparseVector move_elements(Transport& transport, const SparseVector& share,
                           std::span<const std::size_t> counts, std::span<const std::size_t> even,
                           std::size_t elements) {
  const Phase phase(transport, "balance");
  const std::uint32_t rank = transport.rank();
  const std::vector<Range> old_places = laid_out(counts);
  const std::vector<Range> new_places = laid_out(even);
  const auto own_part = [&](std::uint32_t to) {
    const Range places = overlap(old_places[rank], new_places[to]);
    if (places.size() == 0) return Range{};
    return Range{places.begin - old_places[rank].begin, places.end - old_places[rank].begin};
  };
  for (std::uint32_t to = 0; to < transport.size(); ++to) {
    const Range part = own_part(to);
    if (to != rank && part.size() > 0)
      transport.send(to, tag_of(Tag::balance), encode(share, part.begin, part.size()));
  }
  SparseVector moved;
  for (std::uint32_t from = 0; from < transport.size(); ++from) {
    if (from == rank)
      append(moved, slice(share, own_part(rank)));
    else if (overlap(old_places[from], new_places[rank]).size() > 0)
      append(moved, decode(transport.recv(from, tag_of(Tag::balance)), {0, elements}));
  }
  return moved;
}

/// The k greatest of all sums, exactly; every rank sees them all.
SparseVector select_exactly(Transport& transport, const SparseVector& reduced, std::size_t k,
                            std::size_t elements) {
  const std::vector<std::size_t> counts = gather_counts(transport, reduced);
  const Phase phase(transport, "recompute");
  return top_of(gather_shares(transport, reduced, counts, elements), k);
}

SparseVector balance_and_gather(Transport& transport, SparseVector share, std::size_t balance_beyond,
                                std::size_t elements) {
  std::vector<std::size_t> counts = gather_counts(transport, share);
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (*std::max_element(counts.begin(), counts.end()) * transport.size() > balance_beyond * total) {
    const std::vector<std::size_t> even = even_counts(total, transport.size());
    share = move_elements(transport, share, counts, even, elements);
    counts = even;
  }
  const Phase phase(transport, "gather");
  return gather_shares(transport, share, counts, elements);
}

void check_options(const OkTopkOptions& options) {
  if (options.repartition_every == 0 || options.recompute_every == 0 || options.bucket == 0 ||
      options.balance_beyond == 0)
    throw std::invalid_argument("ok_topk: periods, bucket and balance_beyond must be at least 1");
}

void start_anew_if_changed(OkTopkState& state, std::size_t elements, std::size_t size, std::size_t k) {
  const bool same =
      state.k == k && state.boundaries.size() == size + 1 && state.boundaries.back() == elements;
  if (!same) state = {.k = k};
}

}  // namespace

Selected ok_topk(Transport& transport, std::span<const float> gradient, const OkTopkOptions& options,
                 OkTopkState& state) {
  check_options(options);
  const std::size_t elements = gradient.size();
  if (elements == 0 || options.k == 0) return {};
  start_anew_if_changed(state, elements, transport.size(), options.k);
  const bool recompute = state.calls % options.recompute_every == 0;
  const SparseVector local = recompute ? compression::top_k(gradient, options.k)
                                       : compression::at_least(gradient, state.local_threshold);
  if (recompute) state.local_threshold = threshold_of(local);
  if (state.calls % options.repartition_every == 0)
    state.boundaries = agree_on_boundaries(transport, local, elements);
  SparseVector reduced = split_and_reduce(transport, local, state, options.bucket);
  Selected result;
  if (recompute) {
    result.sum = select_exactly(transport, reduced, options.k, elements);
    state.global_threshold = threshold_of(result.sum);
  } else {
    result.sum = balance_and_gather(transport, at_least_of(reduced, state.global_threshold),
                                    options.balance_beyond, elements);
  }
  result.contributed = common_indexes(local, result.sum);
  ++state.calls;
  return result;
}

}  // namespace sparse
