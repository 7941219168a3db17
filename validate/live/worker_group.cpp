#include "validate/live/worker_group.hpp"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"
#include "collectives/transport/launch.hpp"
#include "collectives/transport/local_job.hpp"
#include "collectives/transport/processors.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/netlab/lab.hpp"
#include "validate/netlab/registry.hpp"

namespace live {
namespace {

using core::EnvironmentError;
using core::InputError;
using transport::Bytes;
using transport::Membership;

/// The prefix of a worker's phase messages to its parent; other lines are error messages.
constexpr std::string_view kPhase = "phase: ";  // ends with a zero, as a literal does

std::string rate_text(double bits_per_second) { return fmt::format("{:g} Gb/s", bits_per_second / 1e9); }

std::string shape_text(const netlab::Shape& shape) {
  std::string out = fmt::format("network namespaces, each link held to {}", rate_text(shape.bits_per_second));
  if (shape.delay_us > 0) out += fmt::format(", packets delayed by {:g} us", shape.delay_us);
  if (shape.workers_per_node > 0)
    out += fmt::format(", nodes of {} joined by {}", shape.workers_per_node,
                       rate_text(shape.between_bits_per_second));
  return out;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Broadcasts rank 0's bytes.
Bytes shared(transport::Transport& transport, Bytes own) {
  if (transport.rank() != 0) return transport.recv(0, tag_of(Tag::record));
  for (std::uint32_t rank = 1; rank < transport.size(); ++rank)
    transport.send(rank, tag_of(Tag::record), own);
  return own;
}

}  // namespace

struct WorkerGroup::Here {
  std::optional<netlab::Lab> lab;
  std::unique_ptr<netlab::ScopedLab> loan;  // set if this process created the lab
  std::optional<netlab::UsedLab> used;      // set if it was there
  std::optional<double> paced_bits_per_second;
  std::string where = "loopback";
};

struct WorkerGroup::Given {
  Membership membership;
  std::unique_ptr<transport::Tcp> end;
  std::unique_ptr<measure::Engine> engine;  // kept across tasks
};

namespace {

const measure::CollectiveBackend* backend_of(const Place& place) {
  const measure::CollectiveBackend* backend = measure::find_backend(place.backend);
  assert(backend != nullptr);
  if (backend->uses_control && place.share_gpu)
    throw InputError(fmt::format("--share-gpu: expected --backend nccl with it, got {}", backend->name));
  if (!backend->uses_control && place.paced)
    throw InputError(fmt::format("--paced: expected --backend tcp with it, got {}", backend->name));
  return backend;
}

}  // namespace

/// Null if the transport transfers dense groups.
std::unique_ptr<measure::Engine> WorkerGroup::engine(transport::Tcp& end) const {
  if (backend_->uses_control) return nullptr;
  return backend_->make(end, {.share_gpu = place_.share_gpu,
                              .computes = place_.computes,
                              .interface = here_ && here_->lab ? netlab::kInterface : "",
                              .deadline = milliseconds(place_.deadline_s),
                              .check_others = [&end] { end.check(); }});
}

WorkerGroup::WorkerGroup(const Place& place)
    : place_(place),
      backend_(backend_of(place)),
      bits_per_second_(place.bits_per_second),
      here_(std::make_unique<Here>()) {
  measure::check_ranks(*backend_, {.share_gpu = place.share_gpu}, place.workers);
  if (!place.netlab.empty()) {
    here_->used = netlab::use_lab(netlab::registry_folder(), place.netlab);
    here_->lab = here_->used->lab;
    if (place_.workers > here_->lab->shape.workers)
      throw InputError(fmt::format("--workers: expected at most {}, as the netlab has, got '{}'",
                                   here_->lab->shape.workers, place_.workers));
    bits_per_second_ = here_->lab->shape.bits_per_second;
    here_->where = shape_text(here_->lab->shape);
    return;
  }
  if (!place.bits_per_second) return;
  if (!place.paced) {
    try {
      here_->loan = std::make_unique<netlab::ScopedLab>(
          netlab::Shape{.workers = place.workers,
                        .bits_per_second = *place.bits_per_second,
                        .delay_us = place.delay_us,
                        .workers_per_node = place.workers_per_node,
                        .between_bits_per_second = place.between_bits_per_second});
      here_->lab = here_->loan->lab();
      here_->where = shape_text(here_->lab->shape);
      return;
    } catch (const EnvironmentError& error) {
      if (place.delay_us > 0 || place.workers_per_node > 0 || !backend_->uses_control) throw;
      warnings_.push_back(fmt::format("{}: the workers pace themselves to {} on loopback instead",
                                      error.what(), rate_text(*place.bits_per_second)));
    }
  }
  here_->paced_bits_per_second = place.bits_per_second;
  here_->where = fmt::format("loopback, each process paced to {}", rate_text(*place.bits_per_second));
}

WorkerGroup::WorkerGroup(const Place& place, const Membership& membership)
    : place_(place),
      backend_(backend_of(place)),
      bits_per_second_(place.bits_per_second),
      given_(std::make_unique<Given>()) {
  measure::check_ranks(*backend_, {.share_gpu = place.share_gpu}, 1);  // this process needs a GPU
  if (!backend_->uses_control && place.bits_per_second)
    throw InputError("--rate: expected processes that this command starts, got one of several");
  place_.workers = membership.size;
  given_->membership = membership;
  transport::TcpOptions options = {.deadline = milliseconds(place.deadline_s)};
  if (place.bits_per_second) options.bytes_per_second = *place.bits_per_second / 8;
  given_->end = std::make_unique<transport::Tcp>(membership, options);
  if (!given_->end->strangers().empty()) warnings_.push_back(given_->end->strangers());
}

WorkerGroup::~WorkerGroup() {
  layers_.reset();
  if (!given_ || !given_->end) return;
  given_->engine.reset();
  try {
    given_->end->leave();
  } catch (const transport::TransportError&) {  // the peer is gone
  }
}

RunningLayers& WorkerGroup::layers(const RealLayers& layers) {
  if (!layers_) layers_ = std::make_unique<RunningLayers>(layers);
  return *layers_;
}

std::uint32_t WorkerGroup::workers() const { return place_.workers; }
bool WorkerGroup::is_first() const { return !given_ || given_->membership.rank == 0; }

std::int64_t WorkerGroup::burst_bytes() const {
  return here_ && here_->lab ? netlab::burst_bytes(here_->lab->shape.bits_per_second) : 0;
}

std::string WorkerGroup::where() const {
  std::string out = fmt::format("{} processes, {}", workers(), here_ ? here_->where : "started from outside");
  if (given_ && bits_per_second_) out += fmt::format(", each paced to {}", rate_text(*bits_per_second_));
  return out;
}

namespace {

/// The last line with this prefix.
std::string_view last_after(std::string_view text, std::string_view begin) {
  const std::size_t at = text.rfind(begin);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + begin.size());
  return rest.substr(0, rest.find('\n'));
}

std::string how(const transport::RankEnd& end) {
  const std::string_view phase = last_after(end.err, kPhase);
  if (end.exit_code > 0) {  // messages about an iteration begin with its phase
    const std::string_view line = transport::last_line(end.err);
    return fmt::format("{}{}{}", line, phase.empty() || line.starts_with(phase) ? "" : " in ",
                       line.starts_with(phase) ? "" : phase);
  }
  return fmt::format("{}{}{}",
                     end.was_ended
                         ? "did not end by itself"
                         : fmt::format("was killed by signal {} ({})", end.signal, ::strsignal(end.signal)),
                     phase.empty() ? "" : " in ", phase);
}

/// Whether a worker only reports the loss of another, whose own message is more informative.
bool blames_another(const transport::RankEnd& end) {
  const std::string_view line = transport::last_line(end.err);
  return line.find("lost rank ") != std::string_view::npos ||
         line.find(" has failed: ") != std::string_view::npos;
}

/// One line: the lost workers with their phase, and the message of the first failed one, preferring those
/// that do not blame another; empty if none failed.
std::string failure_text(const std::vector<transport::RankEnd>& ends) {
  std::string lost;
  std::string said;
  bool said_blames = false;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].is_good()) continue;
    std::string& into = ends[rank].exit_code > 0 ? said : lost;
    if (ends[rank].exit_code > 0 && said_blames && !blames_another(ends[rank])) said.clear();
    if (ends[rank].exit_code > 0 && said.empty()) said_blames = blames_another(ends[rank]);
    if (into.empty() || ends[rank].exit_code < 0)
      into += fmt::format("{}worker {} (pid {}) {}{}", into.empty() ? "" : "; ", rank, ends[rank].pid,
                          ends[rank].exit_code > 0 ? "said: " : "", how(ends[rank]));
  }
  return lost + (lost.empty() || said.empty() ? "" : "; ") + said;
}

/// Runs the task; its errors are prefixed with the current phase.
Bytes run_task(const WorkerGroup::Task& rank, transport::Transport& transport, measure::Engine* engine,
               const WorkerGroup::OnPhase& on_phase) {
  std::string phase;
  try {
    return rank(transport, engine, [&](const std::string& next) { on_phase(phase = next); });
  } catch (const std::exception& error) {
    const std::string what = error.what();
    if (phase.empty() || what.starts_with(phase)) throw;
    throw EnvironmentError(phase + ": " + what);
  }
}

using MakeEngine = std::function<std::unique_ptr<measure::Engine>(transport::Tcp& end)>;

/// The main function of a worker process.
int live_as(const Membership& membership, const transport::TcpOptions& options, const MakeEngine& make,
            const WorkerGroup::Task& rank) {
  Bytes result;
  const WorkerGroup::OnPhase on_phase = [](const std::string& phase) {
    (void)std::fprintf(stderr, "%s%s\n", kPhase.data(), phase.c_str());
  };
  on_phase("meeting");
  transport::run_rank(membership, options, [&](transport::Tcp& end) {
    if (!end.strangers().empty())
      (void)std::fprintf(stderr, "%s%s\n", transport::kWarning.data(), end.strangers().c_str());
    const std::unique_ptr<measure::Engine> engine = make(end);
    result = run_task(rank, end, engine.get(), on_phase);
  });
  if (membership.rank == 0 && std::fwrite(result.data(), 1, result.size(), stdout) != result.size())
    throw EnvironmentError("a worker cannot pass on its records");
  return 0;
}

}  // namespace

Bytes WorkerGroup::run(const Task& rank, const WorkerGroupHooks& hooks) {
  if (given_) {
    try {
      if (!given_->engine) given_->engine = engine(*given_->end);
      return shared(*given_->end,
                    run_task(rank, *given_->end, given_->engine.get(), [&](const std::string& phase) {
                      if (hooks.on_phase) hooks.on_phase(given_->membership.rank, phase);
                    }));
    } catch (const std::exception& error) {
      given_->end->fail(error.what());
      throw;
    }
  }
  transport::LocalJob together =
      here_->lab ? transport::LocalJob(workers(), netlab::address(0)) : transport::LocalJob(workers());
  transport::TcpOptions options =
      transport::options_of_local_job({.deadline = milliseconds(place_.deadline_s)});
  if (here_->paced_bits_per_second) options.bytes_per_second = *here_->paced_bits_per_second / 8;
  // Processes that can detect a failure report it immediately.
  transport::LaunchOptions launching = {.limit = milliseconds(place_.limit_s),
                                        .grace = std::chrono::seconds(4)};
  launching.on_started = [&](const std::vector<pid_t>& pids) {
    together.close();
    if (hooks.on_started) hooks.on_started(pids);
  };
  launching.on_line = [&](std::uint32_t number, std::string_view line) {
    if (hooks.on_phase && line.starts_with(kPhase))
      hooks.on_phase(number, std::string(line.substr(kPhase.size())));
  };
  const auto ends = transport::launch(
      workers(),
      [&](std::uint32_t number) {
        if (here_->lab) netlab::enter(*here_->lab, number);
        transport::keep_to_share(number, workers());
        if (place_.computes && !place_.share_gpu)
          ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(number).c_str(), 0);
        return live_as(
            together.enter(number), options, [this](transport::Tcp& end) { return engine(end); }, rank);
      },
      launching);
  for (const std::string& warning : transport::warnings(ends)) warnings_.push_back(warning);
  std::string failed = failure_text(ends);
  if (!failed.empty()) {
    for (const std::string& warning : take_warnings()) failed += "; " + warning;
    throw EnvironmentError(failed);
  }
  Bytes out(ends[0].out.size());
  if (!out.empty()) std::memcpy(out.data(), ends[0].out.data(), out.size());
  return out;
}

}  // namespace live
