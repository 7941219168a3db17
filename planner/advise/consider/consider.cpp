#include "planner/advise/consider.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/advise/consider/break_even.hpp"
#include "planner/advise/consider/candidates.hpp"
#include "planner/advise/consider/variants.hpp"
#include "planner/run/predict.hpp"

namespace planner {
namespace {

using considered::Bandwidths;
using considered::break_even;
using considered::compressed_of;
using considered::described;
using considered::is_sooner;
using considered::Planned;
using considered::planned;
using considered::Variant;

// ---- what is ignored

Conditions calm_of(const Conditions& given) {
  Conditions out = given;
  out.jitter = {};
  out.failures.clear();
  out.fidelity = Fidelity::closed;
  out.links = {};
  out.topology.reset();
  out.channels = 1;
  return out;
}

std::vector<std::string> taken_away(const Conditions& given) {
  std::vector<std::string> out;
  if (given.jitter.any()) out.emplace_back("jitter");
  if (!given.failures.empty()) out.emplace_back("failures");
  if (given.fidelity != Fidelity::closed) out.emplace_back("collectives message by message");
  return out;
}
/// Considers the compressors one by one.
class Considering {
 public:
  Considering(const Setting& setting, const Schedule& schedule, const ConsiderOptions& options)
      : setting_(setting),
        options_(options),
        dense_schedule_(considered::dense_of(schedule)),
        bandwidths_(setting, dense_schedule_),
        dense_(planned(setting, dense_schedule_, {}, 1)) {
    const core::Network& network = *setting.network;
    out_.model = setting.workload.profile->model;
    out_.workers = setting.costs.workers();
    out_.network = network.name;
    out_.line_rate_gbps = network.line_rate_gbps;
    out_.pipeline = schedule.pipeline->name;
    out_.candidates.push_back(dense_.candidate);
  }

  /// Adds one compressor at all its densities.
  void add(const std::vector<Variant>& variants) {
    const std::string& label = variants.front().label;
    const std::string why = considered::obstacle(setting_, dense_schedule_, variants.front());
    if (!why.empty()) return out_.left_out.push_back({.compressor = label, .why = why});
    std::vector<Planned> whole;
    try {
      for (const Variant& variant : variants)
        whole.push_back(planned(setting_, compressed_of(dense_schedule_, variant.compressor, false), variant,
                                considered::factor_of(options_, variant)));
    } catch (const Unsupported& problem) {
      return out_.left_out.push_back(
          {.compressor = label, .why = fmt::format("expected {}", problem.expected())});
    }
    add(variants, whole);
  }

  Consideration finished() && {
    choose_exactly();
    for (std::size_t i = 1; i < out_.candidates.size(); ++i) {
      const Candidate& candidate = out_.candidates[i];
      if (is_sooner(candidate.weighed_us, out_.candidates.front().weighed_us) &&
          candidate.weighed_us < out_.candidates[out_.best].weighed_us)
        out_.best = i;
    }
    if (out_.candidates[out_.best].is_per_group) {
      const auto choice = std::ranges::find(choices_, out_.best, &Choice::candidate);
      out_.break_even.push_back(break_even(bandwidths_, out_.candidates[out_.best], choice->factor));
    }
    add_warnings();
    return std::move(out_);
  }

 private:
  /// A candidate whose groups may also be sent uncompressed.
  struct Choice {
    std::size_t candidate = 0;
    Variant variant;
    double factor = 1;
  };

  struct KnownBreakEven {
    Compressor unnamed;
    double factor = 1;
    BreakEven answer;
  };

  void add(const std::vector<Variant>& variants, const std::vector<Planned>& whole) {
    const auto is_weighed = [&](const ExtraIterations& extra) {
      return extra.compressor == variants.front().compressor.name;
    };
    if (std::ranges::none_of(options_.extra, is_weighed)) out_.unweighed.push_back(variants.front().label);
    const auto best = std::ranges::min_element(whole, [](const Planned& a, const Planned& b) {
      return a.candidate.weighed_us < b.candidate.weighed_us;
    });
    const Variant& variant = variants[static_cast<std::size_t>(best - whole.begin())];
    const double factor = considered::factor_of(options_, variant);
    for (const Planned& each : whole) {
      out_.candidates.push_back(each.candidate);
      if (&each == &*best && dense_schedule_.fusion.kind == "optimal") add_choice(each, variant, factor);
    }
    out_.break_even.push_back(break_even_of(best->candidate, factor));
  }

  /// Reuses the result of an earlier compressor that differs only in its name.
  BreakEven break_even_of(const Candidate& candidate, double factor) {
    Compressor unnamed = candidate.schedule.compressor;
    if (!unnamed.sparse) unnamed.name = "x";  // the name of a sparse all-reduce determines its cost
    for (const KnownBreakEven& known : known_) {
      if (known.unnamed != unnamed || known.factor != factor) continue;
      BreakEven out = known.answer;
      out.compressor = candidate.compressor;
      out.density = candidate.density;
      return out;
    }
    known_.push_back(
        {.unnamed = unnamed, .factor = factor, .answer = break_even(bandwidths_, candidate, factor)});
    return known_.back().answer;
  }

  /// Adds a per-group choice from a heuristic search.
  void add_choice(const Planned& whole, const Variant& variant, double factor) {
    const Schedule schedule = compressed_of(dense_schedule_, variant.compressor, true);
    const FusionRequest request = request_of(setting_, schedule);
    const Groups groups = considered::quick_choice(request, dense_.plan, whole.plan);
    choices_.push_back({.candidate = out_.candidates.size(), .variant = variant, .factor = factor});
    Candidate candidate = described(request, schedule, groups, variant, factor);
    candidate.is_per_group = true;
    candidate.optimality_gap_us = std::max(0.0, candidate.iteration_us - lower_bound_us(request));
    out_.candidates.push_back(std::move(candidate));
  }

  /// Plans choices exactly, the most promising first. If the channel is nearly as busy as compute, this takes
  /// thousands of times the work of planning all groups compressed.
  void choose_exactly() {
    double work = 0;
    for (std::vector<Choice> left = choices_; !left.empty() && work < options_.effort.max;) {
      const auto next = std::ranges::min_element(left, [&](const Choice& a, const Choice& b) {
        return out_.candidates[a.candidate].weighed_us < out_.candidates[b.candidate].weighed_us;
      });
      const Choice choice = *next;
      left.erase(next);
      if (work < options_.effort.some || may_be_best(choice)) work += choose_exactly(choice, left);
    }
  }

  bool may_be_best(const Choice& choice) const {
    const Candidate& quick = out_.candidates[choice.candidate];
    const double min_us = quick.iteration_us - quick.optimality_gap_us;
    return std::ranges::none_of(out_.candidates, [&](const Candidate& other) {
      return other.weighed_us <= min_us * std::min(choice.factor, 1.0) ||
             (other.weighed_us < out_.candidates.front().weighed_us &&
              other.weighed_us <= min_us * choice.factor);
    });
  }

  /// Plans one choice exactly and tries its groups for the remaining ones. Returns the effort spent.
  double choose_exactly(const Choice& choice, const std::vector<Choice>& left) {
    Planned exact =
        planned(setting_, out_.candidates[choice.candidate].schedule, choice.variant, choice.factor);
    for (const Choice& other : left) {
      const Schedule schedule = out_.candidates[other.candidate].schedule;
      const FusionRequest request = request_of(setting_, schedule);
      if (request.transfers.size() == exact.plan.transfers.size())
        replace(other, request, considered::with_better_transfers(request, exact.plan.groups));
    }
    Candidate& quick = out_.candidates[choice.candidate];
    if (exact.candidate.iteration_us <= quick.iteration_us) {
      quick = std::move(exact.candidate);
      quick.is_per_group = true;
    }
    return exact.work;
  }

  /// Replaces the groups of a choice if the new ones are faster.
  void replace(const Choice& choice, const FusionRequest& request, const Groups& groups) {
    Candidate& quick = out_.candidates[choice.candidate];
    Candidate other = described(request, quick.schedule, groups, choice.variant, choice.factor);
    if (other.iteration_us >= quick.iteration_us) return;
    other.is_per_group = true;
    other.optimality_gap_us = quick.optimality_gap_us - (quick.iteration_us - other.iteration_us);
    quick = std::move(other);
  }

  void add_warnings() {
    out_.warnings = run(setting_, dense_schedule_).warnings;
    if (out_.best == 0) return;
    Schedule best = out_.candidates[out_.best].schedule;
    best.fusion.choices = considered::collective_choices(best);
    for (Warning& warning : run(setting_, best).warnings) out_.warnings.push_back(std::move(warning));
  }

  const Setting& setting_;
  const ConsiderOptions& options_;
  Schedule dense_schedule_;
  Bandwidths bandwidths_;
  Planned dense_;
  std::vector<Choice> choices_;
  std::vector<KnownBreakEven> known_;
  Consideration out_;
};

void check_densities(const ConsiderOptions& options) {
  for (const ExtraIterations& extra : options.extra)
    if (extra.density && std::ranges::find(options.densities, *extra.density) == options.densities.end())
      throw core::InputError(fmt::format("--extra-iterations: expected one of the densities {}, got '{}'",
                                         fmt::join(options.densities, ", "), *extra.density));
}
}  // namespace

Consideration consider(const Setting& setting, const Schedule& schedule, const ConsiderOptions& options) {
  check_densities(options);
  const Setting calm(*setting.workload.profile, *setting.network, setting.costs.workers(),
                     setting.costs.algorithm(), calm_of(setting.conditions));
  Considering considering(calm, schedule, options);
  std::vector<std::vector<Variant>> all;
  if (calm.costs.workers() > 1) all = considered::all_variants(calm, options);
  const auto on_step = [&](const std::string& what) {
    if (options.progress) options.progress(all.size() + 1, what);
  };
  for (const std::vector<Variant>& variants : all) {
    on_step(variants.front().label);
    considering.add(variants);
  }
  on_step("the best choice for each group");
  Consideration out = std::move(considering).finished();
  out.taken_away = taken_away(setting.conditions);
  return out;
}

}  // namespace planner
