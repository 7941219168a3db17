// What sparse all-reduces select, and how evenly, in runs on drawn gradients.

#include <algorithm>
#include <cmath>

#include "compression/select.hpp"
#include "sparse/collectives.hpp"
#include "sparse/ok_topk.hpp"
#include "sparse/ring.hpp"
#include "transport/in_process.hpp"
#include "validate/drawn.hpp"
#include "validate/quantities.hpp"

namespace validate {
namespace {

using transport::Transport;

constexpr double kPercent = 100;

/// Of TopkDSA's sum.
Values fill_in_percent(const Request& request) {
  const Drawn drawn = read_drawn(request);
  std::vector<std::size_t> non_zeros(drawn.ranks);
  transport::run_ranks(drawn.ranks, [&](Transport& t) {
    const sparse::SparseVector own = compression::top_k(drawn.gradient(t.rank(), 0), drawn.kept);
    non_zeros[t.rank()] = sparse::topk_dsa(t, own, drawn.elements).non_zeros;
  });
  return {{"", kPercent * static_cast<double>(non_zeros.front()) / static_cast<double>(drawn.elements)}};
}

/// How many elements calls of Ok-Topk have selected: on each rank, and of the sum.
struct Selections {
  std::vector<std::vector<std::size_t>> local;  ///< by rank and call
  std::vector<std::size_t> global;              ///< by call
};

Selections select(const Drawn& drawn) {
  Selections out{std::vector<std::vector<std::size_t>>(drawn.ranks), {}};
  transport::run_ranks(drawn.ranks, [&](Transport& t) {
    sparse::OkTopkState state;
    for (std::uint64_t call = 0; call < drawn.calls; ++call) {
      const std::vector<float> gradient = drawn.gradient(t.rank(), call);
      const sparse::Selected selected = sparse::ok_topk(t, gradient, {.k = drawn.kept}, state);
      out.local[t.rank()].push_back(compression::count_at_least(gradient, state.local_threshold));
      if (t.rank() == 0) out.global.push_back(selected.sum.indexes.size());
    }
  });
  return out;
}

/// From the number asked for, in the mean.
Values selection_deviation_percent(const Request& request) {
  const Drawn drawn = read_drawn(request);
  const Selections selections = select(drawn);
  const auto kept = static_cast<double>(drawn.kept);
  double local = 0;
  for (const auto& calls : selections.local)
    for (const std::size_t count : calls) local += std::abs(static_cast<double>(count) - kept) / kept;
  double global = 0;
  for (const std::size_t count : selections.global)
    global += std::abs(static_cast<double>(count) - kept) / kept;
  const auto calls = static_cast<double>(drawn.calls);
  return {{"local", kPercent * local / calls / drawn.ranks}, {"global", kPercent * global / calls}};
}

/// Words that the rank with the most receives while selections are split into equal regions of the gradient.
double naive_words(const Drawn& drawn, std::uint64_t call) {
  std::vector<std::size_t> of_region(drawn.ranks);
  std::vector<std::size_t> own(drawn.ranks);
  for (std::uint32_t rank = 0; rank < drawn.ranks; ++rank) {
    const sparse::SparseVector selected = compression::top_k(drawn.gradient(rank, call), drawn.kept);
    for (std::uint32_t region = 0; region < drawn.ranks; ++region) {
      const auto place = [&](std::uint32_t at) {
        return std::lower_bound(selected.indexes.begin(), selected.indexes.end(),
                                sparse::part_begin(drawn.elements, at, drawn.ranks));
      };
      const auto count = static_cast<std::size_t>(place(region + 1) - place(region));
      of_region[region] += count;
      if (region == rank) own[region] = count;
    }
  }
  std::size_t most = 0;
  for (std::uint32_t region = 0; region < drawn.ranks; ++region)
    most = std::max(most, 2 * (of_region[region] - own[region]));
  return static_cast<double>(most);
}

/// The same in Ok-Topk's regions, making them spread over the calls that use them.
double balanced_words(const Drawn& drawn) {
  std::vector<std::int64_t> bytes(drawn.ranks);
  transport::run_ranks(drawn.ranks, [&](Transport& end) {
    sparse::OkTopkState state;
    const sparse::OkTopkOptions options = {.k = drawn.kept};
    for (std::uint64_t call = 0; call < 2; ++call) {
      transport::Counted counted(end);
      (void)sparse::ok_topk(counted, drawn.gradient(end.rank(), call), options, state);
      const std::int64_t making = counted.phase("boundaries").bytes_received;
      bytes[end.rank()] = call == 0 ? making / static_cast<std::int64_t>(options.repartition_every)
                                    : bytes[end.rank()] + counted.phase("split").bytes_received;
    }
  });
  constexpr double kBytesPerWord = 4;
  return static_cast<double>(*std::max_element(bytes.begin(), bytes.end())) / kBytesPerWord;
}

Values split_gain(const Request& request) {
  const Drawn drawn = read_drawn(request);
  return {{"", naive_words(drawn, 1) / balanced_words(drawn)}};
}

/// How many calls even out shares before they gather them, of those that do not compute thresholds anew.
Values balancing_calls_percent(const Request& request) {
  const Drawn drawn = read_drawn(request);
  std::uint64_t balancing = 0;
  std::uint64_t usual = 0;
  transport::run_ranks(drawn.ranks, [&](Transport& end) {
    sparse::OkTopkState state;
    for (std::uint64_t call = 0; call < drawn.calls; ++call) {
      transport::Counted counted(end);
      (void)sparse::ok_topk(counted, drawn.gradient(end.rank(), call), {.k = drawn.kept}, state);
      if (end.rank() != 0) continue;
      const auto has = [&](std::string_view phase) { return counted.phase(phase) != transport::Counts{}; };
      if (has("gather")) ++usual;
      if (has("balance")) ++balancing;
    }
  });
  if (usual == 0) request.at("calls").expected("calls beyond the first");
  return {{"", kPercent * static_cast<double>(balancing) / static_cast<double>(usual)}};
}

}  // namespace

std::vector<Quantity> selected_quantities() {
  const std::vector<std::string_view> keys = drawn_keys({});
  return {{"fill_in_percent", "of the elements are not zero in TopkDSA's sum", keys, fill_in_percent},
          {"selection_deviation_percent", "of Ok-Topk's selections from what was asked for, mean", keys,
           selection_deviation_percent},
          {"split_gain", "words that equal regions send to the rank with the most, over those of Ok-Topk's",
           keys, split_gain},
          {"balancing_calls_percent", "of Ok-Topk's calls even out shares before they gather", keys,
           balancing_calls_percent}};
}

}  // namespace validate
