#include "cli/measure_ranks.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "collectives/transport/launch.hpp"
#include "collectives/transport/local_job.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "planner/job/registry.hpp"
#include "validate/netlab/lab.hpp"
#include "validate/netlab/registry.hpp"

namespace cli {
namespace {

using core::EnvironmentError;
using core::InputError;
using transport::Membership;

/// The setup that all ranks share.
struct RankSetup {
  const measure::CollectiveBackend* backend = nullptr;
  measure::EngineOptions options;
  RankContext context;
  std::optional<double> paced_bits_per_second;
};

std::string given_name(std::string_view option, const std::string& given,
                       const std::vector<std::string_view>& known, std::string_view backend) {
  if (given.empty()) return given;
  if (known.empty()) reject(option, fmt::format("none with --backend {}", backend), given);
  return known_name(option, given, known);
}

RankSetup setup_of(const RankOptions& options) {
  RankSetup out;
  out.backend = &collective_backend(options.backend);
  const std::string_view name = out.backend->name;
  if (out.backend->uses_control && options.share_gpu)
    throw InputError(fmt::format("--share-gpu: expected --backend nccl with it, got {}", name));
  if (!out.backend->uses_control && options.paced)
    throw InputError(fmt::format("--paced: expected --backend tcp with it, got {}", name));
  if (!options.rate.empty()) {
    out.context.bits_per_second = read_rate("--rate", options.rate);
  }
  if (!options.delay.empty()) {
    (void)read_delay_us("--delay", options.delay);
    if (options.rate.empty()) throw InputError("--delay: expected --rate with it, got none");
  }
  out.options = {.algorithm = given_name("--algorithm", options.algorithm, out.backend->algorithms(), name),
                 .protocol = given_name("--protocol", options.protocol, out.backend->protocols(), name),
                 .share_gpu = options.share_gpu,
                 .computes = false,
                 .interface = "",
                 .deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_s * 1000))};
  return out;
}

std::string rate_text(double bits_per_second) { return fmt::format("{:g} Gb/s", bits_per_second / 1e9); }

void run_rank(const RankJob& job, RankSetup setup, const Membership& membership, transport::TcpOptions tcp) {
  if (setup.paced_bits_per_second) tcp.bytes_per_second = *setup.paced_bits_per_second / 8;
  setup.context.ranks = membership.size;
  transport::run_rank(membership, tcp, [&](transport::Tcp& end) {
    if (!end.strangers().empty()) print_warnings({end.strangers()});
    setup.options.computes = job.computes;
    setup.options.check_others = [&end] { end.check(); };
    const std::unique_ptr<measure::Engine> engine = setup.backend->make(end, setup.options);
    setup.context.transport = engine->description();
    job.work(end, *engine, setup.context);
  });
  if (membership.rank == 0) job.report(setup.context);
}

/// The network namespaces of ranks on this host; none: they communicate over loopback.
struct LocalNetwork {
  std::optional<netlab::Lab> lab;
  std::unique_ptr<netlab::ScopedLab> loan;  // set if this command created the netlab
  std::optional<netlab::UsedLab> used;      // set if it was there
};

void use_netlab(LocalNetwork& network, const netlab::Lab& lab, RankSetup& setup) {
  network.lab = lab;
  setup.context.bits_per_second = lab.shape.bits_per_second;
  setup.context.burst_bytes = netlab::burst_bytes(lab.shape.bits_per_second);
  setup.context.where = fmt::format(
      "network namespaces, each link held to {}{}", rate_text(lab.shape.bits_per_second),
      lab.shape.delay_us > 0 ? fmt::format(", packets delayed by {:g} us", lab.shape.delay_us) : "");
  setup.options.interface = netlab::kInterface;
}

LocalNetwork existing_netlab(const std::string& name, RankSetup& setup) {
  LocalNetwork out;
  out.used = netlab::use_lab(netlab::registry_folder(), name);
  use_netlab(out, out.used->lab, setup);
  return out;
}

LocalNetwork make_network(const RankOptions& options, RankSetup& setup) {
  LocalNetwork out;
  setup.context.where = "loopback";
  const std::optional<double> rate = setup.context.bits_per_second;
  if (!rate) return out;
  const double delay_us = options.delay.empty() ? 0 : read_delay_us("--delay", options.delay);
  if (!options.paced) {
    try {
      out.loan = std::make_unique<netlab::ScopedLab>(
          netlab::Shape{.workers = options.workers, .bits_per_second = *rate, .delay_us = delay_us});
      use_netlab(out, out.loan->lab(), setup);
      return out;
    } catch (const EnvironmentError& error) {
      if (delay_us > 0 || !setup.backend->uses_control) throw;
      print_warnings({fmt::format("{}: the processes limit their own rate to {} on loopback instead",
                                  error.what(), rate_text(*rate))});
    }
  }
  setup.paced_bits_per_second = rate;
  setup.context.where = fmt::format("loopback, each process paced to {}", rate_text(*rate));
  return out;
}

void run_here(const RankOptions& options, RankSetup setup, const RankJob& job) {
  if (options.workers != 0) measure::check_ranks(*setup.backend, setup.options, options.workers);
  const LocalNetwork network =
      options.netlab.empty() ? make_network(options, setup) : existing_netlab(options.netlab, setup);
  const std::optional<netlab::Lab>& lab = network.lab;
  const std::uint32_t workers = options.workers != 0 ? options.workers : lab->shape.workers;
  if (lab && workers > lab->shape.workers)
    reject("--workers", fmt::format("at most {}, the workers of the netlab", lab->shape.workers),
           std::to_string(workers));
  if (options.workers == 0) measure::check_ranks(*setup.backend, setup.options, workers);
  transport::LocalJob together =
      lab ? transport::LocalJob(workers, netlab::address(0)) : transport::LocalJob(workers);
  transport::LaunchOptions launching = {.limit = std::chrono::hours(24)};
  launching.on_started = [&](const std::vector<pid_t>&) { together.close(); };
  const auto ends = transport::launch(
      workers,
      [&](std::uint32_t rank) {
        if (lab) netlab::enter(*lab, rank);
        if (job.computes && !options.share_gpu)
          ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 0);
        run_rank(job, setup, together.enter(rank),
                 transport::options_of_local_job({.deadline = setup.options.deadline}));
        return 0;
      },
      launching);
  const std::string failed = transport::failures(ends);
  if (!failed.empty()) throw EnvironmentError(failed);
  print_warnings(transport::warnings(ends));
  print(ends[0].out);
}

void run_given(const RankOptions& options, RankSetup setup, const RankJob& job,
               const Membership& membership) {
  if (!options.netlab.empty() || !options.delay.empty())
    throw InputError(
        "--netlab and --delay: expected processes that this command starts, got processes started from "
        "outside");
  if (options.workers != 0 && options.workers != membership.size)
    reject("--workers", fmt::format("{}, the number of processes", membership.size),
           std::to_string(options.workers));
  if (membership.size < 2) throw InputError("expected at least 2 processes, got one");
  setup.context.where = "started from outside";
  if (setup.context.bits_per_second) {
    if (!setup.backend->uses_control)
      throw InputError(
          "--rate: expected processes that this command starts, got processes started from outside");
    setup.context.where += fmt::format(", each paced to {}", rate_text(*setup.context.bits_per_second));
    setup.paced_bits_per_second = setup.context.bits_per_second;
  }
  run_rank(job, setup, membership, {.deadline = setup.options.deadline});
}

}  // namespace

std::optional<Membership> given_membership() {
  try {
    return transport::membership_of(transport::process_environment);
  } catch (const transport::TransportError& error) {
    throw InputError(error.what());
  }
}

const measure::CollectiveBackend& collective_backend(const std::string& name) {
  return *measure::find_backend(
      known_name("--backend", name, planner::names(measure::collective_backends())));
}

void on_ranks(const RankOptions& options, const RankJob& job) {
  RankOptions resolved = options;
  if (resolved.has_netlab && resolved.netlab.empty()) resolved.netlab = "default";
  RankSetup setup = setup_of(resolved);
  if (const std::optional<Membership> membership = given_membership())
    return run_given(resolved, std::move(setup), job, *membership);
  if (!resolved.netlab.empty() && (!resolved.rate.empty() || resolved.paced))
    throw InputError(
        "--netlab: expected no --rate, --delay or --paced with it, as the netlab has its own, got one");
  if (resolved.workers == 0 && resolved.netlab.empty())
    throw InputError(
        "--workers: expected it, or a --netlab, or a start by mpirun, srun or torchrun, got neither");
  run_here(resolved, std::move(setup), job);
}

void add_rank_options(const Command& command, const std::shared_ptr<RankOptions>& options) {
  command
      .add_option(
          "--backend", options->backend,
          fmt::format(
              "one of {}; nccl is experimental between several GPUs: it has run with ranks that share one",
              fmt::join(planner::names(measure::collective_backends()), ", ")))
      .show_default();
  command.add_option("--workers", options->workers, "number of processes to start on this host")
      .check(range(2U, netlab::kMaxWorkers));
  command.add_option(
      "--rate", options->rate,
      "limit each process to this rate, such as 1gbit: in network namespaces if possible, otherwise by "
      "pacing");
  command.add_option("--delay", options->delay,
                     "delay each packet by this time, such as 100us; needs network namespaces");
  command
      .add_option(
          "--netlab",
          [options](const std::string& name) {
            options->netlab = name;
            options->has_netlab = true;
          },
          "run in the existing netlab of this name (without a name: 'default')")
      .expected(0, 1);
  command.add_flag("--paced", options->paced, "with --rate: always limit the rate by pacing on loopback");
  std::string algorithms;
  for (const measure::CollectiveBackend& backend : measure::collective_backends())
    if (const auto names = backend.algorithms(); !names.empty())
      algorithms +=
          fmt::format("{}{} one of {}", algorithms.empty() ? "" : "; ", backend.name, fmt::join(names, ", "));
  command.add_option(
      "--algorithm", options->algorithm,
      fmt::format("algorithm of all_reduce (default: tcp ring; NCCL chooses): {}", algorithms));
  command.add_option("--protocol", options->protocol,
                     "protocol of NCCL: simple, ll or ll128 (default: NCCL chooses)");
  command.add_flag("--share-gpu", options->share_gpu,
                   "run several ranks on one GPU, which communicate over sockets; only for slow networks");
  command
      .add_option("--deadline", options->deadline_s,
                  "seconds that a process waits for a message of another process")
      .check(number_in(0.1, 86400))
      .show_default();
}

}  // namespace cli
