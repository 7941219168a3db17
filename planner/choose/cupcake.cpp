#include "planner/choose/cupcake.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>

namespace planner {
namespace {

using sim::Time;

/// The cost of every possible group: from a table if it is small, otherwise computed on demand.
class GroupCosts {
 public:
  using Cost = std::function<Time(std::uint32_t begin, std::uint32_t end)>;

  GroupCosts(const Cost& cost, std::uint32_t count) : cost_(cost), width_(std::size_t{count} + 1) {
    constexpr std::size_t kMaxInTable = std::size_t{1} << 22U;
    for (std::uint32_t begin = 0; begin < count; ++begin) to_last_.push_back(cost(begin, count));
    to_last_.push_back(Time::zero());
    if (width_ * width_ > kMaxInTable) return;
    table_.resize(width_ * width_);
    for (std::uint32_t begin = 0; begin < count; ++begin)
      for (std::uint32_t end = begin + 1; end <= count; ++end)
        table_[begin * width_ + end] = cost(begin, end);
  }

  Time of(std::uint32_t begin, std::uint32_t end) const {
    return table_.empty() ? cost_(begin, end) : table_[begin * width_ + end];
  }
  /// The cost of one group from `begin` to the last gradient; 0 if that is empty.
  Time to_last(std::uint32_t begin) const { return to_last_[begin]; }

 private:
  const Cost& cost_;
  std::size_t width_;
  std::vector<Time> table_;
  std::vector<Time> to_last_;
};

/// The paper's M: the state after the gradients before `k` have been grouped.
struct Beginning {
  std::uint32_t k = 0;
  Time comp{};   ///< when the last of its groups has been compressed
  Time delay{};  ///< time from then until the channel has sent it
};

class Search {
 public:
  Search(const CupcakeInstance& instance, const CupcakeOptions& options)
      : options_(options),
        count_(instance.count),
        backward_end_(instance.backward_end),
        ready_before_{Time::zero()},
        h_(instance.encode, instance.count),
        g_(instance.communicate, instance.count),
        started_(Clock::now()) {
    ready_before_.insert(ready_before_.end(), instance.ready.begin(), instance.ready.end());
  }

  CupcakeResult run() {
    best_.end = Time::max();
    if (options_.start_with_halves) keep_halves();
    best_.finished = true;
    for (std::uint32_t end = 1; end <= count_ && best_.finished; ++end) find_opt_fusion(with({}, end));
    return best_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// A suspended call of FindOptFusion: the first group of its next case ends at `end`.
  struct Call {
    Beginning m;
    std::uint32_t end = 0;
  };

  /// The paper's B(k, ...): the time of backward alone.
  Time backward(std::uint32_t begin, std::uint32_t end) const {
    return ready_before_[end] - ready_before_[begin];
  }

  /// Returns M + fuse(k, end - 1).
  Beginning with(const Beginning& m, std::uint32_t end) const {
    const Time compute = backward(m.k, end) + h_.of(m.k, end);
    return {.k = end,
            .comp = m.comp + compute,
            .delay = std::max(m.delay - compute, Time::zero()) + g_.of(m.k, end)};
  }

  /// The paper's f(M) of a complete grouping, without the forward pass.
  Time time(const Beginning& whole) const {
    return whole.comp + std::max(backward_end_ - ready_before_[count_], whole.delay);
  }

  void keep_halves() {
    const std::uint32_t middle = (count_ + 1) / 2;
    Beginning whole = with({}, middle);
    best_.groups = {{.begin = 0, .end = middle}};
    if (middle < count_) {
      whole = with(whole, count_);
      best_.groups.push_back({.begin = middle, .end = count_});
    }
    best_.end = time(whole);
  }

  /// Lines 6 to 39 of the paper, with an explicit stack of calls, as deep as there are groups. Two details
  /// differ. The best completion of each prefix is not stored: whenever the paper's code compares one with
  /// the overall best, the call that found it has done so already. And a grouping is compared when it is
  /// complete, because the printed algorithm never compares the single group of everything.
  void find_opt_fusion(const Beginning& start) {
    calls_.clear();
    enter(start);
    while (!calls_.empty() && best_.finished) {
      Call& call = calls_.back();
      call.end = next_worth_a_look(call);
      if (call.end > count_)
        calls_.pop_back();
      else
        enter(with(call.m, call.end++));  // invalidates `call`
    }
  }

  void enter(const Beginning& m) {
    if (is_over_limit()) {
      best_.finished = false;
      return;
    }
    ++best_.nodes;
    calls_.push_back({.m = m, .end = first_end(m)});
    if (m.k == count_ && time(m) < best_.end) keep(m);
  }

  bool is_over_limit() const {
    constexpr std::uint64_t kBetweenLooks = 256;
    if (best_.nodes >= options_.max_nodes) return true;
    if (best_.nodes % kBetweenLooks != 0) return false;
    return std::chrono::duration<double>(Clock::now() - started_).count() >= options_.time_limit_s;
  }

  /// Lines 9 to 16: the end of the first group of the first case, j* + 1.
  std::uint32_t first_end(const Beginning& m) const {
    std::uint32_t end = m.k + 1;
    if (!options_.prune_by_first_group || m.k == count_) return end;
    while (end < count_ && backward(m.k, end + 1) + h_.of(m.k, end + 1) <= m.delay) ++end;
    return end;
  }

  /// Lines 18 to 24: the next case that pruning does not skip.
  std::uint32_t next_worth_a_look(const Call& call) const {
    std::uint32_t end = call.end;
    if (options_.prune_by_outcome)
      while (end <= count_ && optimistic_outcome(call.m, end) > best_.end) ++end;
    return end;
  }

  /// Lines 19 to 21: an optimistic end that sends the remaining gradients as one group and ends when either
  /// stream has done its work.
  Time optimistic_outcome(const Beginning& m, std::uint32_t end) const {
    const Time h = h_.of(m.k, end);
    const Time base = backward_end_ - ready_before_[m.k] + h + h_.to_last(end);
    const Time cases = std::max(backward(m.k, end) + h, m.delay) + g_.of(m.k, end) + g_.to_last(end);
    return m.comp + std::max(base, cases);
  }

  void keep(const Beginning& whole) {
    best_.end = time(whole);
    best_.groups.clear();
    std::uint32_t begin = 0;
    for (const Call& call : calls_) {
      best_.groups.push_back({.begin = begin, .end = call.m.k});
      begin = call.m.k;
    }
  }

  const CupcakeOptions& options_;
  std::uint32_t count_;
  Time backward_end_;
  std::vector<Time> ready_before_;  // by cut: when the last gradient before it is ready
  GroupCosts h_;
  GroupCosts g_;
  Clock::time_point started_;
  std::vector<Call> calls_;
  CupcakeResult best_;
};

}  // namespace

CupcakeResult cupcake(const CupcakeInstance& instance, const CupcakeOptions& options) {
  assert(instance.count > 0 && instance.ready.size() == instance.count);
  assert(instance.backward_end >= instance.ready.back());
  return Search(instance, options).run();
}

}  // namespace planner
