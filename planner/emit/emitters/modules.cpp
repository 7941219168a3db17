#include "planner/emit/emitters/modules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "planner/job/names.hpp"

namespace planner {
namespace {

using core::is_below;
using Cuts = std::set<std::uint32_t>;

/// The module in which a gradient's parameter is: `module`, or one below it, a call for which would take it.
std::string holder_of(const Workload& workload, std::uint32_t gradient, const std::string& module) {
  std::string holder = enclosing(tensor_name(workload, gradient));
  return is_below(holder, module) ? holder : module;
}

struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// The modules of a model, by the owner of each gradient.
struct Modules {
  Nesting nesting;
  std::vector<std::string> owners;  ///< by gradient, in backward order: the module that is called
  /// By gradient: modules that train nothing and travel with it, in forward order; the second list is used
  /// after it.
  std::vector<std::array<std::vector<std::string>, 2>> frozen;
  std::map<std::string, Span> owned;    ///< from a module's first own gradient to its last
  std::map<std::string, Span> covered;  ///< the same, including all modules below
  std::set<std::string> called = {};    ///< if the profile names any: others are not known to be called
  std::set<std::string> shared = {};    ///< hold gradients of another process group, too
  std::optional<Tied> tied = {};        ///< only where modules may be named with others of their group

  Modules(const Workload& workload, Nesting its_nesting) : nesting(its_nesting) {
    if (nesting == Nesting::allowed) tied = planner::tied(workload);
    const auto add = [](std::map<std::string, Span>& spans, const std::string& module, std::uint32_t i) {
      Span& span = spans.try_emplace(module, Span{.begin = i, .end = i + 1}).first->second;
      span = {.begin = std::min(span.begin, i), .end = std::max(span.end, i + 1)};
    };
    for (const core::ProfileLayer& layer : workload.profile->layers)
      if (layer.module) called.insert(*layer.module);
    const std::vector<std::string> holders = find_owners(workload);
    for (std::uint32_t i = 0; i < owners.size(); ++i) {
      if (is_named(owners[i])) add(owned, owners[i], i);
      for (std::string above = holders[i]; !above.empty(); above = enclosing(above)) add(covered, above, i);
      add(covered, "", i);
    }
    find_frozen(workload);
    for (std::uint32_t i = 0; i < owners.size(); ++i)
      for (const std::vector<std::string>& modules : frozen[i])
        for (const std::string& module : modules)
          for (std::string above = module; !above.empty(); above = enclosing(above)) add(covered, above, i);
  }

  /// What the model itself has and does not train is left to the last call.
  void find_frozen(const Workload& workload) {
    frozen.resize(workload.gradients.size());
    for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
      const Gradient& at = workload.gradients[i];
      for (std::uint32_t layer = at.first_layer; layer <= at.last_layer; ++layer) {
        const core::ProfileLayer& of = workload.profile->layers[layer];
        const std::string& module = of.module ? *of.module : of.name;
        if (layer != at.layer && of.frozen_elements > 0 && !module.empty())
          frozen[i][layer > at.layer ? 1 : 0].push_back(module);
      }
    }
  }

  /// Sets `owners`, and returns the modules in which the parameters are. A call for one of these, or for one
  /// between it and the owner, would take the parameter, so that the owner also stands for such modules.
  std::vector<std::string> find_owners(const Workload& workload) {
    std::map<std::string, std::string> stand_in;
    std::vector<std::string> holders;
    for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
      const std::uint32_t gradient = tied ? neighbour(workload, i) : i;
      owners.push_back(module_of(workload, gradient));
      holders.push_back(holder_of(workload, gradient, owners.back()));
      for (std::string below = holders.back(); below != owners.back(); below = enclosing(below)) {
        std::string& owner = stand_in.try_emplace(below, owners.back()).first->second;
        if (is_below(owner, owners.back())) owner = owners.back();
      }
    }
    for (std::string& owner : owners)
      for (auto found = stand_in.find(owner); found != stand_in.end(); found = stand_in.find(owner))
        owner = found->second;
    return holders;
  }

  /// The gradient whose group this one is counted to.
  std::uint32_t neighbour(const Workload& workload, std::uint32_t i) const {
    const auto is_carried = [&](std::uint32_t gradient) {
      return std::ranges::find(tied->carried, gradient) != tied->carried.end();
    };
    while (is_carried(i) && i + 1 < workload.gradient_count()) ++i;
    return i;  // the weight itself is not carried, nor is any gradient after it
  }

  bool is_group_of_tied(const Group& group) const {
    return tied && group.begin <= tied->weight && tied->weight < group.end;
  }
  /// Whether a call for this group cannot name the module, as it would take modules that are tied to another.
  bool takes_tied(const std::string& module, const Group& group) const {
    return tied && !is_group_of_tied(group) &&
           std::ranges::any_of(tied->modules, [&](const auto& below) { return is_below(below, module); });
  }

  bool is_called(const std::string& module) const {
    return module.empty() || called.empty() || called.contains(module);
  }

  bool is_named(const std::string& module) const { return !module.empty() || nesting == Nesting::allowed; }

  /// The gradients that no call takes, unless another module's gradients lie on both sides of them.
  std::vector<std::uint32_t> alone() const {
    std::vector<std::uint32_t> out;
    for (std::uint32_t i = 0; i < owners.size(); ++i)
      if (!is_named(owners[i]) && cut_by(i) == nullptr) out.push_back(i);
    return out;
  }

  /// The module that a boundary before this gradient would split; null if none.
  const std::string* cut_by(std::uint32_t boundary) const {
    for (const auto& [module, span] : owned)
      if (span.begin < boundary && boundary < span.end) return &module;
    return nullptr;
  }
};

Cuts cuts_of(const Groups& groups) {
  Cuts out;
  for (const Group& group : groups) out.insert(group.end);
  return out;
}

Groups groups_of(const Cuts& cuts) {
  Groups out;
  for (const std::uint32_t cut : cuts) out.push_back({.begin = out.empty() ? 0 : out.back().end, .end = cut});
  return out;
}

/// The nearest boundaries on both sides that split no module.
Span sides_of(const Modules& modules, std::uint32_t boundary) {
  Span out{.begin = boundary, .end = boundary};
  while (modules.cut_by(out.begin) != nullptr) --out.begin;
  while (modules.cut_by(out.end) != nullptr) ++out.end;
  return out;
}

Groups without_cuts_inside(const Cuts& kept, const std::vector<std::uint32_t>& moved) {
  Cuts cuts = kept;
  cuts.insert(moved.begin(), moved.end());
  cuts.erase(0);
  return groups_of(cuts);
}

/// The plan's groups with boundaries that split no module, and around what is alone. Each boundary that
/// splits one moves to the side nearer in bytes, then, one by one, to the other side if that makes the
/// iteration faster.
Groups whole_modules(const Report& report, const Modules& modules) {
  const EmitRequest& request = report.request();
  Cuts kept;
  std::vector<Span> sides;
  std::vector<std::uint32_t> moved;
  const std::vector<std::int64_t>& bytes = request.workload.bytes_before;
  for (const std::uint32_t gradient : modules.alone()) kept.insert({gradient, gradient + 1});
  for (const std::uint32_t cut : cuts_of(request.groups)) {
    if (modules.cut_by(cut) == nullptr) {
      kept.insert(cut);
      continue;
    }
    const Span side = sides_of(modules, cut);
    sides.push_back(side);
    moved.push_back(bytes[cut] - bytes[side.begin] <= bytes[side.end] - bytes[cut] ? side.begin : side.end);
  }
  Groups best = without_cuts_inside(kept, moved);
  double best_us = moved.empty() ? 0 : report.iteration_us(best);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    std::vector<std::uint32_t> other = moved;
    other[i] = moved[i] == sides[i].begin ? sides[i].end : sides[i].begin;
    Groups groups = without_cuts_inside(kept, other);
    const double us = report.iteration_us(groups);
    if (us >= best_us) continue;
    moved = std::move(other);
    best = std::move(groups);
    best_us = us;
  }
  return best;
}

/// The largest modules that hold only gradients of this group and may be named, in forward order.
std::vector<std::string> wrapped(const Modules& modules, const Group& group) {
  std::vector<std::string> out;
  const auto add = [&](std::string largest) {
    for (std::string module = largest; !module.empty();) {
      module = enclosing(module);
      if (!modules.is_named(module) || modules.shared.contains(module) || modules.takes_tied(module, group))
        break;
      const Span& span = modules.covered.at(module);
      if (group.begin <= span.begin && span.end <= group.end && modules.is_called(module)) largest = module;
    }
    if (modules.is_named(largest) && std::ranges::find(out, largest) == out.end())
      out.push_back(std::move(largest));
  };
  for (std::uint32_t i = group.end; i-- > group.begin;) {
    for (const std::string& before : modules.frozen[i].front()) add(before);
    add(modules.owners[i]);
    for (const std::string& after : modules.frozen[i].back()) add(after);
  }
  if (modules.is_group_of_tied(group))
    out.insert(out.end(), modules.tied->modules.begin(), modules.tied->modules.end());
  return out;
}

/// Removes modules below another module of the list: fully_shard() on the upper ones takes them too.
std::vector<std::string> topmost(std::vector<std::string> modules) {
  const std::vector<std::string> all = modules;
  std::erase_if(modules, [&](const std::string& module) {
    return std::ranges::any_of(
        all, [&](const std::string& other) { return other != module && is_below(module, other); });
  });
  return modules;
}

/// Calls in an order that gives each group its modules: lower modules before upper ones. If no such order
/// exists, the groups that block each other.
struct Wraps {
  std::vector<Wrap> calls;
  std::vector<std::size_t> stuck;
};

bool must_wait(const Wrap& wrap, const Wrap& other) {
  for (const std::string& upper : wrap.modules)
    for (const std::string& lower : other.modules)
      if (is_below(lower, upper)) return true;
  return false;
}

/// The calls, of those that all have to wait, on which others wait.
std::vector<Wrap> cycles(std::vector<Wrap> waiting) {
  const auto nobody_waits = [&](const Wrap& wrap) {
    return std::ranges::none_of(
        waiting, [&](const Wrap& other) { return other.group != wrap.group && must_wait(other, wrap); });
  };
  while (true) {
    const auto found = std::ranges::find_if(waiting, nobody_waits);
    if (found == waiting.end()) return waiting;
    waiting.erase(found);
  }
}

Wraps order(std::vector<Wrap> waiting) {
  Wraps out;
  while (!waiting.empty()) {
    const auto next = std::ranges::find_if(waiting, [&](const Wrap& wrap) {
      return std::ranges::none_of(
          waiting, [&](const Wrap& other) { return other.group != wrap.group && must_wait(wrap, other); });
    });
    if (next == waiting.end()) {
      for (const Wrap& wrap : cycles(std::move(waiting))) out.stuck.push_back(wrap.group);
      return out;
    }
    out.calls.push_back(std::move(*next));
    waiting.erase(next);
  }
  return out;
}

/// The groups that the calls make, in backward order; a gradient that none takes is alone.
Groups made_by(const Modules& modules, const std::vector<Wrap>& calls) {
  std::vector<std::size_t> taken(modules.owners.size(), calls.size());
  for (std::size_t c = 0; c < calls.size(); ++c)
    for (std::size_t i = 0; i < taken.size(); ++i)
      if (taken[i] == calls.size() && std::ranges::any_of(calls[c].modules, [&](const std::string& module) {
            return is_below(modules.owners[i], module);
          }))
        taken[i] = c;
  Groups out;
  for (std::uint32_t i = 0; i < taken.size(); ++i)
    if (i > 0 && taken[i] == taken[i - 1] && taken[i] < calls.size())
      out.back().end = i + 1;
    else
      out.push_back({.begin = i, .end = i + 1});
  return out;
}

/// The groups that hold modules of one another.
std::vector<std::size_t> nested(const std::vector<Wrap>& calls) {
  std::vector<std::size_t> out;
  for (const Wrap& wrap : calls)
    if (std::ranges::any_of(calls, [&](const Wrap& other) {
          return other.group != wrap.group && (must_wait(wrap, other) || must_wait(other, wrap));
        }))
      out.push_back(wrap.group);
  std::ranges::sort(out);
  return out;
}

/// The calls for these groups; joins groups that cannot be separated.
Wraps wraps_for(const Modules& modules, Groups& groups) {
  while (true) {
    std::vector<Wrap> calls;
    for (std::size_t i = 0; i < groups.size(); ++i)
      calls.push_back({.modules = wrapped(modules, groups[i]), .group = i});
    Wraps wraps = order(std::move(calls));
    if (wraps.stuck.empty() && modules.nesting == Nesting::none) wraps.stuck = nested(wraps.calls);
    if (wraps.stuck.empty()) {
      for (Wrap& wrap : wraps.calls) wrap.modules = topmost(std::move(wrap.modules));
      return wraps;
    }
    Cuts cuts = cuts_of(groups);
    for (std::size_t i = wraps.stuck.front(); i < wraps.stuck.back(); ++i) cuts.erase(groups[i].end);
    groups = groups_of(cuts);
  }
}

/// The workload with the gradients of the first that the second does not have.
Workload without(const Workload& all, const Workload& some) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (const Gradient& gradient : some.gradients) taken.insert({gradient.layer, gradient.tensor});
  Workload out = all;
  std::erase_if(out.gradients, [&](const Gradient& gradient) {
    return taken.contains({gradient.layer, gradient.tensor});
  });
  return out;
}

std::vector<std::string> whys(const Modules& modules, const Groups& planned) {
  const std::vector<std::uint32_t> alone = modules.alone();
  std::vector<std::string> out;
  for (const Group& group : planned) {
    const std::string* at_begin = modules.cut_by(group.begin);
    const std::string* at_end = modules.cut_by(group.end);
    const std::string* module = at_end != nullptr ? at_end : at_begin;
    const bool has_alone = std::ranges::any_of(
        alone, [&](std::uint32_t gradient) { return group.begin <= gradient && gradient < group.end; });
    out.push_back(module != nullptr ? fmt::format("cuts through module {}", in_quotes(*module))
                  : has_alone       ? "holds a parameter of the model itself"
                                    : "");
  }
  return out;
}

}  // namespace

ModuleUnits module_units(const Workload& workload, Nesting nesting) {
  const Modules modules(workload, nesting);
  ModuleUnits out = {.alone = modules.alone()};
  for (const auto& [module, span] : modules.owned)
    out.whole.push_back({.begin = span.begin, .end = span.end});
  return out;
}

Groups formed_by_modules(const Workload& workload, Groups groups, Nesting nesting) {
  const Modules modules(workload, nesting);
  return made_by(modules, wraps_for(modules, groups).calls);
}

std::vector<std::string> modules_of_others(const Workload& part, const Workload& workload) {
  const Workload others = without(part, workload);
  std::vector<std::string> out;
  for (std::uint32_t i = others.gradient_count(); i-- > 0;) {
    std::string module = module_of(others, i);
    if (std::ranges::find(out, module) == out.end()) out.push_back(std::move(module));
  }
  return out;
}

ModuleGroups module_groups(const Report& report, Nesting nesting) {
  Modules modules(report.request().workload, nesting);
  // modules of experts are taken first, so that all others can be taken by the modules around them
  if (const Division* division = report.request().division; division != nullptr && division->of_experts)
    for (std::string module : modules_of_others(division->part, report.request().workload)) {
      modules.shared.insert("");
      for (; !module.empty(); module = enclosing(module)) modules.shared.insert(module);
    }
  ModuleGroups out;
  out.groups = whole_modules(report, modules);
  out.calls = wraps_for(modules, out.groups).calls;
  out.groups = made_by(modules, out.calls);
  out.whys = whys(modules, report.request().groups);
  return out;
}

}  // namespace planner
