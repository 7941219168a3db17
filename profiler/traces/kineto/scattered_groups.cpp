#include "profiler/traces/kineto/scattered_groups.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace kineto {
namespace {

using Indices = std::vector<std::size_t>;
using Size = std::int64_t ReadyGradient::*;

/// FSDP2 pads each gradient; one that is sharded along another dimension than its first may need none.
constexpr Size kSizes[] = {&ReadyGradient::padded, &ReadyGradient::elements};

class Division {
 public:
  Division(const std::vector<ReadyGradient>& gradients, const std::vector<Scatter>& scatters)
      : gradients_(gradients), scatters_(scatters), out_{.scatter = Indices32(gradients.size(), 0)} {}

  GroupOfEach run() && {
    const std::vector<std::uint32_t> order = order_of_division();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Scatter& scatter = scatters_[order[i]];
      add_ready(scatter.launched_ns);
      const bool is_last = i + 1 == order.size();
      const std::optional<Indices> found = is_last ? rest(scatter) : own(scatter);
      if (!found)
        return {.unclear = fmt::format("no gradients, or several choices of them, have the {} elements of "
                                       "reduce-scatter {} of {}",
                                       scatter.elements, order[i] + 1, scatters_.size())};
      take(*found, order[i]);
    }
    if (!left_.empty() || next_ < gradients_.size())
      return {.unclear = fmt::format("{} of {} gradients belong to no reduce-scatter",
                                     left_.size() + gradients_.size() - next_, gradients_.size())};
    return std::move(out_);
  }

 private:
  using Indices32 = std::vector<std::uint32_t>;

  /// After the last gradient, modules inside others come first, and the model itself last.
  Indices32 order_of_division() const {
    Indices32 out(scatters_.size());
    std::iota(out.begin(), out.end(), 0U);
    const auto at_end = std::partition_point(
        out.begin(), out.end(), [&](std::uint32_t i) { return !has_all(scatters_[i].launched_ns); });
    std::stable_sort(at_end, out.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(scatters_[b].is_of_model, scatters_[a].from_ns) >
             std::pair(scatters_[a].is_of_model, scatters_[b].from_ns);
    });
    return out;
  }

  bool has_all(std::int64_t launched_ns) const {
    return gradients_.empty() || gradients_.back().at_ns <= launched_ns;
  }

  void add_ready(std::int64_t until_ns) {
    for (; next_ < gradients_.size() && gradients_[next_].at_ns <= until_ns; ++next_) left_.push_back(next_);
  }

  std::optional<Indices> rest(const Scatter& scatter) const {
    for (const Size size : kSizes)
      if (sum(left_, size) == scatter.elements) return left_;
    return {};
  }

  std::optional<Indices> own(const Scatter& scatter) const {
    Indices since;
    for (const std::size_t i : left_)
      if (gradients_[i].at_ns >= scatter.from_ns) since.push_back(i);
    for (const Size size : kSizes) {
      if (scatter.from_ns != INT64_MIN && sum(since, size) == scatter.elements) return since;
      if (auto found = has_all(scatter.launched_ns) ? only_choice(since, size, scatter.elements)
                                                    : last_of(since, size, scatter.elements))
        return found;
    }
    return {};
  }

  std::int64_t sum(const Indices& of, Size size) const {
    std::int64_t out = 0;
    for (const std::size_t i : of) out += gradients_[i].*size;
    return out;
  }

  /// The last ones that add up to so many elements.
  std::optional<Indices> last_of(const Indices& of, Size size, std::int64_t elements) const {
    std::int64_t sum = 0;
    for (auto first = of.end(); first != of.begin() && sum < elements;) {
      --first;
      sum += gradients_[*first].*size;
      if (sum == elements) return Indices(first, of.end());
    }
    return {};
  }

  /// The gradients that add up to so many elements; nothing if there are two choices, or too many sums to
  /// look at.
  std::optional<Indices> only_choice(const Indices& of, Size size, std::int64_t elements) const {
    constexpr std::size_t kMaxGradients = 64;
    constexpr std::size_t kMaxSums = 10'000;
    struct Choice {
      std::uint64_t gradients = 0;  ///< a bit for each
      bool is_only = true;
    };
    if (of.size() > kMaxGradients) return {};
    std::map<std::int64_t, Choice> by_sum = {{0, {}}};
    for (std::size_t i = 0; i < of.size(); ++i) {
      std::vector<std::pair<std::int64_t, Choice>> more;
      for (const auto& [sum, choice] : by_sum)
        if (sum + gradients_[of[i]].*size <= elements)
          more.emplace_back(sum + gradients_[of[i]].*size,
                            Choice{choice.gradients | std::uint64_t{1} << i, choice.is_only});
      for (const auto& [sum, choice] : more)
        if (const auto [found, is_new] = by_sum.try_emplace(sum, choice); !is_new)
          found->second.is_only = false;
      if (by_sum.size() > kMaxSums) return {};
    }
    const auto found = by_sum.find(elements);
    if (found == by_sum.end() || !found->second.is_only) return {};
    Indices out;
    for (std::size_t i = 0; i < of.size(); ++i)
      if ((found->second.gradients >> i & 1U) != 0) out.push_back(of[i]);
    return out;
  }

  void take(const Indices& gradients, std::uint32_t scatter) {
    for (const std::size_t i : gradients) {
      out_.scatter[i] = scatter;
      left_.erase(std::lower_bound(left_.begin(), left_.end(), i));
    }
  }

  const std::vector<ReadyGradient>& gradients_;
  const std::vector<Scatter>& scatters_;
  GroupOfEach out_;
  Indices left_;  // ready, and of no group yet
  std::size_t next_ = 0;
};

}  // namespace

GroupOfEach group_of_each(const std::vector<ReadyGradient>& gradients, const std::vector<Scatter>& scatters) {
  return Division(gradients, scatters).run();
}

}  // namespace kineto
