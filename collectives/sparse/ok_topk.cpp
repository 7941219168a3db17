#include "collectives/sparse/ok_topk.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "collectives/compression/keep.hpp"
#include "collectives/compression/select.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/sparse/tags.hpp"

namespace sparse {
namespace {

using transport::Bytes;
using transport::Phase;
using transport::Transport;

/// Returns the threshold that elements of at least this magnitude reach. It is never 0, because then all
/// elements would be sent after a gradient of zeros, and never NaN, because then infinities would be left
/// behind.
float threshold_from(std::uint32_t min) {
  constexpr std::uint32_t kInfinity = compression::magnitude(std::numeric_limits<float>::infinity());
  return std::bit_cast<float>(std::clamp(min, 1U, kInfinity));
}

/// The elements that a rank has selected from its gradient.
struct LocalSelection {
  std::span<const float> gradient;
  Marks marks;
  std::size_t count = 0;

  void select(std::size_t index) {
    marks.set(index);
    ++count;
  }
};

LocalSelection select_exactly(std::span<const float> gradient, std::size_t k, OkTopkState& state) {
  LocalSelection local{gradient, Marks({0, gradient.size()})};
  std::uint32_t min = compression::magnitude(std::numeric_limits<float>::infinity());
  for (const std::uint32_t index : compression::top_k(gradient, k).indexes) {
    local.select(index);
    min = std::min(min, compression::magnitude(gradient[index]));
  }
  state.local_threshold = threshold_from(min);
  return local;
}

LocalSelection select_by_threshold(std::span<const float> gradient, float threshold) {
  LocalSelection local{gradient, Marks({0, gradient.size()})};
  compression::for_each_at_least(gradient, compression::min_magnitude(threshold),
                                 [&](std::uint32_t index) { local.select(index); });
  return local;
}

/// Returns the region boundaries with which each region would hold the same number of this rank's selections.
std::vector<std::uint64_t> preferred_begins(const LocalSelection& local, std::uint32_t size) {
  const std::size_t elements = local.gradient.size();
  std::vector<std::uint64_t> begins;
  if (local.count == 0) {
    for (std::uint32_t region = 1; region < size; ++region)
      begins.push_back(part_begin(elements, region, size));
    return begins;
  }
  std::size_t place = 0;
  local.marks.for_each({0, elements}, [&](std::size_t index) {
    while (begins.size() + 1 < size && part_begin(local.count, begins.size() + 1, size) == place)
      begins.push_back(index);
    ++place;
  });
  return begins;
}

/// Returns the mean over all ranks of their proposed boundaries, rounded down.
std::vector<std::size_t> agree_on_boundaries(Transport& transport, const LocalSelection& local) {
  const Phase phase(transport, "boundaries");
  std::vector<std::uint64_t> begins = preferred_begins(local, transport.size());
  ring_all_reduce(transport, begins);
  std::vector<std::size_t> boundaries = {0};
  for (const std::uint64_t sum : begins) boundaries.push_back(sum / transport.size());
  boundaries.push_back(local.gradient.size());
  return boundaries;
}

Range region_of(const OkTopkState& state, std::uint32_t rank) {
  return {state.boundaries[rank], state.boundaries[rank + 1]};
}

/// Sends each region of `local` to its rank and sums this rank's region: its own part first, then that of the
/// previous rank, and so on round to the next one. Sends to the next rank first, so that ranks do not all
/// send to one, and one bucket of messages at a time.
void split_and_reduce(Transport& transport, const LocalSelection& local, const OkTopkState& state,
                      const OkTopkOptions& options, Accumulator& sum) {
  const Phase phase(transport, "split");
  const std::uint32_t size = transport.size();
  const std::uint32_t rank = transport.rank();
  const Range own = region_of(state, rank);
  local.marks.for_each(own,
                       [&](std::size_t at) { sum.add(static_cast<std::uint32_t>(at), local.gradient[at]); });
  const auto behind = [&](std::uint32_t step) { return (rank + size - step) % size; };
  for (std::uint32_t first = 1; first < size; first += options.bucket) {
    const std::uint32_t end = std::min(size, first + options.bucket);
    if (options.asks_first) {
      const Phase asking(transport, "asked");
      for (std::uint32_t step = first; step < end; ++step)
        transport.send(behind(step), tag_of(Tag::request), {});
    }
    for (std::uint32_t step = first; step < end; ++step) {
      const std::uint32_t to = (rank + step) % size;
      if (options.asks_first) {
        const Phase asking(transport, "asked");
        transport.recv(to, tag_of(Tag::request), 0);
      }
      transport.send(to, tag_of(Tag::split),
                     encode(local.marks, local.gradient.data(), region_of(state, to)));
    }
    for (std::uint32_t step = first; step < end; ++step)
      sum.add(transport.recv(behind(step), tag_of(Tag::split), own.size() * compression::kBytesPerKept), own);
  }
}

/// Gathers all shares; `counts` holds the number of elements of each rank. With asks_first and more than an
/// eighth of a gradient, uses a ring, a few messages at a time.
void gather_shares(Transport& transport, Bytes share, std::span<const std::size_t> counts,
                   const OkTopkOptions& options, Range all, Accumulator& sum) {
  constexpr std::size_t kPart = 8;
  constexpr Window kFew = 2;
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  sum.clear();
  if (options.asks_first && total * compression::kBytesPerKept > all.size() * sizeof(float) / kPart) {
    all_gather_each(
        transport, std::move(share),
        [&](std::uint32_t, std::span<const std::byte> message) { sum.add(message, all); }, kFew,
        all.size() * compression::kBytesPerKept);
  } else {
    std::vector<std::size_t> bytes;
    for (const std::size_t count : counts) bytes.push_back(count * compression::kBytesPerKept);
    std::vector<Bytes> blocks = all_gather_known(transport, std::move(share), bytes);
    for (Bytes& block : blocks) {
      sum.add(block, all);
      Bytes().swap(block);  // frees the memory of what has been added
    }
  }
  if (sum.count() != total)
    throw transport::TransportError(
        fmt::format("shares of {} elements where {} were expected", sum.count(), total));
}

std::vector<std::size_t> gather_counts(Transport& transport, const Accumulator& share) {
  const Phase phase(transport, "sizes");
  const std::vector<std::uint32_t> words =
      all_gather_word(transport, static_cast<std::uint32_t>(share.count()));
  return {words.begin(), words.end()};
}

/// Returns the positions that are in both.
Range overlap(Range a, Range b) {
  const std::size_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

/// Returns the position of each rank's share when the shares are concatenated.
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
Bytes move_elements(Transport& transport, const SparseVector& share, std::span<const std::size_t> counts,
                    std::span<const std::size_t> even, std::size_t elements) {
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
      append(moved, decode(transport.recv(from, tag_of(Tag::balance), elements * compression::kBytesPerKept),
                           {0, elements}));
  }
  return encode(moved);
}

/// Finds the k largest of all sums, exactly, on every rank.
void recompute_global(Transport& transport, const OkTopkOptions& options, Range all, Accumulator& sum) {
  const std::vector<std::size_t> counts = gather_counts(transport, sum);
  const Phase phase(transport, "recompute");
  gather_shares(transport, sum.encoded(), counts, options, all, sum);
  sum.keep_top(options.k);
}

void balance_and_gather(Transport& transport, const OkTopkOptions& options, Range all, Accumulator& sum) {
  std::vector<std::size_t> counts = gather_counts(transport, sum);
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  Bytes share;
  if (*std::ranges::max_element(counts) * transport.size() > options.balance_beyond * total) {
    const std::vector<std::size_t> even = even_counts(total, transport.size());
    share = move_elements(transport, sum.take(), counts, even, all.size());
    counts = even;
  } else {
    share = sum.encoded();
  }
  const Phase phase(transport, "gather");
  gather_shares(transport, std::move(share), counts, options, all, sum);
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

/// Writes the sum into `sum`, which covers all elements; returns this rank's selection. Requires at least one
/// element and k > 0.
LocalSelection run(Transport& transport, std::span<const float> gradient, const OkTopkOptions& options,
                   OkTopkState& state, Accumulator& sum) {
  const Range all = {0, gradient.size()};
  start_anew_if_changed(state, gradient.size(), transport.size(), options.k);
  const bool recompute = state.calls % options.recompute_every == 0;
  LocalSelection local = recompute ? select_exactly(gradient, options.k, state)
                                   : select_by_threshold(gradient, state.local_threshold);
  if (state.calls % options.repartition_every == 0) state.boundaries = agree_on_boundaries(transport, local);
  split_and_reduce(transport, local, state, options, sum);
  if (recompute) {
    recompute_global(transport, options, all, sum);
    state.global_threshold = threshold_from(sum.min_magnitude());
  } else {
    sum.keep_at_least(state.global_threshold, region_of(state, transport.rank()));
    balance_and_gather(transport, options, all, sum);
  }
  ++state.calls;
  return local;
}

}  // namespace

Selected ok_topk(Transport& transport, std::span<const float> gradient, const OkTopkOptions& options,
                 OkTopkState& state) {
  check_options(options);
  if (gradient.empty() || options.k == 0) return {};
  Accumulator sum({0, gradient.size()});
  const LocalSelection local = run(transport, gradient, options, state, sum);
  Selected result;
  result.sum = sum.take();
  for (const std::uint32_t index : result.sum.indexes)
    if (local.marks.has(index)) result.contributed.push_back(index);
  return result;
}

OkTopkCounts ok_topk(Transport& transport, std::span<float> left, std::span<float> sum,
                     const OkTopkOptions& options, OkTopkState& state) {
  check_options(options);
  if (left.size() != sum.size()) throw std::invalid_argument("ok_topk: the sum is as long as the gradient");
  Accumulator into({0, sum.size()}, sum);
  OkTopkCounts counts;
  if (!sum.empty() && options.k > 0) {
    const LocalSelection local = run(transport, left, options, state, into);
    counts = {.local = local.count, .global = into.count()};
    local.marks.for_each({0, sum.size()}, [&](std::size_t index) {
      if (into.has(index)) left[index] = 0;
    });
  }
  into.zero_absent();
  return counts;
}

}  // namespace sparse
