// fusewise netlab: creates and removes network namespaces with links of a given rate.

#include "validate/netlab/lab.hpp"

#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "core/errors.hpp"
#include "validate/netlab/registry.hpp"

namespace cli {
namespace {

struct Options {
  std::string name = "default";
  std::uint32_t workers = 4;
  std::string rate = "1gbit";
  std::string delay = "0us";
};

/// Whether the lab lives in a user namespace of its own, which root needs not and cannot enter again.
bool has_user_namespace(const netlab::Lab& lab) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/ns/user", error);
  const auto its = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/user", lab.keeper), error);
  return !error && own != its;
}

std::string description(const std::string& name, const netlab::Lab& lab) {
  std::string out = fmt::format(
      "netlab '{}' is up: {} workers, {} to {}, links of {:g} Gb/s, delay {:g} us, kept by process {}\n",
      name, lab.shape.workers, netlab::address(0), netlab::address(lab.shape.workers - 1),
      lab.shape.bits_per_second / 1e9, lab.shape.delay_us, lab.keeper);
  const std::string user = has_user_namespace(lab)
                               ? fmt::format("--preserve-credentials --user=/proc/{}/ns/user ", lab.keeper)
                               : "";
  for (std::size_t worker = 0; worker < lab.namespaces.size(); ++worker)
    out += fmt::format("inside worker {}: nsenter {}--net=/proc/{}/fd/{} COMMAND\n", worker, user, lab.keeper,
                       lab.namespaces[worker]);
  return out;
}

void up(const Options& options) {
  const netlab::Shape shape = {.workers = options.workers,
                               .bits_per_second = read_rate("--rate", options.rate),
                               .delay_us = read_delay_us("--delay", options.delay)};
  const std::filesystem::path folder = netlab::registry_folder();
  const netlab::RegistryLock lock(folder);
  if (netlab::find_lab(folder, options.name))
    throw core::EnvironmentError(fmt::format("netlab '{}' is up already (fusewise netlab down --name {})",
                                             options.name, options.name));
  netlab::remove_lab_file(folder, options.name);
  const netlab::Lab lab = netlab::build(shape, netlab::Lifetime::until_down, [&](const netlab::Lab& built) {
    netlab::enlist(folder, options.name, built);
  });
  try {
    print(description(options.name, lab));
  } catch (...) {
    netlab::remove(lab);
    throw;
  }
}

void down(const Options& options) {
  const std::filesystem::path folder = netlab::registry_folder();
  const netlab::RegistryLock lock(folder);
  const std::optional<netlab::Lab> lab = netlab::find_lab(folder, options.name);
  if (lab) netlab::remove(*lab);
  netlab::remove_lab_file(folder, options.name);
  print(fmt::format("netlab '{}' {}\n", options.name, lab ? "is down" : "was not up"));
}

void status(const Options& options) {
  const std::optional<netlab::Lab> lab = netlab::find_lab(netlab::registry_folder(), options.name);
  print(lab ? description(options.name, *lab) : fmt::format("netlab '{}' is not up\n", options.name));
}

std::string name_error(const std::string& text) {
  return netlab::is_name(text) ? std::string()
                               : fmt::format("expected at most 40 letters, digits, '-' and '_', got '{}'",
                                             core::printable(text));
}

}  // namespace

void add_netlab(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("netlab", "Create network namespaces with links of a given rate on this host");
  command.footer(
      "Needs root or a user namespace, and the programs ip and tc (package iproute2). One process keeps\n"
      "the namespaces; they are removed when it ends.\n"
      "Example: fusewise netlab up --workers 4 --rate 1gbit && fusewise measure --netlab -o "
      "lab.network.json");
  command.require_subcommand();
  const auto add = [&](const char* name, const char* summary, void (*act)(const Options&)) {
    const Command part = command.add_command(name, summary);
    part.add_option("--name", options->name, "name of the netlab, if there are several")
        .check(check_with(name_error))
        .show_default();
    part.on_run([options, act] { act(*options); });
    return part;
  };
  const Command build = add("up", "Create a netlab", up);
  build.add_option("--workers", options->workers, "number of namespaces")
      .check(range(2U, netlab::kMaxWorkers))
      .show_default();
  build.add_option("--rate", options->rate, "rate of each link in each direction").show_default();
  build.add_option("--delay", options->delay, "delay of each packet; needs netem in the kernel")
      .show_default();
  add("down", "Remove the netlab if it is up", down);
  add("status", "Report whether the netlab is up", status);
}

}  // namespace cli
