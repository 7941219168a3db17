#include "planner/consider.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "models/errors.hpp"
#include "models/field.hpp"
#include "planner/entries.hpp"
#include "planner/predict.hpp"
#include "traces/scaled.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

/// Less than this share of time is rounding.
constexpr double kNoGain = 1e-6;

bool is_sooner(double us, double than_us) { return us < than_us * (1 - kNoGain); }

// ---- what is looked at

/// A compressor, as it stands or at one density.
struct Variant {
  std::string label = "none";  ///< its name, or that and its ratio where another has the name
  Compressor compressor;
  std::optional<double> density;
};

/// What is less than a bit for an element of four bytes can only leave elements out.
bool is_sparse(const ordered_json& compressor) {
  constexpr double kOneBit = 1.0 / 32;
  return !compressor.contains("ratio") || compressor.at("ratio").get<double>() < kOneBit;
}

/// An index takes four bytes beside each value.
void set_density(double density, double value_bytes, ordered_json& compressor) {
  constexpr double kIndexBytes = 4;
  if (compressor.contains("ratio"))
    compressor["ratio"] = density * (kIndexBytes + value_bytes) / value_bytes;
  else
    compressor["density"] = density;
}

std::vector<Variant> variants_of(const BuiltInCompressor& known, const std::vector<double>& densities,
                                 double value_bytes) {
  ordered_json json = ordered_json::parse(known.json);
  const std::string label(known.name);
  if (!is_sparse(json))
    return {{.label = label, .compressor = built_in_compressor(known.name), .density = {}}};
  std::vector<Variant> out;
  for (const double density : densities) {
    set_density(density, value_bytes, json);
    const models::Field field = models::Field::parse(json.dump(), label);
    out.push_back({.label = label, .compressor = read_compressor(field), .density = density});
  }
  return out;
}

bool is_built_in(const Compressor& compressor) {
  const auto all = built_in_compressors();
  return std::any_of(all.begin(), all.end(), [&](const BuiltInCompressor& known) {
    return known.name == compressor.name && built_in_compressor(known.name) == compressor;
  });
}

/// The built-in ones and those offered, each with its densities.
std::vector<std::vector<Variant>> all_variants(const Setting& setting, const ConsiderWishes& wishes) {
  const auto value_bytes = static_cast<double>(traces::bytes_per_element(setting.workload.profile->dtype));
  std::vector<std::vector<Variant>> out;
  for (const BuiltInCompressor& known : built_in_compressors())
    out.push_back(variants_of(known, wishes.densities, value_bytes));
  std::vector<Compressor> seen;
  for (const Compressor& compressor : wishes.offered) {
    if (compressor.is_none() || is_built_in(compressor)) continue;
    if (std::find(seen.begin(), seen.end(), compressor) != seen.end()) continue;
    const auto is_namesake = [&](const std::vector<Variant>& variants) {
      return variants.front().compressor.name == compressor.name;
    };
    const bool is_known = std::any_of(out.begin(), out.end(), is_namesake);
    seen.push_back(compressor);
    out.push_back({{.label = is_known ? fmt::format("{} (ratio {})", compressor.name, compressor.ratio)
                                      : compressor.name,
                    .compressor = compressor,
                    .density = {}}});
  }
  return out;
}

/// What keeps the pipeline from carrying it, or nothing. The reader of schedules decides.
std::string obstacle(const Setting& setting, const Schedule& schedule, const Variant& variant) {
  const std::string_view pipeline = schedule.pipeline->name;
  if (!schedule.pipeline->takes_compression) return fmt::format("pipeline {} takes no compressor", pipeline);
  const Compressor& compressor = variant.compressor;
  const bool is_conversion = is_built_in(compressor) && !variant.density &&
                             compressor.collective == traces::CollectiveKind::all_reduce;
  if (is_conversion && setting.workload.profile->dtype != traces::Dtype::float32)
    return "gradients have two bytes an element already";
  const ordered_json json = {{"pipeline", pipeline}, {"compression", compressor_json(compressor)}};
  try {
    read_schedule(models::Field::parse(json.dump(), "schedule"));
  } catch (const models::InputError&) {
    return fmt::format("pipeline {} takes only what an all-reduce can sum", pipeline);
  }
  return {};
}

// ---- schedules

/// The ways of the schedule's own choices, as far as they are about collectives.
std::vector<WayChoice> collective_choices(const Schedule& schedule) {
  std::vector<WayChoice> out;
  for (const WayChoice& choice : schedule.fusion.choices) {
    const WayChoice plain = {.all_reduce = choice.all_reduce, .compressor = {}};
    if (plain.all_reduce && std::find(out.begin(), out.end(), plain) == out.end()) out.push_back(plain);
  }
  return out;
}

bool takes_optimal(const Pipeline& pipeline) {
  return pipeline.takes_fusion == nullptr || pipeline.takes_fusion("optimal");
}

/// The schedule uncompressed, with the groups that no others beat.
Schedule dense_of(const Schedule& schedule) {
  Schedule dense = schedule;
  dense.compressor = {};
  dense.selective = false;
  dense.fusion.choices = collective_choices(schedule);
  if (schedule.fusion.kind == "optimal" || !takes_optimal(*schedule.pipeline)) return dense;
  dense.fusion.kind = "optimal";
  dense.fusion.fuse = read_fusion(models::Field::parse(R"("optimal")", "consider")).fuse;
  return dense;
}

Schedule compressed_of(const Schedule& dense, const Compressor& compressor, bool is_per_group) {
  Schedule out = dense;
  out.compressor = compressor;
  if (!is_per_group) return out;
  out.fusion.choices.push_back({.all_reduce = {}, .compressor = Compressor{}});
  for (const WayChoice& choice : dense.fusion.choices)
    out.fusion.choices.push_back({.all_reduce = choice.all_reduce, .compressor = Compressor{}});
  return out;
}

// ---- what is not looked at

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

// ---- candidates

double factor_of(const ConsiderWishes& wishes, const Variant& variant) {
  double general = 1;
  std::optional<double> special;
  for (const ExtraIterations& extra : wishes.extra) {
    if (extra.compressor != variant.compressor.name) continue;
    if (!extra.density)
      general = extra.factor;
    else if (extra.density == variant.density)
      special = extra.factor;
  }
  return special.value_or(general);
}

double sent_per_worker(const Setting& setting, const FusionRequest& request, const Groups& groups) {
  if (setting.costs.workers() == 1) return 0;
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double sent = 0;
  const Program program =
      request.pipeline.program(static_cast<std::uint32_t>(groups.size()), request.options);
  for (const Op& op : program.ops) {
    const Group& group = groups[op.group];
    const std::int64_t bytes = bytes_of(setting.workload, group);
    sent += Program::runs(op, steps) * request.ways[group.way].sent_bytes(op.kind, bytes);
  }
  if (setting.extras.lars_gather > sim::Time::zero())
    sent += setting.costs.of(traces::CollectiveKind::all_gather).sent_per_byte * 4 *
            static_cast<double>(setting.workload.forward.size());
  return sent;
}

Candidate described(const Setting& setting, const FusionRequest& request, const Groups& groups,
                    const Variant& variant, double factor) {
  Candidate out = {.compressor = variant.label,
                   .density = variant.density,
                   .schedule = request.schedule,
                   .groups = static_cast<std::int64_t>(groups.size()),
                   .iteration_us = iteration_us(setting, request, groups),
                   .bytes_sent_per_worker = sent_per_worker(setting, request, groups)};
  out.encoded_groups = std::count_if(groups.begin(), groups.end(), [&](const Group& group) {
    return request.ways[group.way].is_encoded(bytes_of(setting.workload, group));
  });
  if (out.encoded_groups > 0) out.extra_iterations = factor;
  out.weighed_us = out.iteration_us * out.extra_iterations;
  return out;
}

/// Groups and the ways that they name.
struct Plan {
  Groups groups;
  std::vector<WayCost> ways;
};

struct Planned {
  Candidate candidate;
  Plan plan;
  double work = 0;  ///< of finding them, roughly
};

Planned planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor) {
  const FusionRequest request(setting, schedule);
  Groups groups = schedule.fusion.fuse(request);
  Planned out = {.candidate = described(setting, request, groups, variant, factor), .plan = {}};
  if (request.proof) {
    out.candidate.may_be_off_by_us = sim::to_us(request.proof->may_be_off_by);
    const auto front = static_cast<double>(request.proof->largest_front);
    const double count = setting.workload.gradient_count();
    // fronts that had to be cut short are gone through several times
    out.work = out.candidate.may_be_off_by_us > 0 ? count * count * count : front * front * count / 10;
  }
  out.plan = {.groups = std::move(groups), .ways = request.ways};
  return out;
}

/// The same groups in a request that offers their ways, too.
Groups carried_over(const Plan& plan, const FusionRequest& request) {
  Groups out = plan.groups;
  for (Group& group : out) {
    const auto same = std::find_if(request.ways.begin(), request.ways.end(), [&](const WayCost& cost) {
      return cost.way() == plan.ways[group.way].way();
    });
    group.way = static_cast<std::uint32_t>(same - request.ways.begin());
  }
  return out;
}

/// Other ways for these groups, one at a time as long as that is sooner.
Groups with_better_ways(const FusionRequest& request, Groups groups) {
  constexpr int kMostLooks = 2000;
  sim::Time best = evaluate(request, groups);
  int looks = 0;
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (Group& group : groups) {
      const std::uint32_t before = group.way;
      std::uint32_t kept = before;
      for (std::uint32_t way = 0; way < request.ways.size(); ++way) {
        if (way == before || ++looks > kMostLooks) continue;
        group.way = way;
        const sim::Time value = evaluate(request, groups);
        if (value >= best) continue;
        best = value;
        kept = way;
        is_better = true;
      }
      group.way = kept;
    }
  }
  return groups;
}

/// The better of both plans' groups when each may travel either way.
Groups quick_choice(const FusionRequest& request, const Plan& dense, const Plan& compressed) {
  Groups first = with_better_ways(request, carried_over(compressed, request));
  Groups second = with_better_ways(request, carried_over(dense, request));
  return evaluate(request, second) < evaluate(request, first) ? second : first;
}

// ---- other bandwidths

/// A setting on another network, and the best plan there without compression.
struct Elsewhere {
  traces::Network network;
  Setting setting;
  Planned dense;

  Elsewhere(const Setting& like, double bandwidth, const Schedule& dense_schedule)
      : network(traces::scaled(*like.network, 1, 1 / bandwidth)),
        setting(*like.workload.profile, network, like.costs.workers(), like.costs.algorithm(),
                like.conditions),
        dense(planned(setting, dense_schedule, {}, 1)) {}
};

/// The setting on networks so many times as fast per byte, each made once.
class Bandwidths {
 public:
  Bandwidths(const Setting& setting, const Schedule& dense) : setting_(setting), dense_(dense) {}

  const Schedule& dense() const { return dense_; }

  /// Throws NoCost where times are longer than can be simulated.
  const Elsewhere& at(double bandwidth) {
    std::unique_ptr<Elsewhere>& known = made_[bandwidth];
    if (!known) known = std::make_unique<Elsewhere>(setting_, bandwidth, dense_);
    return *known;
  }

 private:
  const Setting& setting_;
  const Schedule& dense_;
  std::map<double, std::unique_ptr<Elsewhere>> made_;
};

/// Asks of one candidate where it pays.
class Asking {
 public:
  Asking(Bandwidths& bandwidths, const Candidate& candidate, double extra)
      : bandwidths_(bandwidths), candidate_(candidate), extra_(extra) {}

  /// None where times are longer than can be simulated.
  std::optional<bool> pays(double bandwidth) {
    try {
      return pays(bandwidths_.at(bandwidth));
    } catch (const NoCost&) {
      return std::nullopt;
    }
  }

 private:
  bool pays(const Elsewhere& at) {
    const FusionRequest request(at.setting, candidate_.schedule);
    const auto are_sooner = [&](const Groups& groups) {
      const double us = described(at.setting, request, groups, {}, extra_).weighed_us;
      return is_sooner(us, at.dense.candidate.weighed_us);
    };
    // what was best on the network asked about before is often good enough
    if (!known_.empty() && are_sooner(known_)) return true;
    known_ = candidate_.is_per_group ? quickly_chosen(at, request) : candidate_.schedule.fusion.fuse(request);
    return are_sooner(known_);
  }

  Groups quickly_chosen(const Elsewhere& at, const FusionRequest& request) const {
    const Compressor& compressor = candidate_.schedule.compressor;
    const Schedule whole = compressed_of(bandwidths_.dense(), compressor, false);
    return quick_choice(request, at.dense.plan, planned(at.setting, whole, {}, 1).plan);
  }

  Bandwidths& bandwidths_;
  const Candidate& candidate_;
  double extra_;
  Groups known_;
};

/// Where between two bandwidths paying begins or ends.
double edge(double low, double high, const std::function<bool(double)>& is_as_low) {
  constexpr double kNear = 1 + 4e-4;
  while (high > low * kNear) {
    const double middle = std::sqrt(low * high);
    (is_as_low(middle) ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

/// Looks at every doubling of the bandwidth, then for the edges between those that differ.
BreakEven break_even(Bandwidths& bandwidths, const Candidate& candidate, double extra) {
  Asking asking(bandwidths, candidate, extra);
  const auto pays = [&](double bandwidth) { return asking.pays(bandwidth); };
  BreakEven out = {.compressor = candidate.compressor,
                   .density = candidate.density,
                   .is_per_group = candidate.is_per_group,
                   .pays = {}};
  std::optional<double> last;
  bool was = false;
  constexpr int kDoublings = 12;
  static_assert(kBandwidths.from * (1 << kDoublings) == kBandwidths.to);
  for (int doubling = 0; doubling <= kDoublings; ++doubling) {
    const double bandwidth = kBandwidths.from * (1 << doubling);
    const std::optional<bool> now = pays(bandwidth);
    if (!now) continue;
    double from = bandwidth;
    if (!last)
      out.looked_from = bandwidth;
    else if (*now != was)
      from = edge(*last, bandwidth, [&](double middle) { return pays(middle).value_or(was) == was; });
    if (*now && !was) out.pays.push_back({.from = from, .to = bandwidth});
    if (*now || was) out.pays.back().to = *now ? bandwidth : from;
    last = bandwidth;
    was = *now;
  }
  return out;
}

// ---- all of it

/// Considers one compressor after the other.
class Considering {
 public:
  Considering(const Setting& setting, const Schedule& schedule, const ConsiderWishes& wishes)
      : setting_(setting),
        wishes_(wishes),
        dense_schedule_(dense_of(schedule)),
        bandwidths_(setting, dense_schedule_),
        dense_(planned(setting, dense_schedule_, {}, 1)) {
    const traces::Network& network = *setting.network;
    out_.model = setting.workload.profile->model;
    out_.workers = setting.costs.workers();
    out_.network = network.name;
    out_.line_rate_gbps = network.line_rate_gbps;
    out_.pipeline = schedule.pipeline->name;
    out_.candidates.push_back(dense_.candidate);
  }

  /// One compressor at all its densities.
  void add(const std::vector<Variant>& variants) {
    const std::string& label = variants.front().label;
    const std::string why = obstacle(setting_, dense_schedule_, variants.front());
    if (!why.empty()) return out_.left_out.push_back({.compressor = label, .why = why});
    std::vector<Planned> whole;
    try {
      for (const Variant& variant : variants)
        whole.push_back(planned(setting_, compressed_of(dense_schedule_, variant.compressor, false), variant,
                                factor_of(wishes_, variant)));
    } catch (const NoCost& problem) {
      return out_.left_out.push_back(
          {.compressor = label, .why = fmt::format("it needs {}", problem.expected())});
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
      const auto choice = std::find_if(choices_.begin(), choices_.end(),
                                       [&](const Choice& each) { return each.candidate == out_.best; });
      out_.break_even.push_back(break_even(bandwidths_, out_.candidates[out_.best], choice->factor));
    }
    add_doubts();
    return std::move(out_);
  }

 private:
  /// Of the candidates, one whose groups may also travel uncompressed.
  struct Choice {
    std::size_t candidate = 0;
    Variant variant;
    double factor = 1;
  };

  struct Asked {
    Compressor unnamed;
    double factor = 1;
    BreakEven answer;
  };

  void add(const std::vector<Variant>& variants, const std::vector<Planned>& whole) {
    const auto is_weighed = [&](const ExtraIterations& extra) {
      return extra.compressor == variants.front().compressor.name;
    };
    if (std::none_of(wishes_.extra.begin(), wishes_.extra.end(), is_weighed))
      out_.unweighed.push_back(variants.front().label);
    const auto best = std::min_element(whole.begin(), whole.end(), [](const Planned& a, const Planned& b) {
      return a.candidate.weighed_us < b.candidate.weighed_us;
    });
    const Variant& variant = variants[static_cast<std::size_t>(best - whole.begin())];
    const double factor = factor_of(wishes_, variant);
    for (const Planned& each : whole) {
      out_.candidates.push_back(each.candidate);
      if (&each == &*best && dense_schedule_.fusion.kind == "optimal") add_choice(each, variant, factor);
    }
    out_.break_even.push_back(asked(best->candidate, factor));
  }

  /// Where an earlier compressor is the same but for its name, as it was for that.
  BreakEven asked(const Candidate& candidate, double factor) {
    Compressor unnamed = candidate.schedule.compressor;
    unnamed.name = "x";
    for (const Asked& known : asked_) {
      if (known.unnamed != unnamed || known.factor != factor) continue;
      BreakEven out = known.answer;
      out.compressor = candidate.compressor;
      out.density = candidate.density;
      return out;
    }
    asked_.push_back(
        {.unnamed = unnamed, .factor = factor, .answer = break_even(bandwidths_, candidate, factor)});
    return asked_.back().answer;
  }

  /// As good as a quick look tells.
  void add_choice(const Planned& whole, const Variant& variant, double factor) {
    const Schedule schedule = compressed_of(dense_schedule_, variant.compressor, true);
    const FusionRequest request(setting_, schedule);
    const Groups groups = quick_choice(request, dense_.plan, whole.plan);
    choices_.push_back({.candidate = out_.candidates.size(), .variant = variant, .factor = factor});
    Candidate candidate = described(setting_, request, groups, variant, factor);
    candidate.is_per_group = true;
    candidate.may_be_off_by_us = std::max(0.0, candidate.iteration_us - lower_bound_us(setting_, schedule));
    out_.candidates.push_back(std::move(candidate));
  }

  /// Plans choices exactly, those that look best first: where the channel is nearly as busy as compute that
  /// is thousands of times the work of compressing all groups. After some work only those that may be the
  /// best, and after more none.
  void choose_exactly() {
    constexpr double kSomeWork = 1e6;
    constexpr double kMostWork = 1.5e7;  // seconds
    double work = 0;
    for (std::vector<Choice> left = choices_; !left.empty() && work < kMostWork;) {
      const auto next = std::min_element(left.begin(), left.end(), [&](const Choice& a, const Choice& b) {
        return out_.candidates[a.candidate].weighed_us < out_.candidates[b.candidate].weighed_us;
      });
      const Choice choice = *next;
      left.erase(next);
      if (work < kSomeWork || may_be_best(choice)) work += choose_exactly(choice, left);
    }
  }

  bool may_be_best(const Choice& choice) const {
    const Candidate& quick = out_.candidates[choice.candidate];
    const double least_us = quick.iteration_us - quick.may_be_off_by_us;
    return std::none_of(out_.candidates.begin(), out_.candidates.end(), [&](const Candidate& other) {
      return other.weighed_us <= least_us * std::min(choice.factor, 1.0) ||
             (other.weighed_us < out_.candidates.front().weighed_us &&
              other.weighed_us <= least_us * choice.factor);
    });
  }

  /// And tries its groups for those that are left. The work that it was.
  double choose_exactly(const Choice& choice, const std::vector<Choice>& left) {
    Planned exact =
        planned(setting_, out_.candidates[choice.candidate].schedule, choice.variant, choice.factor);
    for (const Choice& other : left) {
      const Schedule schedule = out_.candidates[other.candidate].schedule;
      const FusionRequest request(setting_, schedule);
      if (request.ways.size() == exact.plan.ways.size())
        replace(other, request, with_better_ways(request, exact.plan.groups));
    }
    Candidate& quick = out_.candidates[choice.candidate];
    if (exact.candidate.iteration_us <= quick.iteration_us) {
      quick = std::move(exact.candidate);
      quick.is_per_group = true;
    }
    return exact.work;
  }

  /// By other groups, if they are sooner.
  void replace(const Choice& choice, const FusionRequest& request, const Groups& groups) {
    Candidate& quick = out_.candidates[choice.candidate];
    Candidate other = described(setting_, request, groups, choice.variant, choice.factor);
    if (other.iteration_us >= quick.iteration_us) return;
    other.is_per_group = true;
    other.may_be_off_by_us = quick.may_be_off_by_us - (quick.iteration_us - other.iteration_us);
    quick = std::move(other);
  }

  void add_doubts() {
    out_.doubts = run(setting_, dense_schedule_).doubts;
    if (out_.best == 0) return;
    Schedule best = out_.candidates[out_.best].schedule;
    best.fusion.choices = collective_choices(best);
    for (Doubt& doubt : run(setting_, best).doubts) out_.doubts.push_back(std::move(doubt));
  }

  const Setting& setting_;
  const ConsiderWishes& wishes_;
  Schedule dense_schedule_;
  Bandwidths bandwidths_;
  Planned dense_;
  std::vector<Choice> choices_;
  std::vector<Asked> asked_;
  Consideration out_;
};

void check_densities(const ConsiderWishes& wishes) {
  for (const ExtraIterations& extra : wishes.extra)
    if (extra.density &&
        std::find(wishes.densities.begin(), wishes.densities.end(), *extra.density) == wishes.densities.end())
      throw models::InputError(fmt::format("--extra-iterations: expected one of the densities {}, got '{}'",
                                           fmt::join(wishes.densities, ", "), *extra.density));
}

double number_in(std::string_view text, double least, double most, std::string_view what) {
  double out = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool is_number = problem == std::errc{} && end == text.data() + text.size();
  if (!is_number || !(out >= least && out <= most))
    throw models::InputError(fmt::format("--extra-iterations: expected {} from {} to {}, got '{}'", what,
                                         least, most, models::printable(text)));
  return out;
}

}  // namespace

ExtraIterations read_extra_iterations(std::string_view text, const std::vector<std::string>& known) {
  constexpr double kMostTimes = 1000;
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos)
    throw models::InputError(
        fmt::format("--extra-iterations: expected COMPRESSOR=FACTOR or COMPRESSOR@DENSITY=FACTOR, got '{}'",
                    models::printable(text)));
  ExtraIterations out = {
      .compressor = std::string(text.substr(0, equals)),
      .density = {},
      .factor = number_in(text.substr(equals + 1), 1 / kMostTimes, kMostTimes, "a factor after '='")};
  const std::size_t at = out.compressor.rfind('@');
  if (at != std::string::npos && std::find(known.begin(), known.end(), out.compressor) == known.end()) {
    out.density = number_in(text.substr(at + 1, equals - at - 1), 0, 1, "a density after '@'");
    out.compressor.resize(at);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  if (std::find(known.begin(), known.end(), out.compressor) == known.end())
    throw models::InputError(fmt::format("--extra-iterations: expected one of {}, got '{}'{}",
                                         fmt::join(names, ", "), models::printable(out.compressor),
                                         models::suggestion(out.compressor, names)));
  return out;
}

std::vector<std::string> considered_names(std::span<const Compressor> offered) {
  std::vector<std::string> out;
  for (const std::string_view name : names(built_in_compressors())) out.emplace_back(name);
  for (const Compressor& compressor : offered)
    if (!compressor.is_none() && std::find(out.begin(), out.end(), compressor.name) == out.end())
      out.push_back(compressor.name);
  return out;
}

Consideration consider(const Setting& setting, const Schedule& schedule, const ConsiderWishes& wishes) {
  check_densities(wishes);
  const Setting calm(*setting.workload.profile, *setting.network, setting.costs.workers(),
                     setting.costs.algorithm(), calm_of(setting.conditions));
  Considering considering(calm, schedule, wishes);
  if (calm.costs.workers() > 1)
    for (const std::vector<Variant>& variants : all_variants(calm, wishes)) considering.add(variants);
  Consideration out = std::move(considering).finished();
  out.taken_away = taken_away(setting.conditions);
  return out;
}

}  // namespace planner
