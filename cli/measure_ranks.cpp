#include "cli/measure_ranks.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "collectives/transport/launch.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/quantities.hpp"
#include "planner/job/registry.hpp"
#include "validate/netlab/lab.hpp"
#include "validate/netlab/registry.hpp"

namespace cli {
namespace {

using core::EnvironmentError;
using core::InputError;
using transport::Membership;

[[noreturn]] void expected(std::string_view option, std::string_view what, std::string_view got) {
  throw InputError(fmt::format("{}: expected {}, got '{}'", option, what, core::printable(got)));
}

/// What all ranks share.
struct Setting {
  const measure::CollectiveBackend* backend = nullptr;
  measure::EngineOptions options;
  RankPlace place;
  std::optional<double> paced_bits_per_second;
};

void check_one_of(std::string_view option, const std::string& given,
                  const std::vector<std::string_view>& known, std::string_view backend) {
  if (given.empty() || std::ranges::find(known, given) != known.end()) return;
  if (known.empty()) expected(option, fmt::format("none with --backend {}", backend), given);
  expected(option, fmt::format("one of {}", fmt::join(known, ", ")), given);
}

Setting setting_of(const RankOptions& options) {
  Setting out;
  out.backend = &backend_of(options);
  const std::string_view name = out.backend->name;
  check_one_of("--algorithm", options.algorithm, out.backend->algorithms(), name);
  check_one_of("--protocol", options.protocol, out.backend->protocols(), name);
  if (out.backend->uses_control && options.share_gpu)
    throw InputError(fmt::format("--share-gpu: expected --backend nccl with it, got {}", name));
  if (!out.backend->uses_control && options.paced)
    throw InputError(fmt::format("--paced: expected --backend tcp with it, got {}", name));
  if (!options.rate.empty()) {
    out.place.bits_per_second = core::parse_rate(options.rate);
    if (!out.place.bits_per_second) expected("--rate", "a rate such as 1gbit", options.rate);
  }
  if (!options.delay.empty()) {
    if (!core::parse_delay_us(options.delay)) expected("--delay", "a time such as 100us", options.delay);
    if (options.rate.empty()) throw InputError("--delay: expected --rate with it, got none");
  }
  out.options = {.algorithm = options.algorithm,
                 .protocol = options.protocol,
                 .share_gpu = options.share_gpu,
                 .computes = false,
                 .interface = "",
                 .deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_s * 1000))};
  return out;
}

std::string rate_text(double bits_per_second) { return fmt::format("{:g} Gb/s", bits_per_second / 1e9); }

void run_rank(const RankJob& job, Setting setting, const Membership& membership) {
  transport::TcpOptions tcp = {.deadline = setting.options.deadline};
  if (setting.paced_bits_per_second) tcp.bytes_per_second = *setting.paced_bits_per_second / 8;
  setting.place.ranks = membership.size;
  transport::run_rank(membership, tcp, [&](transport::Tcp& end) {
    setting.options.computes = job.computes;
    setting.options.check_others = [&end] { end.check(); };
    const std::unique_ptr<measure::Engine> engine = setting.backend->make(end, setting.options);
    setting.place.carried = engine->description();
    job.work(end, *engine, setting.place);
  });
  if (membership.rank == 0) job.report(setting.place);
}

/// Where ranks on this host are put.
struct Lodging {
  std::optional<netlab::Lab> lab;
  std::unique_ptr<netlab::Loan> loan;  // of the lab, where it is ours
};

void move_in(Lodging& lodging, const netlab::Lab& lab, Setting& setting) {
  lodging.lab = lab;
  setting.place.bits_per_second = lab.shape.bits_per_second;
  setting.place.burst_bytes = netlab::burst_bytes(lab.shape.bits_per_second);
  setting.place.where = fmt::format(
      "network namespaces, each link held to {}{}", rate_text(lab.shape.bits_per_second),
      lab.shape.delay_us > 0 ? fmt::format(", packets delayed by {:g} us", lab.shape.delay_us) : "");
  setting.options.interface = netlab::kInterface;
}

Lodging standing_lab(const std::string& name, Setting& setting) {
  const std::optional<netlab::Lab> lab = netlab::find_lab(netlab::registry_folder(), name);
  if (!lab)
    throw EnvironmentError(fmt::format("netlab '{}' is not up (fusewise netlab up --name {})", name, name));
  Lodging out;
  move_in(out, *lab, setting);
  return out;
}

Lodging own_lodging(const RankOptions& options, Setting& setting) {
  Lodging out;
  setting.place.where = "loopback";
  const std::optional<double> rate = setting.place.bits_per_second;
  if (!rate) return out;
  const double delay_us = options.delay.empty() ? 0 : *core::parse_delay_us(options.delay);
  if (!options.paced) {
    try {
      out.loan = std::make_unique<netlab::Loan>(
          netlab::Shape{.workers = options.workers, .bits_per_second = *rate, .delay_us = delay_us});
      move_in(out, out.loan->lab(), setting);
      return out;
    } catch (const EnvironmentError& error) {
      if (delay_us > 0 || !setting.backend->uses_control) throw;
      warn({fmt::format("{}: the processes pace themselves to {} on loopback instead", error.what(),
                        rate_text(*rate))});
    }
  }
  setting.paced_bits_per_second = rate;
  setting.place.where = fmt::format("loopback, each process paced to {}", rate_text(*rate));
  return out;
}

transport::Address lab_address(std::uint16_t port) { return {.host = netlab::address(0), .port = port}; }

/// Ports of a lab that others may use at the same time are drawn; on loopback the system gives a free one.
void run_here(const RankOptions& options, Setting setting, const RankJob& job) {
  if (options.workers != 0) measure::check_ranks(*setting.backend, setting.options, options.workers);
  const Lodging lodging =
      options.netlab.empty() ? own_lodging(options, setting) : standing_lab(options.netlab, setting);
  const std::optional<netlab::Lab>& lab = lodging.lab;
  const std::uint32_t workers = options.workers != 0 ? options.workers : lab->shape.workers;
  if (lab && workers > lab->shape.workers)
    expected("--workers", fmt::format("at most {}, as the netlab has", lab->shape.workers),
             std::to_string(workers));
  if (options.workers == 0) measure::check_ranks(*setting.backend, setting.options, workers);
  std::random_device random;
  const std::string name = fmt::format("{}-{}", ::getpid(), random());
  transport::Descriptor listener;
  if (!lab) listener = transport::listen_on({.host = "127.0.0.1", .port = 0});
  const transport::Address master =
      lab ? lab_address(static_cast<std::uint16_t>(20000 + random() % 30000)) : local_address(listener);
  const auto ends = transport::launch(
      workers,
      [&](std::uint32_t rank) {
        if (lab) netlab::enter(*lab, rank);
        if (rank != 0) listener.reset();
        if (job.computes && !options.share_gpu)
          ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 0);
        run_rank(job, setting,
                 {.rank = rank, .size = workers, .master = master, .job = name, .listener = listener.get()});
        return 0;
      },
      {.limit = std::chrono::hours(24)});
  const std::string failed = transport::failures(ends);
  if (!failed.empty()) throw EnvironmentError(failed);
  print(ends[0].out);
}

std::optional<Membership> given_membership() {
  try {
    return transport::membership_of(transport::process_environment);
  } catch (const transport::TransportError& error) {
    throw InputError(error.what());
  }
}

void run_given(const RankOptions& options, Setting setting, const RankJob& job,
               const Membership& membership) {
  if (!options.netlab.empty() || !options.delay.empty())
    throw InputError("--netlab and --delay: expected processes that this command starts, got one of several");
  if (options.workers != 0 && options.workers != membership.size)
    expected("--workers", fmt::format("{}, as there are processes", membership.size),
             std::to_string(options.workers));
  if (membership.size < 2) throw InputError("expected at least 2 processes, got one");
  setting.place.where = "started from outside";
  if (setting.place.bits_per_second) {
    if (!setting.backend->uses_control)
      throw InputError("--rate: expected processes that this command starts, got one of several");
    setting.place.where += fmt::format(", each paced to {}", rate_text(*setting.place.bits_per_second));
    setting.paced_bits_per_second = setting.place.bits_per_second;
  }
  run_rank(job, std::move(setting), membership);
}

}  // namespace

const measure::CollectiveBackend& backend_of(const RankOptions& options) {
  const measure::CollectiveBackend* backend = measure::find_backend(options.backend);
  if (backend == nullptr)
    expected("--backend",
             fmt::format("one of {}", fmt::join(planner::names(measure::collective_backends()), ", ")),
             options.backend);
  return *backend;
}

void on_ranks(const RankOptions& options, const RankJob& job) {
  RankOptions asked = options;
  if (asked.has_netlab && asked.netlab.empty()) asked.netlab = "default";
  Setting setting = setting_of(asked);
  if (const std::optional<Membership> membership = given_membership())
    return run_given(asked, std::move(setting), job, *membership);
  if (!asked.netlab.empty() && (!asked.rate.empty() || asked.paced))
    throw InputError(
        "--netlab: expected no --rate, --delay or --paced with it, as the netlab has its own, got one");
  if (asked.workers == 0 && asked.netlab.empty())
    throw InputError(
        "--workers: expected it, or a --netlab, or a start by mpirun, srun or torchrun, got neither");
  run_here(asked, std::move(setting), job);
}

void add_rank_options(const Command& command, const std::shared_ptr<RankOptions>& options) {
  command
      .add_option("--backend", options->backend,
                  fmt::format("one of {}", fmt::join(planner::names(measure::collective_backends()), ", ")))
      .show_default();
  command.add_option("--workers", options->workers, "start so many processes on this host")
      .check(range(2U, netlab::kMaxWorkers));
  command.add_option("--rate", options->rate,
                     "hold each process to this rate: in network namespaces, else by pacing itself");
  command.add_option("--delay", options->delay, "delay packets so long, in network namespaces alone");
  command
      .add_option(
          "--netlab",
          [options](const std::string& name) {
            options->netlab = name;
            options->has_netlab = true;
          },
          "in the netlab of this name, or 'default', which is up")
      .expected(0, 1);
  command.add_flag("--paced", options->paced,
                   "with --rate: on loopback, whether or not there are namespaces");
  std::string algorithms;
  for (const measure::CollectiveBackend& backend : measure::collective_backends())
    if (const auto names = backend.algorithms(); !names.empty())
      algorithms +=
          fmt::format("{}{} one of {}", algorithms.empty() ? "" : "; ", backend.name, fmt::join(names, ", "));
  command.add_option("--algorithm", options->algorithm,
                     fmt::format("of all_reduce (tcp: ring; nccl: its own choice): {}", algorithms));
  command.add_option("--protocol", options->protocol,
                     "of NCCL: simple, ll or ll128 (default: its own choice)");
  command.add_flag("--share-gpu", options->share_gpu,
                   "several ranks on one GPU, over sockets: for slow networks alone");
  command
      .add_option("--deadline", options->deadline_s, "seconds that a process waits for a message of another")
      .check(number_in(0.1, 86400))
      .show_default();
}

}  // namespace cli
