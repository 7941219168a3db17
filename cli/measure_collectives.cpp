// fusewise measure --workers N: measures collectives on this host, in network namespaces or across hosts, and
// writes a network.

#include "cli/measure.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/measure_overlap.hpp"
#include "cli/measure_ranks.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/quantities.hpp"
#include "planner/job/registry.hpp"
#include "profiler/measure/report.hpp"

namespace cli {
namespace {

using core::InputError;

struct Options {
  std::string collectives = "all_reduce,reduce_scatter,all_gather,send_receive";
  std::string sizes = "1KiB..64MiB";
  std::uint32_t repetitions = 20;
  std::uint32_t warm_up = 3;
  bool isolated = false;
  bool back_to_back = false;
  bool drain = false;
  std::string name;
  std::string output;
  bool json = false;
  std::string samples;
};

std::vector<measure::Collective> collectives_of(const std::string& text) {
  std::vector<measure::Collective> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto all = measure::collectives();
    const std::string name = known_name("--collectives", text.substr(at, end - at), planner::names(all));
    const auto found = std::ranges::find(all, name, &measure::CollectiveEntry::name);
    if (std::ranges::find(out, found->kind) != out.end()) reject("--collectives", "each once", text);
    out.push_back(found->kind);
    at = end + 1;
  }
  return out;
}

std::vector<std::int64_t> sizes_of(const std::string& text) {
  const std::optional<std::vector<std::int64_t>> sizes = core::parse_sizes(text);
  if (!sizes) reject("--sizes", "sizes such as 1KiB..64MiB,100MB", text);
  for (const std::int64_t size : *sizes)
    if (size % 4 != 0 || size > (std::int64_t{1} << 32))
      reject("--sizes", "multiples of 4 bytes up to 4GiB", std::to_string(size));
  return *sizes;
}

measure::RunOptions wanted_of(const Options& options) {
  measure::RunOptions out = {
      .collectives = collectives_of(options.collectives),
      .sizes = sizes_of(options.sizes),
      .repetitions = options.repetitions,
      .warm_up = options.warm_up,
      .timing = options.back_to_back ? measure::Timing::back_to_back : measure::Timing::isolated};
  if ((!options.output.empty() || options.json) && !measure::makes_network(out))
    reject("--collectives",
           "all_reduce, reduce_scatter, all_gather or, of two sizes, send_receive among them with "
           "--output or --json, as nothing else makes a network",
           options.collectives);
  return out;
}

std::string description(const measure::RunOptions& run_options, bool drains, const RankContext& context,
                        const std::vector<measure::Samples>& samples) {
  std::string out = fmt::format("{} processes, {}; {}; medians of {} {} repetitions after {}, checked",
                                context.ranks, context.where, context.transport, run_options.repetitions,
                                run_options.timing == measure::Timing::isolated ? "isolated" : "back-to-back",
                                run_options.warm_up);
  if (context.burst_bytes > 0)
    out += drains ? "; link buffers drained before each"
                  : fmt::format("; after a pause, a burst of up to {} passes faster than the rate",
                                core::bytes_text(context.burst_bytes));
  for (const std::string& more : {measure::what_ran(samples), measure::halves_text(samples)})
    if (!more.empty()) out += "; " + more;
  return out;
}

void report(const Options& options, std::string_view backend, const measure::RunOptions& run_options,
            const RankContext& context, const std::vector<measure::Samples>& samples) {
  const std::string how = description(run_options, options.drain, context, samples);
  const measure::NetworkInfo about = {.name = options.name.empty() ? std::string(backend) : options.name,
                                      .source = "fusewise measure: " + how,
                                      .line_rate_gbps = context.bits_per_second
                                                            ? std::optional(*context.bits_per_second / 1e9)
                                                            : std::nullopt};
  const bool has_network = measure::makes_network(run_options);  // a broadcast has a table but no curve
  const std::string network =
      has_network ? core::network_text(measure::network(samples, about)) : std::string();
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({.file = options.output, .text = network});
  if (!options.samples.empty()) files.push_back({.file = options.samples, .text = measure::csv(samples)});
  core::write_files(files);
  print(has_network && (options.output.empty() || options.json) ? network
                                                                : how + '\n' + measure::table(samples));
}

void measure_command(const Options& options, const RankOptions& ranks) {
  const std::string_view backend = collective_backend(ranks.backend).name;
  const measure::RunOptions requested = wanted_of(options);
  std::vector<measure::Samples> samples;
  StepLine line(requested.collectives.size() * requested.sizes.size());
  on_ranks(
      ranks,
      {.work =
           [&](transport::Tcp& control, measure::Engine& engine, const RankContext& context) {
             measure::RunOptions run_options = requested;
             run_options.drain_bytes = context.burst_bytes;
             const bool is_first = control.rank() == 0;
             samples = measure::run(
                 control, engine, run_options, [&](measure::Collective kind, std::int64_t bytes) {
                   if (is_first)
                     line.next(fmt::format("{} of {}", measure::entry(kind).name, core::bytes_text(bytes)));
                 });
             if (is_first) line.end();
           },
       .report = [&](const RankContext& context) { report(options, backend, requested, context, samples); }});
}

}  // namespace

MeasureKind add_measure_collectives(const Command& measure) {
  auto options = std::make_shared<Options>();
  auto ranks = std::make_shared<RankOptions>();
  const Command command = measure.add_group("Collectives", "time of the collectives of several processes");
  std::string backends = "Backends:\n";
  for (const measure::CollectiveBackend& backend : measure::collective_backends())
    backends += fmt::format("  {:<10} {}\n", backend.name, backend.summary);
  measure.footer(
      backends +
      "Without --workers, the command is one of the processes that mpirun, srun or torchrun starts (or\n"
      "that have FUSEWISE_RANK, FUSEWISE_WORLD_SIZE and FUSEWISE_MASTER=HOST:PORT in the environment).\n"
      "All of them need the same FUSEWISE_SECRET, or the same text in the file FUSEWISE_SECRET_FILE.\n"
      "Example: fusewise measure --workers 4 --rate 1gbit --sizes 128KiB..16MiB -o lab.network.json");
  add_rank_options(command, ranks);
  command
      .add_option("--collectives", options->collectives,
                  fmt::format("some of {}", fmt::join(planner::names(measure::collectives()), ", ")))
      .show_default();
  command.add_option("--sizes", options->sizes, "sizes in bytes; A..B means A, 2A, 4A and so on up to B")
      .show_default();
  command.add_option("--warm-up", options->warm_up, "repetitions before the measured ones")
      .check(range(1U, 1'000'000U))
      .show_default();
  const Option isolated =
      command.add_flag("--isolated", options->isolated, "measure each repetition separately (default)");
  command
      .add_flag("--back-to-back", options->back_to_back,
                fmt::format("measure {} repetitions in a row at once", measure::kBatch))
      .excludes(isolated);
  command.add_flag(
      "--drain", options->drain,
      "in namespaces: before each repetition, send the burst that a link passes faster than its rate");
  command.add_option("--name", options->name, "name of the network (default: that of the backend)");
  command.add_output("--samples", options->samples, "write the time of each repetition to this CSV file");
  auto overlap = std::make_shared<OverlapOptions>();
  add_overlap_options(command, overlap);
  std::vector<Option> own = command.options();
  const auto at = std::ranges::find(own, "--backend", &Option::name);
  const Option backend = *at;
  own.erase(at);
  return {.own_options = own,
          .run =
              [options, ranks, overlap](const MeasureOptions& common) {
                if (!overlap->model.empty())
                  return measure_overlap(*overlap, *ranks, static_cast<int>(options->warm_up),
                                         static_cast<int>(common.repetitions.value_or(10)), common);
                options->repetitions = common.repetitions.value_or(options->repetitions);
                options->output = common.output;
                options->json = common.json;
                measure_command(*options, *ranks);
              },
          .backend = [backend,
                      ranks] { return backend.is_given() ? std::optional(ranks->backend) : std::nullopt; }};
}

}  // namespace cli
