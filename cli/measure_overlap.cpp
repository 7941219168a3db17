#include "cli/measure_overlap.hpp"
#include "cli/bundled.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "core/model/model.hpp"
#include "core/profile.hpp"
#include "core/quantities.hpp"
#include "core/statistics.hpp"
#include "profiler/common/host.hpp"
#include "profiler/layers/backend.hpp"
#include "profiler/measure/overlap/overlap.hpp"

namespace cli {
namespace {

using core::InputError;

/// The backend that runs layers on the device that holds the buffers of the collectives.
const profiler::Backend& layer_backend(const measure::CollectiveBackend& collectives) {
  const std::string_view name = collectives.uses_control ? "cpu" : "cuda";
  return *std::ranges::find(profiler::backends(), name, &profiler::Backend::name);
}

std::int64_t size_of(const std::string& text) {
  const auto sizes = core::parse_sizes(text);
  if (!sizes || sizes->size() != 1 || sizes->front() % 4 != 0)
    throw InputError(fmt::format("--overlap-size: expected one size, a multiple of 4 bytes, got '{}'",
                                 core::printable(text)));
  return sizes->front();
}

core::Profile profile_to_write(const OverlapOptions& options, const core::Model& model, std::int64_t batch) {
  const core::Field file = core::Field::load(input_path(Bundled::profile, options.into));
  core::Profile out = core::read_profile(file);
  if (out.model != model.name)
    file.at("model").expected(fmt::format("'{}', the model of --overlap", model.name));
  if (out.batch_size != batch)
    file.at("batch_size").expected(fmt::format("{}, the measured batch size", batch));
  return out;
}

/// The median over the ranks, at least 0, because a speed-up is noise.
double median_over_ranks(const std::vector<profiler::OverlapSamples>& ranks,
                         double (profiler::OverlapSamples::*slowdown)() const) {
  std::vector<double> all;
  for (const profiler::OverlapSamples& rank : ranks) all.push_back((rank.*slowdown)());
  return std::max(0.0, core::quantile(all, 0.5));
}

/// A speed-up of more than this shows that the machine was noisy.
constexpr double kMaxNoise = 0.05;

bool is_noisy(const std::vector<profiler::OverlapSamples>& ranks) {
  return std::ranges::any_of(ranks, [](const profiler::OverlapSamples& rank) {
    return rank.compute_slowdown() < -kMaxNoise || rank.communication_slowdown() < -kMaxNoise;
  });
}

std::string spread_over_ranks(const std::vector<profiler::OverlapSamples>& ranks,
                              double (profiler::OverlapSamples::*slowdown)() const) {
  std::vector<double> all;
  for (const profiler::OverlapSamples& rank : ranks) all.push_back((rank.*slowdown)());
  const auto [min, max] = std::ranges::minmax(all);
  return fmt::format("{:.3f} to {:.3f}", min, max);
}

std::string summary_text(const std::vector<profiler::OverlapSamples>& ranks, const RankContext& context,
                         std::int64_t bytes) {
  const auto us = [](const std::vector<double>& samples) { return core::statistics(samples).median; };
  const profiler::OverlapSamples& first = ranks.front();
  std::string out = fmt::format(
      "{} processes, {}; {}; rank 0: an iteration {:.1f} us alone, {:.1f} us while all_reduces of {} run "
      "(median of {}); an all_reduce {:.1f} us alone, {:.1f} us during iterations; slow-downs of the ranks "
      "{} (compute) and {} (communication)",
      context.ranks, context.where, context.transport, us(first.compute_alone), us(first.compute_overlapped),
      core::bytes_text(bytes), first.compute_overlapped.size(), us(first.communication_alone),
      us(first.communication_overlapped),
      spread_over_ranks(ranks, &profiler::OverlapSamples::compute_slowdown),
      spread_over_ranks(ranks, &profiler::OverlapSamples::communication_slowdown));
  if (is_noisy(ranks)) out += "; machine: noisy (something ran faster during the other than alone)";
  return out;
}

std::string output_text(const std::optional<core::Profile>& profile, const core::ProfileOverlap& overlap,
                        const std::string& how) {
  if (!profile)
    return core::json_text(
        nlohmann::ordered_json{{"compute_slowdown", overlap.compute_slowdown},
                               {"communication_slowdown", overlap.communication_slowdown}});
  core::Profile out = *profile;
  out.origin.source += "; overlap: " + how;
  return core::profile_text(out, overlap);
}

}  // namespace

void measure_overlap(const OverlapOptions& options, const RankOptions& ranks, int warm_up, int repetitions,
                     const MeasureOptions& common) {
  const profiler::Backend& backend = layer_backend(collective_backend(ranks.backend));
  const core::Model model =
      core::read_model(core::Field::load(input_path(Bundled::model, options.model)), {});
  const std::int64_t bytes = size_of(options.size);
  const std::int64_t batch = options.batch.value_or(model.batch_size);
  std::optional<core::Profile> profile;
  if (!options.into.empty()) profile = profile_to_write(options, model, batch);
  std::vector<profiler::OverlapSamples> samples;
  StepLine line;
  const std::size_t width = terminal_width(STDOUT_FILENO);  // in a rank it leads to this process
  const auto work = [&](transport::Transport& control, measure::Engine& engine, const RankContext& context) {
    const int share = std::max(1, profiler::processor_count() / static_cast<int>(context.ranks));
    const profiler::SessionOptions session_options = {
        .batch_size = batch,
        .dtype = profile ? profile->dtype : core::Dtype::float32,
        .threads = options.threads.value_or(share)};
    backend.check(session_options);
    if (control.rank() == 0) line.next("the layers are prepared");
    const profiler::ModelWork layers = profiler::make_work(model);
    const auto session = backend.open(layers, session_options);
    samples = profiler::measure_overlap(control, engine, [&] { return session->time_iteration(); },
                                        {.bytes = bytes,
                                         .warm_up = warm_up,
                                         .repetitions = repetitions,
                                         .progress = [&](std::size_t total, const std::string& what) {
                                           if (control.rank() == 0) line.next(total + 1, what);
                                         }});
    if (control.rank() == 0) line.end();
  };
  const auto report = [&](const RankContext& context) {
    const core::ProfileOverlap overlap = {
        .compute_slowdown = median_over_ranks(samples, &profiler::OverlapSamples::compute_slowdown),
        .communication_slowdown =
            median_over_ranks(samples, &profiler::OverlapSamples::communication_slowdown)};
    const std::string how = summary_text(samples, context, bytes);
    const std::string summary =
        fitted(fmt::format("{}\ncompute_slowdown {:.4f}, communication_slowdown {:.4f}\n", how,
                           overlap.compute_slowdown, overlap.communication_slowdown),
               width);
    if (!profile && common.output.empty() && !common.json) return print(printable_lines(summary));
    write_or_print(common.output, output_text(profile, overlap, how), summary, common.json);
  };
  on_ranks(ranks, {.work = work, .report = report, .computes = true});
}

void add_overlap_options(const Command& command, const std::shared_ptr<OverlapOptions>& options) {
  const Option overlap = command.add_option(
      "--overlap", options->model,
      "measure instead how much the layers of this fusewise.model and all-reduces slow each other");
  command
      .add_option("--into", options->into,
                  "profile to which the measured overlap is added; its layers stay unchanged")
      .needs(overlap);
  command.add_option("--batch,--batch-size", options->batch, "samples (default: those of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000))
      .needs(overlap);
  command
      .add_option("--threads", options->threads, "threads of each process (default: its share of the cores)")
      .check(range(1, 4096))
      .needs(overlap);
  command.add_option("--overlap-size", options->size, "size of each all-reduce")
      .show_default()
      .needs(overlap);
}

}  // namespace cli
