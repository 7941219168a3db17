// fusewise netlab: network namespaces with links of a given rate, up and down.

#include "validate/netlab/lab.hpp"

#include <memory>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/quantities.hpp"
#include "validate/netlab/registry.hpp"

namespace cli {
namespace {

struct Options {
  std::string name = "default";
  std::uint32_t workers = 4;
  std::string rate = "1gbit";
  std::string delay = "0us";
};

std::string description(const std::string& name, const netlab::Lab& lab) {
  return fmt::format(
      "netlab '{}' is up: {} workers, {} to {}, links of {:g} Gb/s, delay {:g} us, kept by process {}\n"
      "inside: nsenter --preserve-credentials --user=/proc/{}/ns/user --net=/proc/{}/fd/{} COMMAND (worker "
      "0)\n",
      name, lab.shape.workers, netlab::address(0), netlab::address(lab.shape.workers - 1),
      lab.shape.bits_per_second / 1e9, lab.shape.delay_us, lab.keeper, lab.keeper, lab.keeper,
      lab.namespaces[0]);
}

void up(const Options& options) {
  const std::optional<double> rate = core::parse_rate(options.rate);
  if (!rate)
    throw core::InputError(
        fmt::format("--rate: expected a rate such as 1gbit, got '{}'", core::printable(options.rate)));
  const std::optional<double> delay = core::parse_delay_us(options.delay);
  if (!delay)
    throw core::InputError(
        fmt::format("--delay: expected a time such as 100us, got '{}'", core::printable(options.delay)));
  const std::filesystem::path folder = netlab::registry_folder();
  const netlab::RegistryLock lock(folder);
  if (netlab::find_lab(folder, options.name))
    throw core::EnvironmentError(fmt::format("netlab '{}' is up already (fusewise netlab down --name {})",
                                             options.name, options.name));
  const netlab::Lab lab =
      netlab::build({.workers = options.workers, .bits_per_second = *rate, .delay_us = *delay},
                    netlab::Lifetime::until_down);
  try {
    netlab::enlist(folder, options.name, lab);
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
  netlab::strike_out(folder, options.name);
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
      program.add_command("netlab", "Network namespaces with links of a given rate, on this host");
  command.footer(
      "As root, or in a user namespace; needs ip and tc (package iproute2). What is up is held by one\n"
      "process and gone with it.\n"
      "Example: fusewise netlab up --workers 4 --rate 1gbit && fusewise measure --netlab -o "
      "lab.network.json");
  command.require_subcommand();
  const auto add = [&](const char* name, const char* summary, void (*act)(const Options&)) {
    const Command part = command.add_command(name, summary);
    part.add_option("--name", options->name, "of the netlab, where there are several")
        .check(check_with(name_error))
        .show_default();
    part.on_run([options, act] { act(*options); });
    return part;
  };
  const Command build = add("up", "Build one", up);
  build.add_option("--workers", options->workers, "namespaces")
      .check(range(2U, netlab::kMaxWorkers))
      .show_default();
  build.add_option("--rate", options->rate, "of each link, each way").show_default();
  build.add_option("--delay", options->delay, "of each packet, where the kernel has netem").show_default();
  add("down", "Remove it, if it is up", down);
  add("status", "Say whether it is up", status);
}

}  // namespace cli
