#include "validate/live/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/collectives.hpp"
#include "collectives/transport/low_latency.hpp"
#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "core/profile.hpp"
#include "profiler/measure/report.hpp"
#include "profiler/measure/run.hpp"
#include "validate/live/codec.hpp"
#include "validate/live/fusion_buffer_engine.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/levels.hpp"
#include "validate/live/memory.hpp"
#include "validate/live/runnable.hpp"

namespace live {
namespace {

using core::CollectiveKind;
using nlohmann::ordered_json;
using transport::Transport;

// ---- what plans need

struct Needs {
  std::vector<std::string> all_reduces;  ///< without duplicates; the next member likewise
  std::vector<RequestedCompressor> compressors;
  bool halves = false;
  bool gathers = false;
  bool levels = false;  ///< whether links of nodes are measured
};

template <typename T>
void add_once(std::vector<T>& to, const T& value) {
  if (std::ranges::find(to, value) == to.end()) to.push_back(value);
}

Needs needs_of(const std::vector<RunSpec>& all) {
  Needs out;
  for (const RunSpec& spec : all) {
    const auto program = spec.schedule.pipeline->program(1, spec.schedule.options);
    const bool halves = !program.has_all_reduces_alone();
    const bool wholes = program.ops.front().kind == CollectiveKind::all_reduce;
    out.halves = out.halves || halves;
    for (const planner::Transfer& transfer : transfers_of(spec)) {
      if (wholes) add_once(out.all_reduces, transfer.all_reduce.name);
      if (transfer.compressor.is_none()) continue;
      add_once(out.compressors, {.compressor = transfer.compressor, .error_feedback = spec.error_feedback});
      out.levels = out.levels || needs_nodes(transfer.compressor);
      out.gathers = out.gathers || transfer.compressor.collective == CollectiveKind::all_gather;
    }
  }
  return out;
}

std::uint32_t repetitions(const CalibrationOptions& spec, std::int64_t bytes) {
  constexpr std::int64_t kLarge = 1'000'000;
  constexpr std::uint32_t kFewest = 5;
  const auto few = static_cast<std::uint32_t>(spec.repetitions * kLarge / std::max(bytes, kLarge));
  return std::max(std::min(kFewest, spec.repetitions), few);
}

/// The conditions under which collectives are measured.
struct Terms {
  const CalibrationOptions& spec;
  std::uint32_t workers_per_node = 1;
  /// The burst that an idle link lets pass at once. Consecutive groups larger than this find links without
  /// saved bursts and ranks that ended the previous group at different times. Smaller groups leave the links
  /// time, so several are timed at once.
  std::int64_t burst_bytes = 0;
};

/// Spreads the repetitions over several sweeps of all sizes, so that a temporary disturbance does not affect
/// a single size.
void measure_sizes(Transport& transport, measure::Engine& engine, const Terms& terms,
                   measure::Collective kind, const std::vector<std::int64_t>& sizes,
                   std::vector<measure::Samples>& into) {
  const CalibrationOptions& spec = terms.spec;
  constexpr std::uint32_t kSweeps = 3;
  std::vector<measure::Samples> all(sizes.size());
  for (std::uint32_t sweep = 0; sweep < std::min(kSweeps, spec.repetitions); ++sweep)
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const bool is_small = sizes[i] < terms.burst_bytes;
      const measure::RunOptions wanted = {
          .collectives = {kind},
          .sizes = {sizes[i]},
          .repetitions = (repetitions(spec, sizes[i]) + kSweeps - 1) / kSweeps,
          .warm_up = sweep == 0 ? std::max(1U, spec.warm_up) : 1,
          .timing = is_small ? measure::Timing::back_to_back : measure::Timing::following};
      for (measure::Samples& samples : measure::run(transport, engine, wanted)) {
        samples.us.insert(samples.us.end(), all[i].us.begin(), all[i].us.end());
        all[i] = std::move(samples);
      }
    }
  if (transport.rank() == 0) std::ranges::move(all, std::back_inserter(into));
}

/// Valid on rank 0; empty on the others. Uses `engine` if it transfers the groups.
std::vector<measure::Samples> measured_collectives(Transport& transport, measure::Engine* engine,
                                                   const Needs& needs, const Terms& terms,
                                                   const std::vector<std::int64_t>& sizes,
                                                   const WorkerGroup::OnPhase& on_phase) {
  std::vector<measure::Samples> out;
  const auto measure = [&](const std::string& what, measure::Collective kind, const std::string& all_reduce,
                           const std::vector<std::int64_t>& some) {
    on_phase("calibration of " + what);
    FusionBufferEngine fusion_buffers(transport, all_reduce, terms.workers_per_node);
    measure_sizes(transport, engine == nullptr ? fusion_buffers : *engine, terms, kind, some, out);
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

transport::Bytes bytes_of(const std::string& text) {
  return transport::to_bytes(std::span<const char>(text));
}

}  // namespace

std::vector<std::int64_t> calibration_sizes(const core::Profile& profile, const CalibrationOptions& spec) {
  std::vector<std::int64_t> before = {0};  // bytes of the first n tensors in backward order
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer)
    for (auto tensor = layer->tensors.rbegin(); tensor != layer->tensors.rend(); ++tensor)
      before.push_back(before.back() + tensor->elements * core::bytes_per_element(profile.dtype));
  const auto is_a_group = [&](std::int64_t bytes) {
    return std::ranges::any_of(
        before, [&](std::int64_t begin) { return std::ranges::binary_search(before, begin + bytes); });
  };
  const auto min = static_cast<double>(spec.min_bytes);
  const auto max =
      std::max(2 * min, static_cast<double>(std::min(spec.max_bytes, before.back() + before.back() / 8)));
  std::vector<std::int64_t> out;
  for (std::uint32_t i = 0; i < spec.sizes; ++i) {
    const double share = spec.sizes == 1 ? 1 : static_cast<double>(i) / (spec.sizes - 1);
    auto bytes = 4 * static_cast<std::int64_t>(min * std::pow(max / min, share) / 4);
    while (is_a_group(bytes) || (!out.empty() && bytes <= out.back())) bytes += 4;
    out.push_back(bytes);
  }
  return out;
}

Calibration calibrate(WorkerGroup& worker_group, const std::vector<RunSpec>& all,
                      const CalibrationOptions& spec, const WorkerGroupHooks& hooks) {
  check_memory(all, worker_group.workers_here());
  const RunSpec& first = all.front();
  const Needs needs = needs_of(all);
  const std::vector<std::int64_t> sizes = calibration_sizes(first.profile, spec);
  const Terms terms = {
      .spec = spec, .workers_per_node = first.workers_per_node, .burst_bytes = worker_group.burst_bytes()};
  const WorkerGroup::Task rank = [&](Transport& transport, measure::Engine* engine,
                                     const WorkerGroup::OnPhase& on_phase) {
    Calibration out = {.network = {},
                       .profile = first.profile,
                       .overlap = {},
                       .compressors = {},
                       .where = worker_group.where()};
    if (engine != nullptr) out.where += "; " + engine->description();
    std::vector<measure::Samples> samples;
    std::vector<core::Level> levels;
    transport::run_with_low_latency([&] {
      samples = measured_collectives(transport, engine, needs, terms, sizes, on_phase);
      if (!needs.levels) return;
      on_phase("calibration of links inside nodes and between them");
      levels = measured_levels(transport, first.workers_per_node, sizes, std::min(7U, spec.repetitions),
                               terms.burst_bytes);
    });
    std::vector<TimedCompressor> compressors;
    std::vector<std::vector<CodeLoad>> loads;
    const std::chrono::milliseconds deadline(
        static_cast<std::int64_t>(1000 * worker_group.place().deadline_s));
    for (const RequestedCompressor& requested : needs.compressors) {
      on_phase("calibration of " + requested.compressor.name);
      loads.push_back(code_loads(requested.compressor, sizes, first.profile));
      compressors.push_back(
          time_compressor(transport, requested, loads.back(), first.workers_per_node,
                          {.rounds = spec.repetitions, .seed = spec.seed, .deadline = deadline}));
    }
    if (first.layers) {
      on_phase("calibration of layers");
      FusionBufferEngine fusion_buffers(
          transport, needs.all_reduces.empty() ? "ring" : needs.all_reduces.front(), terms.workers_per_node);
      RunningLayers* const layers =
          first.layers->are_run_by(transport.rank()) ? &worker_group.layers(*first.layers) : nullptr;
      LayerTimes times = measured_layers(transport, engine == nullptr ? fusion_buffers : *engine, first,
                                         layers, spec.layer_repetitions);
      out.profile = std::move(times.profile);
      out.overlap = times.overlap;
    }
    if (transport.rank() != 0) return transport::Bytes();
    const std::optional<double> rate = worker_group.bits_per_second();
    const std::string ran = measure::what_ran(samples);
    out.network = measure::network(samples, {.name = "live",
                                             .source = out.where + (ran.empty() ? "" : "; " + ran),
                                             .line_rate_gbps = rate ? std::optional(*rate / 1e9) : rate});
    out.network.levels = std::move(levels);
    out.requested = needs.compressors;
    for (std::size_t i = 0; i < compressors.size(); ++i)
      out.compressors.push_back(measured_compressor(compressors[i], loads[i], out.network, transport.size()));
    return bytes_of(calibration_text(out));
  };
  const transport::Bytes bytes = worker_group.run(rank, hooks);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return read_calibration(core::Field::parse(text, "calibration"));
}

namespace {

RequestedCompressor read_requested(const core::Field& field) {
  return {.compressor = planner::read_compressor(field.at("compressor")),
          .error_feedback = field.at("error_feedback").boolean()};
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  ordered_json compressors = ordered_json::array();
  for (const planner::Compressor& compressor : calibration.compressors)
    compressors.push_back(planner::compressor_json(compressor));
  ordered_json requested = ordered_json::array();
  for (const RequestedCompressor& each : calibration.requested)
    requested.push_back(
        {{"compressor", planner::compressor_json(each.compressor)}, {"error_feedback", each.error_feedback}});
  return core::json_text({{"where", calibration.where},
                          {"network", ordered_json::parse(core::network_text(calibration.network))},
                          {"profile", ordered_json::parse(core::profile_text(calibration.profile))},
                          {"overlap",
                           {{"compute_slowdown", calibration.overlap.compute_slowdown},
                            {"communication_slowdown", calibration.overlap.communication_slowdown}}},
                          {"compressors", std::move(compressors)},
                          {"requested", std::move(requested)}});
}

Calibration read_calibration(const core::Field& field) {
  Calibration out = {.network = core::read_network(field.at("network")),
                     .profile = core::read_profile(field.at("profile")),
                     .overlap = {},
                     .compressors = {},
                     .where = field.at("where").text()};
  const core::Field overlap = field.at("overlap");
  out.overlap = {
      .compute_slowdown = overlap.at("compute_slowdown").number(0, core::kMaxOverlapSlowdown),
      .communication_slowdown = overlap.at("communication_slowdown").number(0, core::kMaxOverlapSlowdown)};
  for (const core::Field& each : field.at("compressors").items())
    out.compressors.push_back(planner::read_compressor(each));
  for (const core::Field& each : field.at("requested").items()) out.requested.push_back(read_requested(each));
  return out;
}

}  // namespace live
