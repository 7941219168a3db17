#include "profiler/traces/kineto/sharded_groups.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_size.hpp"
#include "profiler/traces/kineto/gradient_sizes.hpp"
#include "profiler/traces/kineto/scattered_groups.hpp"
#include "profiler/traces/kineto/shapes.hpp"
#include "profiler/traces/kineto/used_steps.hpp"

namespace kineto {
namespace {

/// What FSDP2 annotates of a module: "FSDP::all_gather (blocks.0)". The model itself has no name.
struct ModuleRange {
  Span ran;
  std::string_view module;
};
using ModuleRanges = std::vector<ModuleRange>;

ModuleRanges ranges_of(const Trace& trace, std::string_view what) {
  ModuleRanges out;
  for (const Range& range : trace.ranges) {
    std::string_view name = trace.texts[range.name];
    if (range.kind != RangeKind::annotation || name.substr(0, what.size()) != what) continue;
    name.remove_prefix(what.size());
    if (name.size() >= 3 && name.substr(0, 2) == " (" && name.back() == ')')
      name = name.substr(2, name.size() - 3);
    else if (!name.empty())
      continue;  // "FSDP::all_gather_copy_out" is no "FSDP::all_gather"
    out.push_back({.ran = {range.start_ns, range.end_ns}, .module = name});
  }
  return out;
}

/// The last of the ranges, which are in the order of their starts, that has begun if it has not ended.
const ModuleRange* around(const ModuleRanges& ranges, std::int64_t ns) {
  const auto after = std::partition_point(ranges.begin(), ranges.end(),
                                          [&](const ModuleRange& range) { return range.ran.first <= ns; });
  return after != ranges.begin() && (after - 1)->ran.second >= ns ? &*(after - 1) : nullptr;
}

struct Place {
  std::size_t layer = 0;
  std::size_t gradient = 0;
};

/// The gradients of a step and their places, in the order in which they became ready.
struct Gradients {
  std::vector<ReadyGradient> ready;
  std::vector<Place> places;
};

std::int64_t padded(const Trace& trace, const Gradient& gradient, std::int64_t workers) {
  const auto shapes = shapes_of(trace.texts[gradient.shapes]);
  if (shapes.empty() || shapes.front().empty() || shapes.front().front() <= 0) return gradient.elements;
  const std::int64_t rows = shapes.front().front();
  const std::int64_t missing = (workers - rows % workers) % workers;
  constexpr std::int64_t kMax = 2 * core::kMaxElements;  // more than any collective carries
  const std::int64_t row = std::min(gradient.elements / rows, kMax / workers);
  return std::min(kMax, gradient.elements + missing * row);
}

Gradients gradients_of(const Trace& trace, const std::vector<const Call*>& step, std::int64_t workers) {
  std::vector<std::pair<const Gradient*, Place>> all;
  for (std::size_t layer = 0; layer < step.size(); ++layer)
    for (std::size_t i = 0; i < step[layer]->gradients.size(); ++i)
      all.push_back({&step[layer]->gradients[i], {.layer = layer, .gradient = i}});
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first->at_ns < b.first->at_ns; });
  Gradients out;
  for (const auto& [gradient, place] : all) {
    out.ready.push_back({.at_ns = gradient->at_ns,
                         .elements = gradient->elements,
                         .padded = padded(trace, *gradient, workers)});
    out.places.push_back(place);
  }
  return out;
}

struct Gather {
  std::int64_t launched_ns = 0;
  std::int64_t elements = 0;
};

/// One step's groups: the scatter of each gradient, by layer and gradient, and which are gathered again.
struct StepGroups {
  std::vector<std::vector<std::uint32_t>> scatter_of;
  std::vector<bool> is_gathered_again;
  std::uint32_t prefetch = 1;
  std::uint32_t backward_prefetch = 1;
  std::optional<std::uint32_t> own_group_at_end = {};  ///< of the model, scattered after all gradients
  std::string unclear = {};
  auto tie() const {
    return std::tie(scatter_of, is_gathered_again, prefetch, backward_prefetch, own_group_at_end, unclear);
  }
  bool operator<(const StepGroups& other) const { return tie() < other.tie(); }
};

/// Brings the model's own group behind those of modules whose gradients are scattered after the pass, too:
/// the simulation keeps the parameters of the first groups of a backward pass, and of the last one.
void put_own_group_last(StepGroups& of) {
  if (!of.own_group_at_end) return;
  const std::uint32_t own = *of.own_group_at_end;
  const auto last = static_cast<std::uint32_t>(of.is_gathered_again.size() - 1);
  std::rotate(of.is_gathered_again.begin() + own, of.is_gathered_again.begin() + own + 1,
              of.is_gathered_again.end());
  for (std::vector<std::uint32_t>& scatters : of.scatter_of)
    for (std::uint32_t& scatter : scatters)
      scatter = scatter == own ? last : scatter - (scatter > own ? 1 : 0);
}

class Search {
 public:
  Search(const Trace& trace, const Calls& calls)
      : trace_(trace),
        calls_(calls),
        by_step_(calls_by_step(calls)),
        buckets_(buckets_of(trace, calls)),
        reduces_(ranges_of(trace, "FSDP::post_backward_reduce")),
        gathers_(ranges_of(trace, "FSDP::all_gather")),
        forwards_(ranges_of(trace, "FSDP::pre_forward")),
        backwards_(ranges_of(trace, "FSDP::pre_backward")) {
    for (std::size_t i = 0; i < trace.kernels.size(); ++i)
      if (is_scatter(i)) workers_ = std::max(workers_, group_size(trace, trace.kernels[i]));
  }

  bool are_of_fsdp2() const { return !gathers_.empty(); }

  StepGroups of_step(std::int32_t step) const {
    const auto at = static_cast<std::size_t>(step);
    const Gradients gradients = gradients_of(trace_, by_step_[at], std::max<std::int64_t>(1, workers_));
    std::vector<Scatter> scatters;
    std::vector<std::string_view> modules;
    for (const Bucket& bucket : buckets_[at]) {
      // the model's own gradients of the micro-batch before, after the last of its passes
      if (gradients.ready.empty() || bucket.launched_ns < gradients.ready.front().at_ns) continue;
      const ModuleRange* range = around(reduces_, bucket.launched_ns);
      scatters.push_back(
          {.launched_ns = bucket.launched_ns,
           .elements = bucket.elements,
           .from_ns = range == nullptr ? INT64_MIN : backward_begin(calls_.steps[at], range->module),
           .is_of_model = range != nullptr && range->module.empty()});
      modules.push_back(range == nullptr ? "" : range->module);
    }
    StepGroups out;
    const GroupOfEach found = group_of_each(gradients.ready, scatters);
    out.unclear = scatters.empty() ? "it holds no reduce-scatters of known sizes" : found.unclear;
    if (!out.unclear.empty()) return out;
    for (const Call* call : by_step_[at]) out.scatter_of.emplace_back(call->gradients.size());
    for (std::size_t i = 0; i < gradients.places.size(); ++i)
      out.scatter_of[gradients.places[i].layer][gradients.places[i].gradient] = found.scatter[i];
    add_gathers(step, scatters, modules, out);
    for (std::uint32_t i = 0; i < scatters.size(); ++i)
      if (scatters[i].is_of_model && scatters[i].launched_ns >= gradients.ready.back().at_ns)
        out.own_group_at_end = i;
    put_own_group_last(out);
    return out;
  }

 private:
  bool is_scatter(std::size_t kernel) const {
    return calls_.work[kernel].role == Role::communication && !calls_.work[kernel].is_exchange &&
           kind_of(trace_, trace_.kernels[kernel]) == core::CollectiveKind::reduce_scatter;
  }

  /// When a module's backward pass begins in a step; none of its gradients is ready before.
  std::int64_t backward_begin(const Step& step, std::string_view module) const {
    const std::int64_t from_ns = std::max(step.start_ns, step.kept_from_ns);
    for (const ModuleRange& range : backwards_)
      if (range.module == module && range.ran.first >= from_ns && range.ran.first < step.end_ns)
        return range.ran.first;
    return INT64_MIN;
  }

  std::int64_t gathered_elements(const Kernel& kernel) const {
    const Collective& sent = trace_.collectives[static_cast<std::size_t>(kernel.collective)];
    if (sent.out_elements > 0 || workers_ <= 0) return sent.out_elements;
    return sent.in_elements > core::kMaxElements / workers_ ? 0 : sent.in_elements * workers_;
  }

  /// The gathers of the micro-batch that is kept, in the order of their launches.
  std::vector<Gather> gathers_of(std::int32_t step) const {
    std::vector<Gather> out;
    const std::int64_t from_ns = calls_.steps[static_cast<std::size_t>(step)].kept_from_ns;
    for (std::size_t i = 0; i < trace_.kernels.size(); ++i) {
      const Work& work = calls_.work[i];
      if (work.step == step && work.role == Role::communication && !work.is_exchange &&
          work.launched_ns >= from_ns && trace_.kernels[i].collective >= 0 &&
          kind_of(trace_, trace_.kernels[i]) == core::CollectiveKind::all_gather)
        out.push_back({.launched_ns = work.launched_ns, .elements = gathered_elements(trace_.kernels[i])});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Gather& a, const Gather& b) { return a.launched_ns < b.launched_ns; });
    return out;
  }

  std::int64_t first_backward_ns(std::int32_t step) const {
    const std::int64_t from_ns = calls_.steps[static_cast<std::size_t>(step)].kept_from_ns;
    std::int64_t out = INT64_MAX;
    for (const Work& work : calls_.work)
      if (work.step == step && work.role == Role::backward && work.launched_ns >= from_ns)
        out = std::min(out, work.launched_ns);
    return out;
  }

  void add_gathers(std::int32_t step, const std::vector<Scatter>& scatters,
                   const std::vector<std::string_view>& modules, StepGroups& out) const {
    out.is_gathered_again.assign(scatters.size(), false);
    const std::int64_t backward_ns = first_backward_ns(step);
    std::set<std::size_t> forward;
    for (const Gather& gather : gathers_of(step)) {
      const bool is_backward = gather.launched_ns > backward_ns;
      const ModuleRange* range = around(gathers_, gather.launched_ns);
      const auto matches = [&](std::size_t group) {
        const bool is_taken = is_backward ? out.is_gathered_again[group] : forward.count(group) > 0;
        return !is_taken && (range != nullptr ? modules[group] == range->module
                                              : scatters[group].elements == gather.elements);
      };
      std::size_t group = 0;
      while (group < scatters.size() && !matches(group)) ++group;
      if (group == scatters.size()) continue;
      if (is_backward)
        out.is_gathered_again[group] = true;
      else
        forward.insert(group);
      const ModuleRange* pass = around(is_backward ? backwards_ : forwards_, gather.launched_ns);
      if (pass == nullptr || pass->module.empty()) continue;
      const auto reached =
          static_cast<std::size_t>(std::find(modules.begin(), modules.end(), pass->module) - modules.begin());
      std::uint32_t& ahead = is_backward ? out.backward_prefetch : out.prefetch;
      const std::size_t before = is_backward ? group : reached;
      const std::size_t after = is_backward ? reached : group;
      if (reached < modules.size() && before > after)
        ahead = std::max(ahead, static_cast<std::uint32_t>(before - after));
    }
  }

  const Trace& trace_;
  const Calls& calls_;
  CallsByStep by_step_;
  std::vector<std::vector<Bucket>> buckets_;
  ModuleRanges reduces_;
  ModuleRanges gathers_;
  ModuleRanges forwards_;
  ModuleRanges backwards_;
  std::int64_t workers_ = 0;
};

/// The tensors of each group; nothing if a tensor, which may stand for a layer's gradients, is of two.
std::optional<std::vector<core::ShardedGroup>> named(const StepGroups& of,
                                                     const std::vector<core::ProfileLayer>& layers) {
  std::vector<core::ShardedGroup> out(of.is_gathered_again.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i].is_gathered_again = of.is_gathered_again[i];
  for (std::size_t layer = of.scatter_of.size(); layer-- > 0;) {
    const std::vector<std::uint32_t>& scatters = of.scatter_of[layer];
    const std::vector<core::ProfileTensor>& tensors = layers[layer].tensors;
    const bool are_merged = tensors.size() < scatters.size();
    for (std::size_t i = 0; i < scatters.size(); ++i) {
      if (are_merged && scatters[i] != scatters.front()) return {};
      if (are_merged && i > 0) continue;
      out[scatters[i]].tensors.push_back(tensors[tensors.size() - 1 - i].name);
    }
  }
  return out;
}

/// Whether these are the groups that the simulation can keep.
bool can_be_kept(const std::vector<core::ShardedGroup>& groups) {
  const auto again =
      std::find_if(groups.begin(), groups.end(), [](const auto& group) { return group.is_gathered_again; });
  return std::none_of(again, groups.end(), [&](const auto& group) {
    return !group.is_gathered_again && &group != &groups.back();
  });
}

}  // namespace

core::ShardedGroups sharded_groups(const Trace& trace, const Calls& calls,
                                   const std::vector<std::int32_t>& steps,
                                   const std::vector<core::ProfileLayer>& layers) {
  const Search search(trace, calls);
  std::map<StepGroups, int> uses;
  for (const std::int32_t step : steps) ++uses[search.of_step(step)];
  const auto most = std::max_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.unclear.empty(), a.second) < std::pair(b.first.unclear.empty(), b.second);
  });
  if (most == uses.end()) return {};
  const StepGroups& usual = most->first;
  core::ShardedGroups out = {.prefetch = usual.prefetch,
                             .backward_prefetch = usual.backward_prefetch,
                             .are_of_fsdp2 = search.are_of_fsdp2()};
  std::string unclear = usual.unclear;
  if (auto groups = unclear.empty() ? named(usual, layers) : std::nullopt)
    out.groups = *std::move(groups);
  else if (unclear.empty())
    unclear = "layers whose gradients are one tensor are in two groups";
  if (!unclear.empty())
    out.warning = "the trace does not tell the groups of sharded parameters (" + unclear +
                  "): each layer is predicted as a group";
  else if (!can_be_kept(out.groups))
    out.warning =
        "the job keeps parameters after forward amid groups that it gathers again; the prediction gathers "
        "all groups from the first of these on";
  return out;
}

}  // namespace kineto
