// fusewise measure --workers N: collectives timed on this host, in network namespaces or across hosts become
// a network.

#include "cli/measure.hpp"

#include <memory>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cluster/patterns.hpp"
#include "models/errors.hpp"
#include "models/field.hpp"
#include "models/files.hpp"
#include "models/quantities.hpp"
#include "netlab/lab.hpp"
#include "netlab/registry.hpp"
#include "planner/entries.hpp"
#include "profiler/measure/report.hpp"
#include "transport/launch.hpp"
#include "transport/tcp/tcp.hpp"

namespace cli {
namespace {

using models::InputError;
using models::WorldError;
using transport::Membership;

struct Options {
  std::string backend = "tcp";
  std::uint32_t workers = 0;
  std::string rate;
  std::string delay;
  std::string netlab;
  bool paced = false;
  std::string collectives = "all_reduce,reduce_scatter,all_gather,send_receive";
  std::string algorithm = "ring";
  std::string sizes = "1KiB..64MiB";
  std::uint32_t repetitions = 20;
  std::uint32_t warm_up = 3;
  bool isolated = false;
  bool back_to_back = false;
  double deadline_s = 60;
  std::string name;
  std::string output;
  std::string samples;
};

[[noreturn]] void expected(std::string_view option, std::string_view what, std::string_view got) {
  throw InputError(fmt::format("{}: expected {}, got '{}'", option, what, models::printable(got)));
}

/// What all ranks do, and how the result says so.
struct Task {
  const measure::CollectiveBackend* backend = nullptr;
  measure::Wanted wanted;
  std::string algorithm;
  std::optional<double> bits_per_second;
  std::chrono::milliseconds deadline{};
  std::string where;
};

std::vector<std::string_view> algorithms() {
  std::vector<std::string_view> names;
  for (const cluster::PatternEntry& entry : cluster::patterns())  // without those that need to know of nodes
    if (entry.outcome == cluster::Outcome::all_reduce && entry.name != "two_level" && entry.name != "torus")
      names.push_back(entry.name);
  return names;
}

std::vector<measure::Collective> collectives_of(const std::string& text) {
  std::vector<measure::Collective> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, end - at);
    const auto all = measure::collectives();
    const auto found = std::ranges::find(all, name, &measure::CollectiveEntry::name);
    const std::vector<std::string_view> known = planner::names(all);
    if (found == all.end())
      expected("--collectives", fmt::format("some of {}", fmt::join(known, ", ")), name);
    if (std::ranges::find(out, found->kind) != out.end()) expected("--collectives", "each once", text);
    out.push_back(found->kind);
    at = end + 1;
  }
  return out;
}

std::vector<std::int64_t> sizes_of(const std::string& text) {
  const std::optional<std::vector<std::int64_t>> sizes = models::parse_sizes(text);
  if (!sizes) expected("--sizes", "sizes such as 1KiB..64MiB,100MB", text);
  for (const std::int64_t size : *sizes)
    if (size % 4 != 0 || size > (std::int64_t{1} << 32))
      expected("--sizes", "multiples of 4 bytes up to 4GiB", std::to_string(size));
  return *sizes;
}

Task task_of(const Options& options) {
  Task task;
  task.backend = measure::find_backend(options.backend);
  const std::vector<std::string_view> backends = planner::names(measure::collective_backends());
  if (task.backend == nullptr)
    expected("--backend", fmt::format("one of {}", fmt::join(backends, ", ")), options.backend);
  const std::vector<std::string_view> known = algorithms();
  if (std::ranges::find(known, options.algorithm) == known.end())
    expected("--algorithm", fmt::format("one of {}", fmt::join(known, ", ")), options.algorithm);
  task.algorithm = options.algorithm;
  task.wanted = {.collectives = collectives_of(options.collectives),
                 .sizes = sizes_of(options.sizes),
                 .repetitions = options.repetitions,
                 .warm_up = options.warm_up,
                 .timing = options.back_to_back ? measure::Timing::back_to_back : measure::Timing::isolated};
  if (!options.rate.empty()) {
    task.bits_per_second = models::parse_rate(options.rate);
    if (!task.bits_per_second) expected("--rate", "a rate such as 1gbit", options.rate);
  }
  task.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_s * 1000));
  if (!options.delay.empty()) {
    if (!models::parse_delay_us(options.delay)) expected("--delay", "a time such as 100us", options.delay);
    if (options.rate.empty()) throw InputError("--delay: expected --rate with it, got none");
  }
  return task;
}

std::string rate_text(double bits_per_second) { return fmt::format("{:g} Gb/s", bits_per_second / 1e9); }

/// A rank's work; what rank 0 finds it writes and prints.
void run_rank(const Options& options, const Task& task, const Membership& membership,
              std::optional<double> paced_bits_per_second) {
  transport::TcpOptions tcp = {.deadline = task.deadline};
  if (paced_bits_per_second) tcp.bytes_per_second = *paced_bits_per_second / 8;
  std::vector<measure::Samples> samples;
  std::string carried;
  transport::run_rank(membership, tcp, [&](transport::Tcp& end) {
    const std::unique_ptr<measure::Engine> engine = task.backend->make(end, task.algorithm);
    carried = engine->description();
    samples = measure::run(end, *engine, task.wanted);
  });
  if (membership.rank != 0) return;
  const bool is_isolated = task.wanted.timing == measure::Timing::isolated;
  const std::string how = fmt::format("{} processes, {}; {}; medians of {} {} repetitions after {}, checked",
                                      membership.size, task.where, carried, task.wanted.repetitions,
                                      is_isolated ? "isolated" : "back-to-back", task.wanted.warm_up);
  const measure::About about = {
      .name = options.name.empty() ? options.backend : options.name,
      .source = "fusewise measure: " + how,
      .line_rate_gbps = task.bits_per_second ? std::optional(*task.bits_per_second / 1e9) : std::nullopt};
  const std::string network = traces::network_text(measure::network(samples, about));
  std::vector<models::FileText> files;
  if (!options.output.empty()) files.push_back({.file = options.output, .text = network});
  if (!options.samples.empty()) files.push_back({.file = options.samples, .text = measure::csv(samples)});
  models::write_files(files);
  print(options.output.empty() ? network : how + '\n' + measure::table(samples));
}

/// Where ranks on this host are put.
struct Place {
  std::optional<netlab::Lab> lab;
  std::unique_ptr<netlab::Loan> loan;  // of the lab, where it is ours
  std::optional<double> paced_bits_per_second;
  std::string where = "loopback";
};

std::string shape_text(const netlab::Shape& shape) {
  return fmt::format("network namespaces, each link held to {}{}", rate_text(shape.bits_per_second),
                     shape.delay_us > 0 ? fmt::format(", packets delayed by {:g} us", shape.delay_us) : "");
}

Place standing_lab(const std::string& name) {
  const std::optional<netlab::Lab> lab = netlab::find_lab(netlab::registry_folder(), name);
  if (!lab) throw WorldError(fmt::format("netlab '{}' is not up (fusewise netlab up --name {})", name, name));
  Place place;
  place.lab = lab;
  place.where = shape_text(lab->shape);
  return place;
}

Place own_place(const Options& options, const Task& task) {
  Place place;
  if (!task.bits_per_second) return place;
  const double delay_us = options.delay.empty() ? 0 : *models::parse_delay_us(options.delay);
  if (!options.paced) {
    try {
      place.loan = std::make_unique<netlab::Loan>(netlab::Shape{
          .workers = options.workers, .bits_per_second = *task.bits_per_second, .delay_us = delay_us});
      place.lab = place.loan->lab();
      place.where = shape_text(place.lab->shape);
      return place;
    } catch (const WorldError& error) {
      if (delay_us > 0) throw;
      warn({fmt::format("{}: the processes pace themselves to {} on loopback instead", error.what(),
                        rate_text(*task.bits_per_second))});
    }
  }
  place.paced_bits_per_second = task.bits_per_second;
  place.where = fmt::format("loopback, each process paced to {}", rate_text(*task.bits_per_second));
  return place;
}

transport::Address lab_address(std::uint16_t port) { return {.host = netlab::address(0), .port = port}; }

/// Ports of a lab that others may use at the same time are drawn; on loopback the system gives a free one.
void measure_here(const Options& options, Task task) {
  Place place = options.netlab.empty() ? own_place(options, task) : standing_lab(options.netlab);
  const std::uint32_t workers = options.workers != 0 ? options.workers : place.lab->shape.workers;
  if (place.lab && workers > place.lab->shape.workers)
    expected("--workers", fmt::format("at most {}, as the netlab has", place.lab->shape.workers),
             std::to_string(workers));
  if (place.lab) task.bits_per_second = place.lab->shape.bits_per_second;
  task.where = place.where;
  std::random_device random;
  const std::string job = fmt::format("{}-{}", ::getpid(), random());
  transport::Descriptor listener;
  if (!place.lab) listener = transport::listen_on({.host = "127.0.0.1", .port = 0});
  const transport::Address master =
      place.lab ? lab_address(static_cast<std::uint16_t>(20000 + random() % 30000)) : local_address(listener);
  const auto ends = transport::launch(
      workers,
      [&](std::uint32_t rank) {
        if (place.lab) netlab::enter(*place.lab, rank);
        if (rank != 0) listener.reset();
        const Membership membership = {
            .rank = rank, .size = workers, .master = master, .job = job, .listener = listener.get()};
        run_rank(options, task, membership, place.paced_bits_per_second);
        return 0;
      },
      {.limit = std::chrono::hours(24)});
  const std::string failed = transport::failures(ends);
  if (!failed.empty()) throw WorldError(failed);
  print(ends[0].out);
}

std::optional<Membership> given_membership() {
  try {
    return transport::membership_of(transport::process_environment);
  } catch (const transport::TransportError& error) {
    throw InputError(error.what());
  }
}

void measure_command(const Options& options) {
  Task task = task_of(options);
  if (const std::optional<Membership> membership = given_membership()) {
    if (!options.netlab.empty() || !options.delay.empty())
      throw InputError(
          "--netlab and --delay: expected processes that this command starts, got one of several");
    if (options.workers != 0 && options.workers != membership->size)
      expected("--workers", fmt::format("{}, as there are processes", membership->size),
               std::to_string(options.workers));
    if (membership->size < 2) throw InputError("expected at least 2 processes, got one");
    task.where = "started from outside";
    if (task.bits_per_second)
      task.where += fmt::format(", each paced to {}", rate_text(*task.bits_per_second));
    run_rank(options, task, *membership, task.bits_per_second);
    return;
  }
  if (!options.netlab.empty() && (!options.rate.empty() || options.paced))
    throw InputError(
        "--netlab: expected no --rate, --delay or --paced with it, as the netlab has its own, got one");
  if (options.workers == 0 && options.netlab.empty())
    throw InputError(
        "--workers: expected it, or a --netlab, or a start by mpirun, srun or torchrun, got neither");
  measure_here(options, std::move(task));
}

}  // namespace

MeasureKind add_measure_collectives(CLI::App& measure) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      measure.add_option_group("Collectives", "what several processes take to sum and to exchange");
  std::string backends = "Backends:\n";
  for (const measure::CollectiveBackend& backend : measure::collective_backends())
    backends += fmt::format("  {:<10} {}\n", backend.name, backend.summary);
  measure.footer(
      backends +
      "Without --workers the command is one of the processes that mpirun, srun or torchrun has "
      "started\n(or FUSEWISE_RANK, FUSEWISE_WORLD_SIZE, FUSEWISE_MASTER=HOST:PORT say).\n"
      "Example: fusewise measure --workers 4 --rate 1gbit --sizes 128KiB..16MiB -o lab.network.json");
  command
      ->add_option("--backend", options->backend,
                   fmt::format("one of {}", fmt::join(planner::names(measure::collective_backends()), ", ")))
      ->capture_default_str();
  command->add_option("--workers", options->workers, "start so many processes on this host")
      ->check(CLI::Range(2U, netlab::kMostWorkers));
  command->add_option("--rate", options->rate,
                      "hold each process to this rate: in network namespaces, else by pacing itself");
  command->add_option("--delay", options->delay, "delay packets so long, in network namespaces alone");
  const CLI::Option* netlab =
      command
          ->add_option("--netlab", options->netlab, "in the netlab of this name, or 'default', which is up")
          ->expected(0, 1);
  command->add_flag("--paced", options->paced,
                    "with --rate: on loopback, whether or not there are namespaces");
  command
      ->add_option("--collectives", options->collectives,
                   fmt::format("some of {}", fmt::join(planner::names(measure::collectives()), ", ")))
      ->capture_default_str();
  command
      ->add_option("--algorithm", options->algorithm,
                   fmt::format("of all_reduce: one of {}", fmt::join(algorithms(), ", ")))
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "bytes; A..B are all doublings of A up to B")
      ->capture_default_str();
  command->add_option("--warm-up", options->warm_up, "repetitions before those, which are not counted")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  CLI::Option* isolated =
      command->add_flag("--isolated", options->isolated, "each repetition by itself (default)");
  command->add_flag("--back-to-back", options->back_to_back, fmt::format("{} at once", measure::kBatch))
      ->excludes(isolated);
  command
      ->add_option("--deadline", options->deadline_s, "seconds that a process waits for a message of another")
      ->check(number_in(0.1, 86400))
      ->capture_default_str();
  command->add_option("--name", options->name, "of the network (default: the backend's)");
  command->add_option("--samples", options->samples, "write every repetition to this CSV file")
      ->check(file_name());
  return {.own = command->get_options(), .run = [options, netlab](const MeasureWishes& wishes) {
            options->repetitions = wishes.repetitions.value_or(options->repetitions);
            options->output = wishes.output;
            if (netlab->count() > 0 && options->netlab.empty()) options->netlab = "default";
            measure_command(*options);
          }};
}

}  // namespace cli
