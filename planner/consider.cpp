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

Candidate planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor) {
  const FusionRequest request(setting, schedule);
  const Groups groups = schedule.fusion.fuse(request);
  Candidate out = {.compressor = variant.label,
                   .density = variant.density,
                   .schedule = schedule,
                   .groups = static_cast<std::int64_t>(groups.size()),
                   .iteration_us = iteration_us(setting, request, groups),
                   .bytes_sent_per_worker = sent_per_worker(setting, request, groups)};
  if (request.proof) out.may_be_off_by_us = sim::to_us(request.proof->may_be_off_by);
  out.encoded_groups = std::count_if(groups.begin(), groups.end(), [&](const Group& group) {
    return request.ways[group.way].is_encoded(bytes_of(setting.workload, group));
  });
  if (out.encoded_groups > 0) out.extra_iterations = factor;
  out.weighed_us = out.iteration_us * out.extra_iterations;
  return out;
}

// ---- other bandwidths

/// The setting on networks so many times as fast per byte, each made once.
class Bandwidths {
 public:
  Bandwidths(const Setting& setting, const Schedule& dense) : setting_(setting), dense_(dense) {}

  /// None where times are longer than can be simulated.
  std::optional<bool> pays(double bandwidth, const Schedule& compressed, double extra) {
    try {
      const At& at = made_at(bandwidth);
      return is_sooner(extra * planned_us(at.setting, compressed), at.dense_us);
    } catch (const NoCost&) {
      return std::nullopt;
    }
  }

 private:
  struct At {
    traces::Network network;
    Setting setting;
    double dense_us;

    At(const Setting& like, double bandwidth, const Schedule& dense)
        : network(traces::scaled(*like.network, 1, 1 / bandwidth)),
          setting(*like.workload.profile, network, like.costs.workers(), like.costs.algorithm(),
                  like.conditions),
          dense_us(planned_us(setting, dense)) {}
  };

  static double planned_us(const Setting& setting, const Schedule& schedule) {
    const FusionRequest request(setting, schedule);
    return iteration_us(setting, request, schedule.fusion.fuse(request));
  }

  const At& made_at(double bandwidth) {
    std::unique_ptr<At>& at = made_[bandwidth];
    if (!at) at = std::make_unique<At>(setting_, bandwidth, dense_);
    return *at;
  }

  const Setting& setting_;
  const Schedule& dense_;
  std::map<double, std::unique_ptr<At>> made_;
};

/// Where between two bandwidths paying begins or ends.
double edge(double low, double high, const std::function<bool(double)>& is_as_low) {
  constexpr double kNear = 1 + 1e-4;
  while (high > low * kNear) {
    const double middle = std::sqrt(low * high);
    (is_as_low(middle) ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

/// Looks at every doubling of the bandwidth, then for the edges between those that differ.
BreakEven break_even(Bandwidths& bandwidths, const Candidate& candidate, double extra) {
  const auto pays = [&](double bandwidth) { return bandwidths.pays(bandwidth, candidate.schedule, extra); };
  BreakEven out = {.compressor = candidate.compressor, .density = candidate.density, .pays = {}};
  std::optional<double> last;
  bool was = false;
  for (double bandwidth = kBandwidths.from; bandwidth <= kBandwidths.to; bandwidth *= 2) {
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

/// Considers one after the other.
class Considering {
 public:
  Considering(const Setting& setting, const Schedule& schedule, const ConsiderWishes& wishes)
      : setting_(setting), wishes_(wishes), dense_(dense_of(schedule)), bandwidths_(setting, dense_) {
    const traces::Network& network = *setting.network;
    out_.model = setting.workload.profile->model;
    out_.workers = setting.costs.workers();
    out_.network = network.name;
    out_.line_rate_gbps = network.line_rate_gbps;
    out_.pipeline = schedule.pipeline->name;
    out_.candidates.push_back(planned(setting, dense_, {}, 1));
  }

  /// One compressor at all its densities.
  void add(const std::vector<Variant>& variants) {
    const std::string& label = variants.front().label;
    const std::size_t first = out_.candidates.size();
    const std::string why = obstacle(setting_, dense_, variants.front());
    try {
      if (!why.empty()) throw NoCost(why, why);
      for (const Variant& variant : variants) add_plans(variant);
    } catch (const NoCost& problem) {
      out_.candidates.resize(first, out_.candidates.front());
      out_.left_out.push_back(
          {.compressor = label, .why = why.empty() ? fmt::format("it needs {}", problem.expected()) : why});
      return;
    }
    if (!is_weighed(variants.front().compressor.name)) out_.unweighed.push_back(label);
    add_break_even(first);
  }

  Consideration finished() && {
    for (std::size_t i = 1; i < out_.candidates.size(); ++i) {
      const Candidate& candidate = out_.candidates[i];
      if (is_sooner(candidate.weighed_us, out_.candidates.front().weighed_us) &&
          candidate.weighed_us < out_.candidates[out_.best].weighed_us)
        out_.best = i;
    }
    out_.doubts = run(setting_, dense_).doubts;
    if (out_.best > 0)
      for (Doubt& doubt : run(setting_, out_.candidates[out_.best].schedule).doubts)
        out_.doubts.push_back(std::move(doubt));
    return std::move(out_);
  }

 private:
  bool is_weighed(const std::string& name) const {
    return std::any_of(wishes_.extra.begin(), wishes_.extra.end(),
                       [&](const ExtraIterations& extra) { return extra.compressor == name; });
  }

  void add_plans(const Variant& variant) {
    const double factor = factor_of(wishes_, variant);
    out_.candidates.push_back(
        planned(setting_, compressed_of(dense_, variant.compressor, false), variant, factor));
    if (dense_.fusion.kind != "optimal") return;
    out_.candidates.push_back(
        planned(setting_, compressed_of(dense_, variant.compressor, true), variant, factor));
    out_.candidates.back().is_per_group = true;
  }

  /// Of the compressor whose candidates begin there: at its best density, and where groups may choose with
  /// the choice, as that is never worse.
  void add_break_even(std::size_t first) {
    const auto less = [](const Candidate& a, const Candidate& b) { return a.weighed_us < b.weighed_us; };
    auto best = std::min_element(out_.candidates.begin() + static_cast<std::ptrdiff_t>(first),
                                 out_.candidates.end(), less);
    if (!best->is_per_group && best + 1 != out_.candidates.end() && (best + 1)->is_per_group) ++best;
    const Variant variant = {
        .label = best->compressor, .compressor = best->schedule.compressor, .density = best->density};
    out_.break_even.push_back(break_even(bandwidths_, *best, factor_of(wishes_, variant)));
  }

  const Setting& setting_;
  const ConsiderWishes& wishes_;
  Schedule dense_;
  Bandwidths bandwidths_;
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
