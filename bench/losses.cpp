// Prints docs/planners.md: how much longer an iteration takes with each planner than with the exact plan,
// over models, links and numbers of workers. Run build/fusewise_losses from a release build; exits with 1 if
// any planner beats an exact plan.

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/inputs.hpp"
#include "core/estimate/estimate.hpp"
#include "core/model/model.hpp"
#include "core/statistics.hpp"
#include "planner/choose/cupcake.hpp"
#include "planner/choose/fusion/knobs.hpp"
#include "planner/choose/search.hpp"
#include "planner/job/registry.hpp"
#include "planner/run/predict.hpp"

namespace {

using planner::FusionRequest;
using planner::Groups;
using planner::Setting;
using sim::Time;

// ---- the planners

constexpr std::array<std::int64_t, 9> kWorkers = {8, 16, 32, 64, 128, 256, 512, 1024, 2048};
constexpr std::int64_t kShownWorkers = 64;

struct Link {
  int gbps = 0;
  double alpha_us = 0;

  core::Network network() const { return bench::network_of(alpha_us, 8e-3 / gbps, 0); }
};
constexpr std::array<Link, 4> kLinks = {{{1, 30.3}, {10, 30.3}, {25, 30.3}, {100, 7.9}}};

struct Model {
  std::string title;
  core::Profile profile;
};

core::Profile estimated(const std::string& name) {
  const std::string path = fmt::format("{}/models/{}.json", FUSEWISE_SOURCE_DIR, name);
  return core::estimate(core::read_model(core::Field::load(path)), *core::device("v100"));
}

std::vector<Model> all_models() {
  return {{"ResNet-50", bench::bundled_profile("resnet50-v100")},
          {"ResNet-101", estimated("resnet101")},
          {"BERT-Base", bench::bundled_profile("bert-base-v100")},
          {"BERT-Large", estimated("bert-large")},
          {"VGG-16", bench::bundled_profile("vgg16-v100")},
          {"GPT-2", bench::bundled_profile("gpt2-v100")},
          {"GoogleNet", bench::bundled_profile("googlenet-k80-parameters")}};
}

/// The result of a planner.
struct PlannerResult {
  Groups groups;
  bool is_stopped = false;  ///< by a limit: the best so far
};

struct Planner {
  std::string title;
  std::function<PlannerResult(const FusionRequest&)> plan;
  bool is_selective = false;  ///< compresses only if that is faster
};

/// Planners of one pipeline and compressor, all compared with its exact plan.
struct Family {
  std::string title;
  std::string note;
  std::string schedule;  ///< keys of a schedule object
  std::vector<Planner> planners;

  planner::Schedule own_schedule(bool selective = false) const {
    return bench::schedule_of(fmt::format("{{{}{}}}", schedule, selective ? R"(, "selective": true)" : ""));
  }
};

/// A planner from a fusion as in a scenario.
Planner by_fusion(std::string title, const std::string& json, bool is_selective = false) {
  return {
      .title = std::move(title),
      .plan =
          [fusion = planner::read_fusion(core::Field::parse(json, "bench"))](const FusionRequest& request) {
            return PlannerResult{.groups = fusion.fuse(request).groups};
          },
      .is_selective = is_selective};
}

/// As the fusion `cupcake` states the problem, but returns the best so far when it is stopped.
PlannerResult cupcake_until(std::uint64_t max_nodes, const FusionRequest& request) {
  const planner::TransferCost& transfer = request.transfers.front();
  const planner::Workload& workload = request.workload;
  planner::CupcakeInstance instance;
  instance.count = workload.gradient_count();
  for (const planner::Gradient& gradient : workload.gradients) instance.ready.push_back(gradient.ready);
  instance.backward_end = workload.backward_total;
  const auto bytes = [&](std::uint32_t begin, std::uint32_t end) {
    return workload.bytes_before[end] - workload.bytes_before[begin];
  };
  instance.encode = [&](std::uint32_t begin, std::uint32_t end) {
    return transfer.encode(bytes(begin, end)) + transfer.decode(bytes(begin, end));
  };
  instance.communicate = [&](std::uint32_t begin, std::uint32_t end) {
    return transfer.time(core::CollectiveKind::all_reduce, bytes(begin, end));
  };
  planner::CupcakeResult result = planner::cupcake(instance, {.max_nodes = max_nodes});
  return {.groups = std::move(result.groups), .is_stopped = !result.finished};
}

Family under_backward() {
  return {.title = "Under backward (`wfbp`)",
          .note =
              "DDP: 25 MiB, first 1 MiB. Horovod: 128 MiB, 1 ms, ticks going on while the channel is busy; "
              "autotuned: the\n"
              "best of 0 to 64 MiB and 1 to 100 ms. Swept: the best of all caps or counts.",
          .schedule = R"("pipeline": "wfbp")",
          .planners = {by_fusion("no fusion", R"("none")"), by_fusion("one group", R"("all")"),
                       by_fusion("MG-WFBP", R"("mg-wfbp")"),
                       by_fusion("DDP", R"({"kind": "buckets", "first_cap_bytes": 1048576})"),
                       by_fusion("Horovod", R"({"kind": "threshold", "cycle_us": 1000})"),
                       by_fusion("Horovod autotuned", R"("autotune")"),
                       by_fusion("buckets swept", R"({"kind": "sweep", "of": "buckets"})"),
                       by_fusion("even split swept", R"({"kind": "sweep", "of": "groups"})")}};
}

Family dear() {
  return {.title = "DeAR (`dear`)",
          .note = "Bayesian: over caps of 1 to 100 MB. Swept: the best of all caps.",
          .schedule = R"("pipeline": "dear")",
          .planners = {by_fusion("no fusion", R"("none")"), by_fusion("4 layers (`dear-nl`)", R"("layers")"),
                       by_fusion("5 MiB (`dear-fb`)", R"({"kind": "modules", "cap_bytes": 5242880})"),
                       by_fusion("Bayesian, 10 probes (`dear`)", R"("bayesian")"),
                       by_fusion("modules swept", R"({"kind": "sweep", "of": "modules"})")}};
}

Family compressed() {
  constexpr std::uint64_t kMaxNodes = 5'000'000;
  return {.title = "Compressed by DGC, under backward",
          .note =
              "1 % of the elements, 2 % of the bytes, gathered from all workers. HiPress compresses where\n"
              "that is sooner and is compared with the exact plan that does so. Cupcake's search ends after\n"
              "5,000,000 nodes: in parentheses how often it did; its best so far then counts.",
          .schedule = R"("pipeline": "wfbp", "compression": "dgc")",
          .planners = {by_fusion("GRACE", R"("none")"),
                       by_fusion("HiPress", R"("none")", true),
                       by_fusion("buckets swept", R"({"kind": "sweep", "of": "buckets"})"),
                       by_fusion("even split swept", R"({"kind": "sweep", "of": "groups"})"),
                       {.title = "Cupcake's Algorithm 1", .plan = [](const FusionRequest& request) {
                          return cupcake_until(kMaxNodes, request);
                        }}}};
}

// ---- the comparison

/// Results that must not occur: counted, and reported on stderr.
struct Violations {
  int beaten = 0;   ///< exact plans
  int inexact = 0;  ///< plans of the exact planner without a proof
};

/// The losses of one planner in one row of a table.
struct Losses {
  std::vector<double> percent;
  int stopped = 0;

  void add(const Losses& other) {
    percent.insert(percent.end(), other.percent.begin(), other.percent.end());
    stopped += other.stopped;
  }
};

std::string shown(double percent) {
  if (percent == 0) return "0";
  return percent < 9.95 ? fmt::format("{:.1f}", percent) : fmt::format("{:.0f}", percent);
}

std::string shown(const Losses& losses) {
  std::string out = fmt::format("{} / {}", shown(core::quantile(losses.percent, 0.5)),
                                shown(*std::ranges::max_element(losses.percent)));
  if (losses.stopped > 0) out += fmt::format(" ({})", losses.stopped);
  return out;
}

/// A pipeline and compressor on one number of workers, with its exact plan.
struct Exact {
  planner::Schedule schedule;
  FusionRequest request;
  planner::OptimalGroups plan;

  Exact(const Setting& setting, planner::Schedule its_schedule, Violations& violations)
      : schedule(std::move(its_schedule)),
        request(planner::request_of(setting, schedule)),
        plan(request.model().optimal({})) {
    if (plan.optimality_gap > Time::zero()) ++violations.inexact;
  }

  double percent_over(Time time) const {
    return 100 * (static_cast<double>(time.count()) / static_cast<double>(plan.value.count()) - 1);
  }
};

std::vector<Losses> row_of(const Family& family, const Model& model, const Link& link,
                           Violations& violations) {
  const core::Network network = link.network();
  std::vector<Losses> row(family.planners.size());
  for (const std::int64_t workers : kWorkers) {
    const Setting setting(model.profile, network, workers, {}, {});
    const Exact exact(setting, family.own_schedule(), violations);
    std::optional<Exact> selective;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Planner& planner = family.planners[i];
      if (planner.is_selective && !selective)
        selective.emplace(setting, family.own_schedule(true), violations);
      const Exact& against = planner.is_selective ? *selective : exact;
      const PlannerResult found = planner.plan(against.request);
      const Time time = planner::evaluate(against.request, found.groups);
      if (time < against.plan.value) {
        ++violations.beaten;
        fmt::print(stderr, "{} beats the exact plan: {}, {} Gb/s, {} workers\n", planner.title, model.title,
                   link.gbps, workers);
      }
      row[i].percent.push_back(against.percent_over(time));
      row[i].stopped += found.is_stopped ? 1 : 0;
    }
  }
  return row;
}

void print_row(const std::string& first, const std::string& second, const std::vector<Losses>& row) {
  fmt::print("| {} | {} |", first, second);
  for (const Losses& losses : row) fmt::print(" {} |", shown(losses));
  fmt::print("\n");
}

void print_family(const Family& family, const std::vector<Model>& models, Violations& violations) {
  fmt::print("\n## {}\n{}\n\n| model | Gb/s |", family.title, family.note);
  for (const Planner& planner : family.planners) fmt::print(" {} |", planner.title);
  fmt::print("\n| --- | ---: |");
  for (std::size_t i = 0; i < family.planners.size(); ++i) fmt::print(" ---: |");
  fmt::print("\n");
  std::vector<Losses> all(family.planners.size());
  for (const Model& model : models) {
    for (const Link& link : kLinks) {
      const std::vector<Losses> row = row_of(family, model, link, violations);
      print_row(model.title, fmt::to_string(link.gbps), row);
      for (std::size_t i = 0; i < row.size(); ++i) all[i].add(row[i]);
    }
  }
  print_row("all", "", all);
}

// ---- absolute times

void print_absolute(const std::vector<Family>& families, const std::vector<Model>& models,
                    Violations& violations) {
  fmt::print(
      "\n## The exact plans themselves\n"
      "Milliseconds an iteration on {} workers, and after the slash what no grouping can beat under that "
      "pipeline.\n"
      "\n| model | Gb/s | compute alone |",
      kShownWorkers);
  for (const Family& family : families) fmt::print(" {} |", family.title);
  fmt::print("\n| --- | ---: | ---: |");
  for (std::size_t i = 0; i < families.size(); ++i) fmt::print(" ---: |");
  fmt::print("\n");
  for (const Model& model : models) {
    for (const Link& link : kLinks) {
      const core::Network network = link.network();
      const Setting setting(model.profile, network, kShownWorkers, {}, {});
      fmt::print("| {} | {} | {:.1f} |", model.title, link.gbps,
                 sim::to_us(setting.workload.forward_total + setting.workload.backward_total) / 1e3);
      for (const Family& family : families) {
        const Exact exact(setting, family.own_schedule(), violations);
        fmt::print(" {:.1f} / {:.1f} |", sim::to_us(exact.plan.value) / 1e3,
                   sim::to_us(exact.request.model().lower_bound()) / 1e3);
      }
      fmt::print("\n");
    }
  }
}

// ---- searches

constexpr std::size_t kMaxProbes = 30;

/// Statistics of searches for the best cap, over all cases.
struct SearchStatistics {
  double probes = 0;  ///< sum of the probes until within 1 %
  double excess = 0;  ///< sum of the per cent over the best cap after 10 probes
  double worst = 0;
  int at_once = 0;  ///< within 1 % by the first probe
  int never = 0;    ///< not within kMaxProbes, which then counts as the number of probes
  int searches = 0;

  /// `needed`: probes until within 1 %; none: never.
  void add(std::optional<std::size_t> needed, double percent_after_ten) {
    ++searches;
    probes += static_cast<double>(needed.value_or(kMaxProbes));
    excess += percent_after_ten;
    worst = std::max(worst, percent_after_ten);
    if (needed == 1) ++at_once;
    if (!needed) ++never;
  }

  std::string row(const char* name) const {
    const double all = searches;
    return fmt::format("| {} | {:.1f} | {:.0f} % | {:.0f} % | {:.2f} / {:.1f} |\n", name, probes / all,
                       100 * at_once / all, 100 * never / all, excess / all, worst);
  }
};

/// The iteration time of module packing under DeAR as a function of its cap.
struct CapCurve {
  const FusionRequest& request;
  const planner::Knob& modules = planner::entry(planner::knobs(), "modules");
  double best = 0;

  explicit CapCurve(const FusionRequest& its_request) : request(its_request) {
    const auto fusion = planner::read_fusion(core::Field::parse(
        R"({"kind": "sweep", "of": "modules", "from_bytes": 1000000, "to_bytes": 100000000})", "bench"));
    best = static_cast<double>(planner::evaluate(request, fusion.fuse(request).groups).count());
  }

  double operator()(double cap) const {
    const Groups groups = modules.groups(request.workload, static_cast<std::int64_t>(cap));
    return static_cast<double>(planner::evaluate(request, groups).count());
  }
  double percent_over(double value) const { return 100 * (value / best - 1); }
  bool is_close(double value) const { return value <= best * 1.01; }

  /// The best of the first ten of these, in per cent.
  double after_ten(const std::vector<planner::Probe>& probes) const {
    constexpr std::size_t kTen = 10;
    const std::vector<planner::Probe> first(probes.begin(), probes.begin() + kTen);
    return percent_over(planner::best_of(first).value);
  }
  std::optional<std::size_t> needed(const std::vector<planner::Probe>& probes) const {
    for (std::size_t i = 0; i < probes.size(); ++i)
      if (is_close(probes[i].value)) return i + 1;
    return std::nullopt;
  }
};

struct SearchComparison {
  SearchStatistics bayesian;
  SearchStatistics random;
  SearchStatistics grid;

  void add(const CapCurve& caps) {
    planner::SearchSpace space = {.from = 1e6, .to = 100e6, .probes = kMaxProbes};
    constexpr std::uint64_t kSeeds = 5;
    for (space.seed = 1; space.seed <= kSeeds; ++space.seed) {
      const auto bayesian_probes = planner::bayesian_search(std::cref(caps), space, {.first = 25e6});
      bayesian.add(caps.needed(bayesian_probes), caps.after_ten(bayesian_probes));
      const auto random_probes = planner::random_search(std::cref(caps), space);
      random.add(caps.needed(random_probes), caps.after_ten(random_probes));
    }
    add_grids(caps, space);
  }

 private:
  /// A grid must be chosen in advance: the coarsest one that reaches the target counts.
  void add_grids(const CapCurve& caps, planner::SearchSpace space) {
    std::optional<std::size_t> needed;
    double after_ten = 0;
    for (space.probes = 1; space.probes <= kMaxProbes; ++space.probes) {
      const double min = planner::best_of(planner::grid_search(std::cref(caps), space)).value;
      constexpr std::size_t kTen = 10;
      if (space.probes == kTen) after_ten = caps.percent_over(min);
      if (!needed && caps.is_close(min)) needed = space.probes;
    }
    grid.add(needed, after_ten);
  }
};

void print_searches(const Family& family, const std::vector<Model>& models) {
  SearchComparison searches;
  for (const Model& model : models) {
    for (const Link& link : kLinks) {
      const core::Network network = link.network();
      for (const std::int64_t workers : kWorkers) {
        const Setting setting(model.profile, network, workers, {}, {});
        const planner::Schedule schedule = family.own_schedule();
        const FusionRequest request = request_of(setting, schedule);
        searches.add(CapCurve(request));
      }
    }
  }
  fmt::print(
      "\n## How many probes a search takes\n"
      "Searches for DeAR's cap from 1 to 100 MB, over the same models, links and workers, against the best "
      "cap\n"
      "of that range: probes until within 1 % of its iteration (mean; {0} where it took more), how often "
      "the\n"
      "first probe was, how often {0} probes were not enough, and by how many per cent the best of 10 "
      "probes\n"
      "is slower. Bayesian begins at 25 MB; it and random are run with 5 seeds. A grid has to be chosen\n"
      "beforehand: its probes are those of the coarsest that gets there.\n"
      "\n| search | probes | at once | not within {0} | slower after 10, mean / worst |\n"
      "| --- | ---: | ---: | ---: | ---: |\n",
      kMaxProbes);
  fmt::print("{}{}{}", searches.bayesian.row("Bayesian"), searches.random.row("random"),
             searches.grid.row("grid"));
}

void print_head() {
  fmt::print(
      "# What planners lose\n"
      "Per cent that an iteration takes longer with each planner than with the exact plan of the same "
      "pipeline\n"
      "and compressor: median / worst over 8, 16, ... 2048 workers. 0 is as good to the picosecond. Print "
      "this\n"
      "page again from a release build: `build/fusewise_losses > docs/planners.md` (a minute).\n"
      "\n"
      "Measured: the compute of ResNet-50, BERT-Base, VGG-16, GPT-2 (V100) and GoogleNet (K80), from "
      "`traces/`;\n"
      "forward is taken as half of backward. Estimated: that of ResNet-101 and BERT-Large (`fusewise "
      "estimate\n"
      "--device v100`). Computed, not measured: communication, by a ring on links at line rate, summing "
      "free;\n"
      "alpha is 30.3 us at 1 and 10 Gb/s and 7.9 us at 100 Gb/s (MG-WFBP's fits for 10 GbE and 56 Gb\n"
      "InfiniBand), and assumed to be 30.3 us at 25 Gb/s too.\n");
}

}  // namespace

int main() {
  print_head();
  const std::vector<Model> models = all_models();
  const std::vector<Family> families = {under_backward(), dear(), compressed()};
  Violations violations;
  for (const Family& family : families) print_family(family, models, violations);
  print_absolute(families, models, violations);
  print_searches(families[1], models);
  if (violations.inexact > 0)
    fmt::print(stderr, "{} plans of the exact planner have no proof\n", violations.inexact);
  return violations.beaten > 0 ? 1 : 0;
}
