#include "validate/live/calibrate.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "compression/compressor.hpp"
#include "models/errors.hpp"
#include "models/json_text.hpp"
#include "profiler/common/samples.hpp"
#include "profiler/measure/report.hpp"
#include "profiler/measure/run.hpp"
#include "traces/profile_overlap.hpp"
#include "transport/bytes.hpp"
#include "transport/collectives.hpp"
#include "validate/live/clock.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/levels.hpp"
#include "validate/live/parcel.hpp"
#include "validate/live/worker.hpp"

namespace live {
namespace {

using nlohmann::ordered_json;
using traces::CollectiveKind;
using transport::Transport;

/// Collectives as a group's: into the fusion buffer, over the network, and out of it again.
class ParcelEngine final : public measure::Engine {
 public:
  ParcelEngine(Transport& transport, std::string all_reduce, std::uint32_t workers_per_node)
      : transport_(transport),
        method_{.all_reduce = std::move(all_reduce), .workers_per_node = workers_per_node} {}

  void load(std::span<const float> values) override {
    if (values.size() != gradient_.size()) parcel_.reset();
    gradient_.assign(values.begin(), values.end());
    if (!parcel_) parcel_ = std::make_unique<Parcel>(method_, std::span(gradient_), transport_.size(), 1);
    parcel_->load();
  }
  void store(std::span<float> values) override {
    const std::span<const float> from =
        leaves_buffer_ ? parcel_->buffer() : std::span<const float>(gradient_);
    std::copy_n(from.begin(), std::min(values.size(), from.size()), values.begin());
  }
  void start(measure::Collective kind) override {
    leaves_buffer_ = kind == measure::Collective::reduce_scatter;
    if (kind == measure::Collective::send_receive)
      transport::send_receive(transport_, gradient_, tag_of(Tag::dense));
    else
      parcel_->carry(transport_, *measure::entry(kind).in_network);
  }
  void finish() override {}
  std::string algorithm(measure::Collective kind) const override {
    if (kind == measure::Collective::send_receive) return "";
    return kind == measure::Collective::all_reduce ? method_.all_reduce : "ring";
  }
  std::string description() const override { return "as live runs carry groups"; }

 private:
  Transport& transport_;
  Method method_;
  std::vector<float> gradient_;
  std::unique_ptr<Parcel> parcel_;
  bool leaves_buffer_ = false;
};

// ---- what plans need

struct Needs {
  std::vector<std::string> all_reduces;  ///< each once, as the next
  std::vector<Asked> compressors;
  bool halves = false;
  bool gathers = false;
  bool levels = false;  ///< of nodes
};

template <typename T>
void add_once(std::vector<T>& to, const T& value) {
  if (std::ranges::find(to, value) == to.end()) to.push_back(value);
}

Needs needs_of(const std::vector<Wishes>& all) {
  Needs out;
  for (const Wishes& wishes : all) {
    const auto program = wishes.schedule.pipeline->program(1, wishes.schedule.options);
    const bool halves = program.ops.front().kind != CollectiveKind::all_reduce;
    out.halves = out.halves || halves;
    for (const planner::Way& way : ways_of(wishes)) {
      if (!halves) add_once(out.all_reduces, way.all_reduce.name);
      if (way.compressor.is_none()) continue;
      add_once(out.compressors, {.compressor = way.compressor, .error_feedback = wishes.error_feedback});
      out.levels = out.levels || needs_nodes(way.compressor);
      out.gathers = out.gathers || way.compressor.collective == CollectiveKind::all_gather;
    }
  }
  return out;
}

std::uint32_t repetitions(const CalibrationWishes& wishes, std::int64_t bytes) {
  constexpr std::int64_t kLarge = 1'000'000;
  constexpr std::uint32_t kFewest = 5;
  const auto few = static_cast<std::uint32_t>(wishes.repetitions * kLarge / std::max(bytes, kLarge));
  return std::max(std::min(kFewest, wishes.repetitions), few);
}

/// What collectives are measured under.
struct Terms {
  const CalibrationWishes& wishes;
  std::uint32_t workers_per_node = 1;
  /// What a link lets pass at once after a pause. Groups follow each other, and large ones find links that
  /// had no time to save up: these bytes are used up before. Small ones leave links the time.
  std::int64_t burst_bytes = 0;
};

/// Repetitions in several sweeps over all sizes, so that what disturbs the machine for a while does not meet
/// one size alone.
void measure_sizes(Transport& transport, measure::Engine& engine, const Terms& terms,
                   measure::Collective kind, const std::vector<std::int64_t>& sizes,
                   std::vector<measure::Samples>& into) {
  const CalibrationWishes& wishes = terms.wishes;
  constexpr std::uint32_t kSweeps = 3;
  std::vector<measure::Samples> all(sizes.size());
  for (std::uint32_t sweep = 0; sweep < std::min(kSweeps, wishes.repetitions); ++sweep)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const measure::Wanted wanted = {.collectives = {kind},
                                      .sizes = {sizes[i]},
                                      .repetitions = (repetitions(wishes, sizes[i]) + kSweeps - 1) / kSweeps,
                                      .warm_up = sweep == 0 ? std::max(1U, wishes.warm_up) : 1,
                                      .drain_bytes = sizes[i] < terms.burst_bytes ? 0 : terms.burst_bytes};
      for (measure::Samples& samples : measure::run(transport, engine, wanted)) {
        samples.us.insert(samples.us.end(), all[i].us.begin(), all[i].us.end());
        all[i] = std::move(samples);
      }
    }
  if (transport.rank() == 0) std::ranges::move(all, std::back_inserter(into));
}

/// On rank 0; nothing on the others. By `engine`, where the groups are carried by it.
std::vector<measure::Samples> measured_collectives(Transport& transport, measure::Engine* engine,
                                                   const Needs& needs, const Terms& terms,
                                                   const std::vector<std::int64_t>& sizes,
                                                   const Crew::Tell& tell) {
  std::vector<measure::Samples> out;
  const auto measure = [&](const std::string& what, measure::Collective kind, const std::string& all_reduce,
                           const std::vector<std::int64_t>& some) {
    tell("calibration of " + what);
    ParcelEngine parcels(transport, all_reduce, terms.workers_per_node);
    measure_sizes(transport, engine == nullptr ? parcels : *engine, terms, kind, some, out);
  };
  for (const std::string& name : needs.all_reduces)
    measure("all-reduce " + name, measure::Collective::all_reduce, name, sizes);
  if (needs.halves) measure("reduce-scatter", measure::Collective::reduce_scatter, "ring", sizes);
  if (needs.halves || needs.gathers) measure("all-gather", measure::Collective::all_gather, "ring", sizes);
  std::vector<std::int64_t> some;
  for (std::size_t i = 0; i < sizes.size(); i += 2) some.push_back(sizes[i]);
  measure("the link", measure::Collective::send_receive, "ring", some);
  return out;
}

// ---- compressors

/// Of one size.
struct CodeTimes {
  double encode_us = 0;
  double carry_us = 0;
  double decode_us = 0;
  double ratio = 1;
};

/// What a stretch of work takes that all workers begin at once: until the last has ended. Workers that share
/// processors keep each other waiting, in a run, too. (Where clocks differ: what it takes the slowest.) On
/// rank 0; 0 on the others.
class Together {
 public:
  explicit Together(Transport& transport) : transport_(transport), one_clock_(share_clock(transport)) {}

  template <typename Work>
  double time_us(const Work& work) {
    transport::barrier(transport_, tag_of(Tag::barrier));
    std::array<std::int64_t, 2> own = {now_ns(), 0};
    work();
    own[1] = now_ns();
    if (transport_.rank() != 0) {
      transport_.send(0, tag_of(Tag::record), transport::to_bytes(std::span<const std::int64_t>(own)));
      return 0;
    }
    std::int64_t begun = own[0];
    std::int64_t ended = own[1];
    std::int64_t longest = own[1] - own[0];
    for (std::uint32_t rank = 1; rank < transport_.size(); ++rank) {
      std::array<std::int64_t, 2> other{};
      transport::from_bytes<std::int64_t>(transport_.recv(rank, tag_of(Tag::record)), other);
      begun = std::min(begun, other[0]);
      ended = std::max(ended, other[1]);
      longest = std::max(longest, other[1] - other[0]);
    }
    return static_cast<double>(one_clock_ ? ended - begun : longest) / 1000;
  }

 private:
  static std::int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  Transport& transport_;
  bool one_clock_;
};

CodeTimes time_code(Transport& transport, const Method& method, std::int64_t bytes, std::uint32_t rounds,
                    std::uint64_t seed) {
  const Gradients gradients(seed, transport.size());
  std::vector<float> values(static_cast<std::size_t>(bytes) / sizeof(float));
  Parcel parcel(method, values, transport.size(), seed);
  Together together(transport);
  std::vector<double> encode;
  std::vector<double> carry;
  std::vector<double> decode;
  CodeTimes out;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    gradients.fill(method.spread(), transport.rank(), i, 0, values);
    encode.push_back(together.time_us([&] { parcel.encode(); }));
    out.ratio = static_cast<double>(parcel.encoded_bytes()) / static_cast<double>(bytes);
    carry.push_back(together.time_us([&] { parcel.carry(transport, CollectiveKind::all_reduce); }));
    decode.push_back(together.time_us([&] { parcel.decode(); }));
  }
  out.encode_us = profiler::summary(encode).median;
  out.carry_us = profiler::summary(carry).median;
  out.decode_us = profiler::summary(decode).median;
  return out;
}

planner::CodeCost curve_cost(std::vector<std::pair<double, double>> points) {
  double most = 0;  // what costs more is never cheaper: a smaller size may have met noise
  for (auto& [bytes, us] : points) us = most = std::max(most, us);
  return {.curve = std::make_shared<const traces::CostCurve>(traces::CostCurve::through(points))};
}

/// A compressor, and what was timed of it by size, all contributions decoded at once as in a run.
struct TimedCompressor {
  planner::Compressor compressor;
  std::vector<CodeTimes> times;
};

TimedCompressor time_compressor(Transport& transport, const Asked& asked,
                                const std::vector<std::int64_t>& sizes, std::uint32_t workers_per_node,
                                const CalibrationWishes& wishes) {
  constexpr std::uint32_t kRounds = 7;
  planner::Way way;
  way.compressor = asked.compressor;
  const Method method = method_of(way, true, workers_per_node, asked.error_feedback);
  TimedCompressor out = {.compressor = asked.compressor, .times = {}};
  for (const std::int64_t bytes : sizes)
    out.times.push_back(
        time_code(transport, method, bytes, std::min(kRounds, wishes.repetitions), wishes.seed));
  return out;
}

/// Sparse all-reduces, and what is compressed between nodes alone, select and sum on the way: what one takes
/// beyond its messages counts as encoding. Where there are nodes a worker encodes its part of their sums.
planner::Compressor measured_compressor(const TimedCompressor& timed, const std::vector<std::int64_t>& sizes,
                                        const traces::Network& network, std::uint32_t workers,
                                        std::uint32_t workers_per_node) {
  planner::Compressor out = timed.compressor;
  planner::Way way;
  way.compressor = out;
  const planner::WayCost cost(network, workers, way);
  std::vector<std::pair<double, double>> encode;
  std::vector<std::pair<double, double>> decode;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const CodeTimes& times = timed.times[i];
    const bool is_on_the_way = cost.is_sparse();
    const double further = is_on_the_way ? times.carry_us - cost.us(CollectiveKind::all_reduce, sizes[i]) : 0;
    const double encoded = static_cast<double>(sizes[i]) / (needs_nodes(out) ? workers_per_node : 1);
    encode.emplace_back(encoded, times.encode_us + std::max(0.0, further));
    decode.emplace_back(static_cast<double>(sizes[i]), times.decode_us);
    if (!out.sparse && !out.between_nodes) out.ratio = times.ratio;
  }
  out.encode = curve_cost(std::move(encode));
  out.decode = curve_cost(std::move(decode));
  out.decodes_each = false;
  if (out.sparse && !out.sparse->recompute_selection.is_free()) out.sparse->recompute_selection = out.encode;
  return out;
}

transport::Bytes bytes_of(const std::string& text) {
  return transport::to_bytes(std::span<const char>(text));
}

}  // namespace

std::vector<std::int64_t> calibration_sizes(const traces::Profile& profile, const CalibrationWishes& wishes) {
  std::vector<std::int64_t> before = {0};  // bytes of the first n tensors in backward order
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer)
    for (auto tensor = layer->tensors.rbegin(); tensor != layer->tensors.rend(); ++tensor)
      before.push_back(before.back() + tensor->elements * traces::bytes_per_element(profile.dtype));
  const auto is_a_group = [&](std::int64_t bytes) {
    return std::ranges::any_of(
        before, [&](std::int64_t begin) { return std::ranges::binary_search(before, begin + bytes); });
  };
  const auto least = static_cast<double>(wishes.least_bytes);
  const auto most = std::max(
      2 * least, static_cast<double>(std::min(wishes.most_bytes, before.back() + before.back() / 8)));
  std::vector<std::int64_t> out;
  for (std::uint32_t i = 0; i < wishes.sizes; ++i) {
    const double share = wishes.sizes == 1 ? 1 : static_cast<double>(i) / (wishes.sizes - 1);
    auto bytes = 4 * static_cast<std::int64_t>(least * std::pow(most / least, share) / 4);
    while (is_a_group(bytes) || (!out.empty() && bytes <= out.back())) bytes += 4;
    out.push_back(bytes);
  }
  return out;
}

Calibration calibrate(Crew& crew, const std::vector<Wishes>& all, const CalibrationWishes& wishes,
                      const CrewHooks& hooks) {
  const Wishes& first = all.front();
  const Needs needs = needs_of(all);
  const std::vector<std::int64_t> sizes = calibration_sizes(first.profile, wishes);
  const Terms terms = {
      .wishes = wishes, .workers_per_node = first.workers_per_node, .burst_bytes = crew.burst_bytes()};
  const Crew::Task rank = [&](Transport& transport, measure::Engine* engine, const Crew::Tell& tell) {
    Calibration out = {
        .network = {}, .profile = first.profile, .overlap = {}, .compressors = {}, .where = crew.where()};
    if (engine != nullptr) out.where += "; " + engine->description();
    const std::vector<measure::Samples> samples =
        measured_collectives(transport, engine, needs, terms, sizes, tell);
    std::vector<traces::Level> levels;
    if (needs.levels) {
      tell("calibration of links inside nodes and between them");
      levels = measured_levels(transport, first.workers_per_node, sizes, std::min(7U, wishes.repetitions),
                               terms.burst_bytes);
    }
    std::vector<TimedCompressor> compressors;
    for (const Asked& asked : needs.compressors) {
      tell("calibration of " + asked.compressor.name);
      compressors.push_back(time_compressor(transport, asked, sizes, first.workers_per_node, wishes));
    }
    if (first.layers) {
      tell("calibration of layers");
      LayerTimes times = measured_layers(transport, engine, first, wishes.layer_repetitions);
      out.profile = std::move(times.profile);
      out.overlap = times.overlap;
    }
    if (transport.rank() != 0) return transport::Bytes();
    const std::optional<double> rate = crew.bits_per_second();
    const std::string ran = measure::what_ran(samples);
    out.network = measure::network(samples, {.name = "live",
                                             .source = out.where + (ran.empty() ? "" : "; " + ran),
                                             .line_rate_gbps = rate ? std::optional(*rate / 1e9) : rate});
    out.network.levels = std::move(levels);
    out.asked = needs.compressors;
    for (const TimedCompressor& timed : compressors)
      out.compressors.push_back(
          measured_compressor(timed, sizes, out.network, transport.size(), first.workers_per_node));
    return bytes_of(calibration_text(out));
  };
  const transport::Bytes bytes = crew.run(rank, hooks);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return read_calibration(models::Field::parse(text, "calibration"));
}

namespace {

Asked read_asked(const models::Field& field) {
  return {.compressor = planner::read_compressor(field.at("compressor")),
          .error_feedback = field.at("error_feedback").boolean()};
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  ordered_json compressors = ordered_json::array();
  for (const planner::Compressor& compressor : calibration.compressors)
    compressors.push_back(planner::compressor_json(compressor));
  ordered_json asked = ordered_json::array();
  for (const Asked& each : calibration.asked)
    asked.push_back(
        {{"compressor", planner::compressor_json(each.compressor)}, {"error_feedback", each.error_feedback}});
  return models::json_text({{"where", calibration.where},
                            {"network", ordered_json::parse(traces::network_text(calibration.network))},
                            {"profile", ordered_json::parse(traces::profile_text(calibration.profile))},
                            {"overlap",
                             {{"compute_slowdown", calibration.overlap.compute_slowdown},
                              {"communication_slowdown", calibration.overlap.communication_slowdown}}},
                            {"compressors", std::move(compressors)},
                            {"asked", std::move(asked)}});
}

Calibration read_calibration(const models::Field& field) {
  Calibration out = {.network = traces::read_network(field.at("network")),
                     .profile = traces::read_profile(field.at("profile")),
                     .overlap = {},
                     .compressors = {},
                     .where = field.at("where").text()};
  const models::Field overlap = field.at("overlap");
  out.overlap = {
      .compute_slowdown = overlap.at("compute_slowdown").number(0, traces::kMostOverlapSlowdown),
      .communication_slowdown = overlap.at("communication_slowdown").number(0, traces::kMostOverlapSlowdown)};
  for (const models::Field& each : field.at("compressors").items())
    out.compressors.push_back(planner::read_compressor(each));
  for (const models::Field& each : field.at("asked").items()) out.asked.push_back(read_asked(each));
  return out;
}

}  // namespace live
