#include "profiler/traces/kineto/exchanges.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "profiler/traces/kineto/collective_size.hpp"

namespace kineto {
namespace {

using core::CollectiveKind;

/// This struct sums up how a group is used in a trace.
struct GroupUse {
  bool sums_in_forward = false;
  bool sums_from_hooks = false;  ///< of gradients
  double hooked_bytes = 0;       ///< of these sums
  double gradient_bytes = 0;
  double gathered_bytes = 0;  ///< outside of passes
  double bytes = 0;
  auto order() const { return std::tuple(hooked_bytes, gradient_bytes, bytes); }
};

bool sums(std::optional<CollectiveKind> kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

class Uses {
 public:
  Uses(const Trace& trace, const std::vector<LaunchedCollective>& all) : trace_(trace), all_(all) {
    ProcessGroups groups(trace);
    for (const LaunchedCollective& each : all) {
      const Kernel& kernel = trace.kernels[each.kernel];
      kinds_.push_back(kind_of(trace, kernel));
      out_.group_of.push_back(
          groups.index_of(trace.collectives[static_cast<std::size_t>(kernel.collective)]));
    }
    out_.groups = groups.found();
    use_of_.resize(out_.groups.size());
  }

  CollectiveUses find() && {
    find_sums_in_forward();
    find_scattering_nodes();
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (is_from_hook(i)) use(i).sums_from_hooks = true;
    has_hooks_ =
        std::any_of(use_of_.begin(), use_of_.end(), [](const GroupUse& use) { return use.sums_from_hooks; });
    nodes_sum_ = !has_hooks_ && !sums_elsewhere();
    for (std::size_t i = 0; i < all_.size(); ++i)
      scatters_ = scatters_ || (kinds_[i] == CollectiveKind::reduce_scatter && !is_exchanged_sum(i));
    sum_bytes();
    for (std::size_t i = 0; i < all_.size(); ++i) out_.is_exchange.push_back(is_exchange(i));
    choose_group();
    return std::move(out_);
  }

 private:
  GroupUse& use(std::size_t i) { return use_of_[out_.group_of[i]]; }
  const GroupUse& use(std::size_t i) const { return use_of_[out_.group_of[i]]; }

  void find_sums_in_forward() {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (sums(kinds_[i]) && all_[i].from == LaunchedFrom::forward) use(i).sums_in_forward = true;
  }

  /// FSDP scatters gradients, and sums what it scattered between replicas, in hooks that are nodes
  /// themselves.
  void find_scattering_nodes() {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].from == LaunchedFrom::node && kinds_[i] == CollectiveKind::reduce_scatter &&
          !use(i).sums_in_forward)
        scattering_nodes_.insert(all_[i].node);
  }

  bool is_from_hook(std::size_t i) const {
    if (!sums(kinds_[i])) return false;
    if (all_[i].from == LaunchedFrom::accumulation) return true;
    return all_[i].from == LaunchedFrom::node && !use(i).sums_in_forward &&
           scattering_nodes_.find(all_[i].node) != scattering_nodes_.end();
  }

  /// Groups sum gradients outside of nodes, too: after backward. Where no hook sums gradients, any group does
  /// that does not serve forward passes.
  bool sums_gradients(const GroupUse& use) const {
    return has_hooks_ ? use.sums_from_hooks : !use.sums_in_forward;
  }

  bool sums_elsewhere() const {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (sums(kinds_[i]) && all_[i].from == LaunchedFrom::elsewhere) return true;
    return false;
  }

  /// A compiled backward pass sums gradients in its own node.
  bool is_exchanged_sum(std::size_t i) const {
    if (is_from_hook(i)) return false;
    if (nodes_sum_ && all_[i].from == LaunchedFrom::node) return use(i).sums_in_forward;
    return all_[i].from != LaunchedFrom::elsewhere || !sums_gradients(use(i));
  }

  /// A group whose members compute a layer together.
  static bool serves_layers(const GroupUse& use) { return use.sums_in_forward && !use.sums_from_hooks; }

  /// Parameters are gathered where gradients are scattered, and outside of passes also where whole gradients
  /// are summed: each worker updates a share of the parameters. What is gathered there otherwise, a loss for
  /// example, is small. What hooks of gradients gather is encoded gradients.
  bool is_exchanged_gather(std::size_t i) const {
    constexpr double kHardlyAny = 0.02;  // of the gradients, also if many micro-batches sum theirs
    if (scatters_) return serves_layers(use(i));
    if (all_[i].from == LaunchedFrom::accumulation) return false;
    return all_[i].from != LaunchedFrom::elsewhere || serves_layers(use(i)) || summed_bytes_ <= 0 ||
           use(i).gathered_bytes < kHardlyAny * summed_bytes_;
  }

  void sum_bytes() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const auto bytes = static_cast<double>(bytes_of(trace_, trace_.kernels[all_[i].kernel]));
      if (sums(kinds_[i]) && !is_exchanged_sum(i)) summed_bytes_ += bytes;
      if (kinds_[i] == CollectiveKind::all_gather && all_[i].from == LaunchedFrom::elsewhere)
        use(i).gathered_bytes += bytes;
    }
  }

  bool is_exchange(std::size_t i) const {
    if (!kinds_[i]) return true;
    return sums(kinds_[i]) ? is_exchanged_sum(i) : is_exchanged_gather(i);
  }

  void choose_group() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (!kinds_[i]) continue;
      const auto bytes =
          static_cast<double>(std::max<std::int64_t>(1, bytes_of(trace_, trace_.kernels[all_[i].kernel])));
      use(i).bytes += bytes;
      if (sums(kinds_[i]) && !out_.is_exchange[i]) use(i).gradient_bytes += bytes;
      if (is_from_hook(i)) use(i).hooked_bytes += bytes;
    }
    const auto most =
        std::max_element(use_of_.begin(), use_of_.end(),
                         [](const GroupUse& a, const GroupUse& b) { return a.order() < b.order(); });
    if (most != use_of_.end() && most->bytes > 0)
      out_.gradient_group = static_cast<std::uint32_t>(most - use_of_.begin());
  }

  const Trace& trace_;
  const std::vector<LaunchedCollective>& all_;
  std::vector<std::optional<CollectiveKind>> kinds_;
  std::vector<GroupUse> use_of_;
  std::unordered_set<std::int32_t> scattering_nodes_;
  bool has_hooks_ = false;
  bool nodes_sum_ = false;
  bool scatters_ = false;
  double summed_bytes_ = 0;  ///< of gradients
  CollectiveUses out_;
};

}  // namespace

CollectiveUses find_uses(const Trace& trace, const std::vector<LaunchedCollective>& collectives) {
  return Uses(trace, collectives).find();
}

}  // namespace kineto
