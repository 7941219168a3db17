#include "collectives/transport/rendezvous.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "collectives/transport/transport.hpp"
#include "sim/fnv.hpp"

namespace transport {
namespace {

constexpr std::uint32_t kMaxRanks = 4096;

[[noreturn]] void expected(const std::string& variable, std::string_view what, const std::string& got) {
  throw TransportError(fmt::format("{}: expected {}, got '{}'", variable, what, got));
}

std::uint32_t number(const Environment& environment, const std::string& name, std::uint32_t min,
                     std::uint32_t max) {
  const std::string text = environment(name).value_or("");
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max)
    expected(name, fmt::format("an integer from {} to {}", min, max), text);
  return value;
}

struct Names {
  const char* rank;
  const char* size;
};

Membership ranks_of(const Environment& environment, const Names& names) {
  Membership out;
  out.size = number(environment, names.size, 1, kMaxRanks);
  out.rank = number(environment, names.rank, 0, out.size - 1);
  return out;
}

/// Every process of the job computes the same port; whether it is free shows when rank 0 listens.
std::uint16_t port_for(std::string_view job) {
  return static_cast<std::uint16_t>(20000 + sim::fnv1a(job) % 10000);
}

std::optional<Address> master_address(const Environment& environment) {
  const std::optional<std::string> host = environment("MASTER_ADDR");
  if (!host) return {};
  return Address{.host = *host,
                 .port = static_cast<std::uint16_t>(number(environment, "MASTER_PORT", 1, 65535))};
}

std::optional<Membership> by_hand(const Environment& environment) {
  if (!environment("FUSEWISE_RANK")) return {};
  Membership out = ranks_of(environment, {.rank = "FUSEWISE_RANK", .size = "FUSEWISE_WORLD_SIZE"});
  const std::string master = environment("FUSEWISE_MASTER").value_or("");
  const std::optional<Address> address = parse_address(master);
  if (!address) expected("FUSEWISE_MASTER", "HOST:PORT", master);
  out.master = *address;
  out.job = environment("FUSEWISE_JOB").value_or("");
  return out;
}

/// The agent of newer releases listens on MASTER_PORT itself; then the port after it is used.
std::optional<Membership> torchrun(const Environment& environment) {
  if (!environment("RANK") || !environment("WORLD_SIZE")) return {};
  Membership out = ranks_of(environment, {.rank = "RANK", .size = "WORLD_SIZE"});
  const std::optional<Address> master = master_address(environment);
  if (!master) expected("MASTER_ADDR", "the host of rank 0", "");
  out.master = *master;
  if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    if (out.master.port == 65535) expected("MASTER_PORT", "a port with one above it", "65535");
    ++out.master.port;
  }
  out.job = "torchrun " + environment("TORCHELASTIC_RUN_ID").value_or("");
  return out;
}

std::optional<Membership> open_mpi(const Environment& environment) {
  if (!environment("OMPI_COMM_WORLD_RANK")) return {};
  Membership out = ranks_of(environment, {.rank = "OMPI_COMM_WORLD_RANK", .size = "OMPI_COMM_WORLD_SIZE"});
  // "JOB.0" is the name space before and after PMIx.
  out.job =
      "mpirun " + environment("PMIX_NAMESPACE").value_or(environment("OMPI_MCA_ess_base_jobid").value_or(""));
  if (const std::optional<Address> master = master_address(environment)) {
    out.master = *master;
    return out;
  }
  if (number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMaxRanks) != out.size)
    expected("MASTER_ADDR", "the host of rank 0, with MASTER_PORT, as ranks are on several hosts (mpirun -x)",
             "");
  out.master = {.host = "127.0.0.1", .port = port_for(out.job)};
  return out;
}

/// The first host of "node[03-04,7],other" is node03.
std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t stop = list.find_first_of(",-]", end);
  if (stop == std::string::npos) expected("SLURM_STEP_NODELIST", "a list of hosts", list);
  return list.substr(0, end) + list.substr(end + 1, stop - end - 1);
}

/// A batch script has SLURM_PROCID too, but no step.
std::optional<Membership> srun(const Environment& environment) {
  if (!environment("SLURM_PROCID") || !environment("SLURM_STEP_ID")) return {};
  Membership out = ranks_of(environment, {.rank = "SLURM_PROCID", .size = "SLURM_STEP_NUM_TASKS"});
  out.job =
      fmt::format("srun {}.{}", environment("SLURM_JOB_ID").value_or(""), *environment("SLURM_STEP_ID"));
  if (const std::optional<Address> master = master_address(environment)) {
    out.master = *master;
    return out;
  }
  const std::string hosts = environment("SLURM_STEP_NODELIST").value_or("");
  if (hosts.empty()) expected("SLURM_STEP_NODELIST", "a list of hosts", "");
  out.master = {.host = first_host(hosts), .port = port_for(out.job)};
  return out;
}

constexpr std::size_t kMinSecret = 16;
constexpr std::size_t kMaxSecret = 4096;

/// Returns the text of a file that only this user can read; nothing if it is not one.
std::optional<std::string> private_text(const std::string& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!in || ::fstat(in.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      (status.st_mode & 077) != 0)
    return {};
  std::string text(kMaxSecret + 1, '\0');
  const ssize_t got = ::read(in.get(), text.data(), text.size());
  if (got < 0) return {};
  text.resize(static_cast<std::size_t>(got));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// No message shows a secret.
std::string secret_of(const Environment& environment) {
  std::string from = "FUSEWISE_SECRET";
  std::optional<std::string> secret = environment(from);
  if (const auto file = environment("FUSEWISE_SECRET_FILE"); file && !secret) {
    from = "FUSEWISE_SECRET_FILE";
    secret = private_text(*file);
    if (!secret) expected(from, "a file of this user that nobody else can read (mode 0600)", *file);
  }
  if (!secret)
    throw TransportError(from +
                         ": expected a secret that all processes of the job share, here or in the file "
                         "FUSEWISE_SECRET_FILE, got neither");
  if (secret->size() < kMinSecret || secret->size() > kMaxSecret)
    throw TransportError(fmt::format("{}: expected {} to {} characters, got {}{}", from, kMinSecret,
                                     kMaxSecret, secret->size() > kMaxSecret ? "more than " : "",
                                     std::min(secret->size(), kMaxSecret)));
  return *secret;
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::span<const Starter> starters() {
  static constexpr std::array<Starter, 4> kAll = {{{.name = "fusewise", .membership = by_hand},
                                                   {.name = "torchrun", .membership = torchrun},
                                                   {.name = "mpirun", .membership = open_mpi},
                                                   {.name = "srun", .membership = srun}}};
  return kAll;
}

std::optional<Membership> membership_of(const Environment& environment) {
  for (const Starter& starter : starters()) {
    std::optional<Membership> found = starter.membership(environment);
    if (!found) continue;
    if (is_everywhere(found->master.host))
      expected(environment("FUSEWISE_RANK") ? "FUSEWISE_MASTER" : "MASTER_ADDR",
               "the address of one interface of rank 0's host", found->master.host);
    if (found->size > 1) found->secret = secret_of(environment);
    return found;
  }
  return {};
}

}  // namespace transport
