#include "collectives/sparse/ok_topk.hpp"

#include <doctest/doctest.h>

#include <array>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/gradients.hpp"
#include "sim/draws.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace {

using ranks::SparseVector;
using sparse::OkTopkOptions;
using sparse::OkTopkState;
using sparse::Selected;
using transport::Transport;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The gradient of a rank in a call.
using Source = std::function<std::vector<float>(std::uint32_t rank, std::uint64_t call)>;

struct Call {
  Selected selected;
  OkTopkState state;
};

/// The state of the ranks after each of `calls` calls, and their traffic in it: [call].results[rank].
std::vector<ranks::Ran<Call>> run_calls(std::uint32_t size, std::uint64_t calls, const OkTopkOptions& options,
                                        const Source& source) {
  std::vector<ranks::Ran<Call>> ran(calls, {std::vector<Call>(size), std::vector<ranks::Phases>(size)});
  transport::run_ranks(size, [&](Transport& end) {
    OkTopkState state;
    for (std::uint64_t call = 0; call < calls; ++call) {
      transport::Counted counted(end);
      Selected selected = sparse::ok_topk(counted, source(end.rank(), call), options, state);
      ran[call].results[end.rank()] = {std::move(selected), state};
      ran[call].phases[end.rank()] = counted.phases();
    }
  });
  return ran;
}

/// A direct implementation of Algorithm 1, with all ranks in one place.
class Plain {
 public:
  Plain(std::uint32_t size, OkTopkOptions options, Source source)
      : size_(size), options_(options), source_(std::move(source)), thresholds_(size) {}

  struct Outcome {
    bool recomputes = false;
    bool balances = false;
    std::vector<SparseVector> local;    ///< indexed by rank
    std::vector<SparseVector> reduced;  ///< indexed by region
    std::vector<SparseVector> shares;   ///< indexed by rank, before they are balanced
    SparseVector sum;
  };

  Outcome call() {
    Outcome out;
    out.recomputes = calls_ % options_.recompute_every == 0;
    for (std::uint32_t rank = 0; rank < size_; ++rank) out.local.push_back(select(rank, out.recomputes));
    if (calls_ % options_.repartition_every == 0) repartition(out.local);
    SparseVector sum;
    for (std::uint32_t rank = 0; rank < size_; ++rank) {
      out.reduced.push_back(reduced(out.local, rank));
      sum.indexes.insert(sum.indexes.end(), out.reduced[rank].indexes.begin(),
                         out.reduced[rank].indexes.end());
      sum.values.insert(sum.values.end(), out.reduced[rank].values.begin(), out.reduced[rank].values.end());
    }
    out.sum = out.recomputes ? ranks::plain_top(sum, options_.k) : ranks::plain_at_least(sum, threshold_);
    if (out.recomputes) threshold_ = min(out.sum);
    for (std::uint32_t rank = 0; rank < size_; ++rank)
      out.shares.push_back(ranks::part(out.sum, begins_[rank], begins_[rank + 1]));
    std::int64_t largest = 0;
    for (const SparseVector& share : out.shares) largest = std::max(largest, ranks::count(share));
    out.balances = !out.recomputes && largest * size_ > 4 * ranks::count(out.sum);
    ++calls_;
    return out;
  }

  const std::vector<std::size_t>& begins() const { return begins_; }

 private:
  SparseVector select(std::uint32_t rank, bool recompute) {
    const SparseVector x = ranks::all_of(source_(rank, calls_));
    elements_ = x.indexes.size();
    const SparseVector local =
        recompute ? ranks::plain_top(x, options_.k) : ranks::plain_at_least(x, thresholds_[rank]);
    if (recompute) thresholds_[rank] = min(local);
    return local;
  }

  /// The sum of a region: its own rank's selections first, then those of the previous rank, and so on.
  SparseVector reduced(const std::vector<SparseVector>& local, std::uint32_t region) const {
    std::vector<SparseVector> parts;
    for (std::uint32_t step = 0; step < size_; ++step)
      parts.push_back(
          ranks::part(local[(region + size_ - step) % size_], begins_[region], begins_[region + 1]));
    return ranks::plain_sum(parts);
  }

  /// The smallest magnitude that is neither 0 nor NaN.
  static float min(const SparseVector& x) {
    float min = kInfinity;
    for (const float value : x.values)
      if (std::fabs(value) < min) min = std::fabs(value);
    return std::max(min, std::numeric_limits<float>::denorm_min());
  }

  void repartition(const std::vector<SparseVector>& local) {
    begins_ = {0};
    for (std::size_t region = 1; region < size_; ++region) {
      std::uint64_t sum = 0;
      for (const SparseVector& x : local)
        sum += x.indexes.empty() ? elements_ * region / size_ : x.indexes[x.indexes.size() * region / size_];
      begins_.push_back(sum / size_);
    }
    begins_.push_back(elements_);
  }

  std::uint32_t size_;
  OkTopkOptions options_;
  Source source_;
  std::vector<float> thresholds_;
  float threshold_ = 0;
  std::vector<std::size_t> begins_;
  std::size_t elements_ = 0;
  std::uint64_t calls_ = 0;
};

/// The words that `rank` receives in a phase by the formulas in ok_topk.hpp.
struct Words {
  std::int64_t split = 0;
  std::int64_t recompute = 0;
  std::int64_t balance = 0;
  std::int64_t gather = 0;
};

Words words_of(const Plain::Outcome& out, const Plain& plain, std::uint32_t rank) {
  const auto size = static_cast<std::int64_t>(out.local.size());
  Words words;
  for (std::uint32_t other = 0; other < out.local.size(); ++other) {
    if (other == rank) continue;
    words.split +=
        2 * ranks::count(ranks::part(out.local[other], plain.begins()[rank], plain.begins()[rank + 1]));
    if (out.recomputes) words.recompute += 2 * ranks::count(out.reduced[other]);
  }
  if (out.recomputes) return words;
  const std::int64_t total = ranks::count(out.sum);
  std::int64_t share = ranks::count(out.shares[rank]);
  if (out.balances) {
    std::int64_t old_begin = 0;
    for (std::uint32_t lower = 0; lower < rank; ++lower) old_begin += ranks::count(out.shares[lower]);
    const std::int64_t begin = total * rank / size;
    const std::int64_t end = total * (rank + 1) / size;
    const std::int64_t kept =
        std::max<std::int64_t>(0, std::min(end, old_begin + share) - std::max(begin, old_begin));
    share = end - begin;
    words.balance = 2 * (share - kept);
  }
  words.gather = 2 * (total - share);
  return words;
}

void check_against_plain(std::uint32_t size, const OkTopkOptions& options, std::uint64_t calls,
                         const Source& source) {
  const std::vector<ranks::Ran<Call>> ran = run_calls(size, calls, options, source);
  Plain plain(size, options, source);
  for (std::uint64_t call = 0; call < calls; ++call) {
    CAPTURE(call);
    const Plain::Outcome expected = plain.call();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      CAPTURE(rank);
      const Selected& selected = ran[call].results[rank].selected;
      REQUIRE(ranks::same(selected.sum, expected.sum));
      REQUIRE(selected.contributed == ranks::common(expected.local[rank], expected.sum));
      REQUIRE(ran[call].results[rank].state.boundaries == plain.begins());
      const Words words = words_of(expected, plain, rank);
      REQUIRE(ran[call].words_received(rank, "split") == words.split);
      REQUIRE(ran[call].words_received(rank, "recompute") == words.recompute);
      REQUIRE(ran[call].words_received(rank, "balance") == words.balance);
      REQUIRE(ran[call].words_received(rank, "gather") == words.gather);
      REQUIRE(ran[call].words_received(rank, "sizes") == size - 1);
      REQUIRE(ran[call].words_received(rank, "boundaries") <=
              (call % options.repartition_every == 0 ? 4 * size : 0));
      REQUIRE(ran[call].counts(rank, "split").messages_sent == size - 1);
      REQUIRE(ran[call].counts(rank, "sizes").messages_sent == std::bit_width(size - 1));
    }
  }
}

Source drifting(std::size_t elements, sparse::GradientSource source) {
  return
      [=](std::uint32_t rank, std::uint64_t call) { return sparse::gradient(source, elements, rank, call); };
}

/// Large values in one place that moves, so that everything selected lies in one region or in a few.
Source moving(std::size_t elements) {
  return [=](std::uint32_t rank, std::uint64_t call) {
    std::vector<float> x = sparse::gradient({.seed = 3}, elements, rank, call);
    for (std::size_t i = 0; i < elements / 8; ++i) x[(i + call * elements / 3) % elements] *= 100;
    return x;
  };
}

/// Only one rank has nonzero values, and only sometimes.
Source lonely(std::size_t elements) {
  return [=](std::uint32_t rank, std::uint64_t call) {
    if (rank != 0 || call % 4 == 3) return std::vector<float>(elements);
    return sparse::gradient({.seed = 2}, elements, rank, call);
  };
}

/// Zeros when thresholds are computed (every third call), gradients between.
Source silent_at_first(std::size_t elements) {
  return [=](std::uint32_t rank, std::uint64_t call) {
    if (call % 3 == 0) return std::vector<float>(elements);
    std::vector<float> x = sparse::gradient({.seed = 6}, elements, rank, call);
    for (std::size_t i = 0; i < elements; i += 2) x[i] = -0.0F;
    return x;
  };
}

/// NaN and infinities come and go; sums of opposite infinities are NaN.
Source broken(std::size_t elements) {
  return [=](std::uint32_t rank, std::uint64_t call) {
    std::vector<float> x = sparse::gradient({.seed = 4}, elements, rank, call);
    if (elements < 8) return std::vector<float>(elements, call % 3 == 1 ? kNan : kInfinity);
    if ((call + rank) % 3 == 1) x[rank % 8] = kNan;
    if (call % 2 == 0) x[elements / 2] = rank % 2 == 0 ? kInfinity : -kInfinity;
    if (call % 5 == 0) std::fill(x.begin(), x.end(), kNan);
    return x;
  };
}

/// The same magnitude everywhere: all are ties.
Source level(std::size_t elements) {
  return [=](std::uint32_t rank, std::uint64_t call) {
    std::vector<float> x(elements, 1);
    for (std::size_t i = 0; i < elements; ++i)
      if ((i + rank + call) % 3 == 0) x[i] = -1;
    return x;
  };
}

TEST_CASE(
    "ok_topk: every call on every rank gives what the definition gives, for the words of the formulas") {
  for (const std::uint32_t size : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 64U})
    for (const auto& [elements, k] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
             {3, 2}, {40, 1}, {40, 40}, {40, 99}, {300, 12}, {300, 75}}) {
      if ((size == 16 && k > 12) || (size == 64 && elements != 40)) continue;  // time
      const OkTopkOptions options = {.k = k, .repartition_every = 4, .recompute_every = 3};
      const auto check = [&, elements = elements, k = k](std::string_view name, const Source& source) {
        CAPTURE(name);
        CAPTURE(size);
        CAPTURE(elements);
        CAPTURE(k);
        check_against_plain(size, options, 9, source);
      };
      check("gaussian", drifting(elements, {.seed = 1, .layers = 6}));
      check("laplace", drifting(elements, {.seed = 2, .tails = sparse::Tails::laplace, .common = 0}));
      check("moving", moving(elements));
      check("lonely", lonely(elements));
      check("silent at first", silent_at_first(elements));
      check("broken", broken(elements));
      check("level", level(elements));
    }
}

TEST_CASE("ok_topk: with its own periods thresholds hold for 32 calls and boundaries for 64") {
  check_against_plain(4, {.k = 10}, 66, drifting(200, {.seed = 5, .layers = 4, .drift = 0.05}));
}

TEST_CASE("ok_topk: nothing travels where nothing is to be selected") {
  for (const auto& [elements, k] :
       std::initializer_list<std::pair<std::size_t, std::size_t>>{{0, 5}, {0, 0}, {40, 0}}) {
    const auto ran = run_calls(3, 2, {.k = k}, drifting(elements, {}));
    for (const ranks::Ran<Call>& call : ran)
      for (std::size_t rank = 0; rank < 3; ++rank) {
        CHECK(call.results[rank].selected.sum == SparseVector{});
        CHECK(call.results[rank].selected.contributed.empty());
        CHECK(call.counts(rank, "") == transport::Counts{});
      }
  }
}

TEST_CASE("ok_topk: the result does not depend on how many messages are on their way at once") {
  const Source source = drifting(200, {.seed = 9});
  const auto expected = run_calls(8, 5, {.k = 20}, source);
  for (const std::uint32_t bucket : {1U, 3U, 100U}) {
    const auto ran = run_calls(8, 5, {.k = 20, .bucket = bucket}, source);
    for (std::size_t call = 0; call < 5; ++call)
      CHECK(ranks::same(ran[call].results[7].selected.sum, expected[call].results[7].selected.sum));
  }
}

TEST_CASE("ok_topk: in place and asked for, sums and what is left have the same bytes, for as many words") {
  for (const std::uint32_t size : {1U, 2U, 5U, 16U, 64U})
    for (const Source& source : {drifting(320, {.seed = 7, .layers = 3, .drift = 0.3}), moving(320),
                                 silent_at_first(320), broken(320)})
      for (const std::size_t k : {std::size_t{8}, std::size_t{64}}) {
        CAPTURE(size);
        CAPTURE(k);
        const OkTopkOptions options = {.k = k, .repartition_every = 4, .recompute_every = 3};
        const auto expected = run_calls(size, 7, options, source);
        transport::run_ranks(size, [&](Transport& end) {
          OkTopkOptions asking = options;
          asking.asks_first = true;
          OkTopkState state;
          for (std::uint64_t call = 0; call < 7; ++call) {
            const ranks::Ran<Call>& plain = expected[call];
            std::vector<float> left = source(end.rank(), call);
            std::vector<float> kept_back = left;
            std::vector<float> sum(left.size(), 7);
            transport::Counted counted(end);
            const sparse::OkTopkCounts counts =
                sparse::ok_topk(counted, std::span(left), std::span(sum), asking, state);
            const Selected& selected = plain.results[end.rank()].selected;
            std::vector<float> dense(left.size());
            for (std::size_t i = 0; i < selected.sum.indexes.size(); ++i)
              dense[selected.sum.indexes[i]] = selected.sum.values[i];
            for (const std::uint32_t index : selected.contributed) kept_back[index] = 0;
            REQUIRE(ranks::same(sum, dense));
            REQUIRE(ranks::same(left, kept_back));
            REQUIRE(counts.global == selected.sum.indexes.size());
            REQUIRE(counts.local >= selected.contributed.size());
            REQUIRE(counted.total().bytes_received == plain.counts(end.rank(), "").bytes_received);
            REQUIRE(counted.phase("split/asked").messages_received == size - 1);
          }
        });
      }
}

/// k / P in each of P regions on every rank, the same except in region 0, where all ranks select different
/// elements, the largest.
Source extreme(std::uint32_t size, std::size_t elements, std::size_t k) {
  return [=](std::uint32_t rank, std::uint64_t) {
    std::vector<float> x(elements);
    for (std::size_t region = 0; region < size; ++region)
      for (std::size_t i = 0; i < k / size; ++i) {
        const std::size_t at = region * elements / size + (region == 0 ? rank * k / size : 0) + i;
        x[at] = region == 0 ? 1000 : 1;
      }
    return x;
  };
}

TEST_CASE("ok_topk: 6k(P-1)/P words and control words at most, and the extreme case reaches it") {
  for (const std::uint32_t size : {8U, 16U, 64U}) {
    const std::size_t k = 2 * size;
    const auto ran = run_calls(size, 2, {.k = k}, extreme(size, k * size, k));
    const ranks::Ran<Call>& call = ran[1];  // thresholds and boundaries are reused
    const auto third = static_cast<std::int64_t>(2 * k * (size - 1) / size);
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      CHECK(call.results[rank].selected.sum.indexes.size() == k);
      CHECK(call.words_received(rank, "split") == third);
      CHECK(call.words_received(rank, "balance") == (rank == 0 ? 0 : 4));
      CHECK(call.words_received(rank, "gather") == third);
      CHECK(call.words_received(rank) <= 3 * third + size - 1);
      CHECK(call.words_sent(rank) - call.words_sent(rank, "sizes") == (rank == 0 ? 3 : 2) * third);
    }
  }
}

/// The maximum that any other rank selects in the region of `rank`.
std::int64_t max_in_region(const Plain::Outcome& out, const Plain& plain, std::uint32_t rank) {
  std::int64_t max = 0;
  for (std::uint32_t other = 0; other < out.local.size(); ++other)
    if (other != rank)
      max = std::max(
          max, ranks::count(ranks::part(out.local[other], plain.begins()[rank], plain.begins()[rank + 1])));
  return max;
}

// With b the maximum that a rank selects in a region and G the length of the result: 2(P-1)b in split, at
// most 2G + 2 in balance and gather, P-1 sizes. Boundaries that balance make b at most k'/P, and 2G is at
// most 4k'(P-1)/P.
TEST_CASE("ok_topk: within 6k'(P-1)/P words where boundaries balance, elsewhere as regions are unequal") {
  std::size_t balanced = 0;
  for (const std::uint32_t size : {2U, 3U, 4U, 7U, 8U, 16U, 64U})
    for (const double drift : {0.0, 0.005, 0.2}) {
      CAPTURE(size);
      CAPTURE(drift);
      const Source source = drifting(1000, {.seed = size, .layers = 3, .common = 1, .drift = drift});
      const OkTopkOptions options = {.k = std::size_t{8} * size};
      const auto ran = run_calls(size, 5, options, source);
      Plain plain(size, options, source);
      for (std::uint64_t call = 0; call < 5; ++call) {
        const Plain::Outcome out = plain.call();
        if (out.recomputes) continue;
        const std::int64_t result = ranks::count(out.sum);
        std::int64_t max = result;
        for (const SparseVector& local : out.local) max = std::max(max, ranks::count(local));
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          const std::int64_t share = max_in_region(out, plain, rank);
          const std::int64_t words = ran[call].words_received(rank);
          REQUIRE(words <= 2 * (size - 1) * share + 2 * result + 2 + (size - 1));
          if (share * size > max) continue;
          REQUIRE(words <= 6 * max * (size - 1) / size + 2 + (size - 1));
          ++balanced;
        }
      }
    }
  CHECK(balanced > std::size_t{4} * 104);  // all that do not drift: 4 calls on each of 104 ranks
}

TEST_CASE("ok_topk: another k, or another number of elements, starts anew") {
  std::vector<Selected> results;
  transport::run_ranks(2, [&](Transport& t) {
    OkTopkState state;
    const auto call = [&](std::size_t elements, std::size_t k) {
      const std::vector<float> x = sparse::gradient({.drift = 0.3}, elements, t.rank(), state.calls);
      Selected selected = sparse::ok_topk(t, x, {.k = k}, state);
      if (t.rank() == 0) results.push_back(std::move(selected));
    };
    call(100, 10);
    call(100, 10);
    call(100, 20);
    CHECK(state.calls == 1);
    call(60, 20);
    CHECK(state.calls == 1);
  });
  CHECK(results[0].sum.indexes.size() == 10);
  CHECK(results[2].sum.indexes.size() == 20);
  CHECK(results[3].sum.indexes.size() == 20);
}

TEST_CASE("ok_topk: periods and buckets of 0 are errors") {
  for (const OkTopkOptions& options :
       {OkTopkOptions{.k = 1, .repartition_every = 0}, OkTopkOptions{.k = 1, .recompute_every = 0},
        OkTopkOptions{.k = 1, .bucket = 0}, OkTopkOptions{.k = 1, .balance_beyond = 0}})
    CHECK_THROWS_AS(run_calls(2, 1, options, drifting(4, {})), std::invalid_argument);
}

/// Gathers everything, and sums each region from its rank downwards.
SparseVector top_of_sums(Transport& transport, const SparseVector& own, const OkTopkState& state) {
  const std::vector<transport::Bytes> all = sparse::all_gather(transport, sparse::encode(own));
  SparseVector sum;
  for (std::uint32_t region = 0; region < transport.size(); ++region) {
    const sparse::Range range = {state.boundaries[region], state.boundaries[region + 1]};
    sparse::Accumulator part(range);
    for (std::uint32_t step = 0; step < transport.size(); ++step) {
      const SparseVector each = sparse::decode(all[(region + transport.size() - step) % transport.size()],
                                               {0, state.boundaries.back()});
      part.add(sparse::slice(each, sparse::places_in(each, range)));
    }
    sparse::append(sum, part.take());
  }
  return sparse::top_of(sum, state.k);
}

TEST_CASE("ok_topk: ten million elements on 8 ranks") {
  constexpr std::uint32_t kRanks = 8;
  constexpr std::size_t kElements = 10'000'000;
  constexpr std::size_t kKept = kElements / 100;
  const auto ran = ranks::run(kRanks, [](Transport& t) {
    std::vector<float> x(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      const std::uint64_t bits = sim::hash(t.rank(), i);  // a sharp peak at 0, some elements common to all
      x[i] = static_cast<float>(static_cast<std::int32_t>(bits)) * static_cast<float>(bits >> 40U) *
             (sim::mix(i) % 64 == 0 ? 2.0F : 1.0F);
    }
    OkTopkState state;
    SparseVector exact = sparse::ok_topk(t, x, {.k = kKept}, state).sum;
    SparseVector again = sparse::ok_topk(t, x, {.k = kKept}, state).sum;
    return std::array{std::move(exact), std::move(again),
                      top_of_sums(t, compression::top_k(x, kKept), state)};
  });
  for (const auto& [exact, again, expected] : ran.results) {
    CHECK(exact.indexes.size() == kKept);
    CHECK((exact == expected && again == expected));
  }
}

/// Error feedback: what is applied and what is kept add up to the input.
TEST_CASE("ok_topk: nothing of a gradient is lost between the sum and what ranks keep") {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::size_t kElements = 64;
  std::vector<std::vector<float>> kept(kRanks);
  std::vector<std::vector<float>> applied(kRanks);
  const auto whole = [](std::uint32_t rank, std::uint64_t call) {
    std::vector<float> x = sparse::gradient({.seed = 11}, kElements, rank, call);
    for (float& value : x) value = std::round(value * 64);  // integers: sums are exact
    return x;
  };
  transport::run_ranks(kRanks, [&](Transport& t) {
    OkTopkState state;
    std::vector<float> residual(kElements);
    std::vector<float> sum(kElements);
    for (std::uint64_t call = 0; call < 40; ++call) {
      const std::vector<float> x = whole(t.rank(), call);
      for (std::size_t i = 0; i < kElements; ++i) residual[i] += x[i];
      const Selected selected = sparse::ok_topk(t, residual, {.k = 6, .recompute_every = 8}, state);
      for (const std::uint32_t index : selected.contributed) residual[index] = 0;
      for (std::size_t i = 0; i < selected.sum.indexes.size(); ++i)
        sum[selected.sum.indexes[i]] += selected.sum.values[i];
    }
    kept[t.rank()] = residual;
    applied[t.rank()] = sum;
  });
  std::vector<float> all(kElements);
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    for (std::uint64_t call = 0; call < 40; ++call)
      for (std::size_t i = 0; i < kElements; ++i) all[i] += whole(rank, call)[i];
  for (std::size_t i = 0; i < kElements; ++i)
    CHECK(applied[2][i] + kept[0][i] + kept[1][i] + kept[2][i] + kept[3][i] == all[i]);
}

}  // namespace
