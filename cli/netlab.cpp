// fusewise netlab: creates and removes network namespaces with links of a given rate.

#include "validate/netlab/lab.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "validate/netlab/registry.hpp"

namespace cli {
namespace {

struct Options {
  std::string name = "default";
  std::uint32_t workers = 4;
  std::string rate = "1gbit";
  std::string delay = "0us";
  bool json = false;
};

/// Whether the lab lives in a user namespace of its own, which root needs not and cannot enter again.
bool has_user_namespace(const netlab::Lab& lab) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/ns/user", error);
  const auto its = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/user", lab.keeper), error);
  return !error && own != its;
}

/// What leads a command into each worker's namespace.
std::vector<std::string> entrances(const netlab::Lab& lab) {
  const std::string user = has_user_namespace(lab)
                               ? fmt::format("--preserve-credentials --user=/proc/{}/ns/user ", lab.keeper)
                               : "";
  std::vector<std::string> out;
  for (const int file : lab.namespaces)
    out.push_back(fmt::format("nsenter {}--net=/proc/{}/fd/{}", user, lab.keeper, file));
  return out;
}

/// The state of the netlab of that name; without a lab it is down.
std::string state_json(const std::string& name, const std::optional<netlab::Lab>& lab) {
  nlohmann::ordered_json out = {
      {"format", "fusewise.netlab"}, {"version", 1}, {"name", name}, {"is_up", lab.has_value()}};
  if (!lab) return core::json_text(out);
  out["bits_per_second"] = lab->shape.bits_per_second;
  out["delay_us"] = lab->shape.delay_us;
  out["kept_by_process"] = lab->keeper;
  out["workers"] = nlohmann::ordered_json::array();
  for (const std::string& enter : entrances(*lab))
    out["workers"].push_back(
        {{"address", netlab::address(static_cast<std::uint32_t>(out["workers"].size()))}, {"enter", enter}});
  return core::json_text(out);
}

std::string description(const std::string& name, const netlab::Lab& lab) {
  std::string out = fmt::format(
      "netlab '{}' is up: {} workers, {} to {}, links of {:g} Gb/s, delay {:g} us, kept by process {}\n",
      name, lab.shape.workers, netlab::address(0), netlab::address(lab.shape.workers - 1),
      lab.shape.bits_per_second / 1e9, lab.shape.delay_us, lab.keeper);
  const std::vector<std::string> commands = entrances(lab);
  for (std::size_t worker = 0; worker < commands.size(); ++worker)
    out += fmt::format("inside worker {}: {} COMMAND\n", worker, commands[worker]);
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
    print(options.json ? state_json(options.name, lab) : description(options.name, lab));
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
  print(options.json ? state_json(options.name, std::nullopt)
                     : fmt::format("netlab '{}' {}\n", options.name, lab ? "is down" : "was not up"));
}

void status(const Options& options) {
  const std::optional<netlab::Lab> lab = netlab::find_lab(netlab::registry_folder(), options.name);
  if (options.json) return print(state_json(options.name, lab));
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
    part.add_flag("--json", options->json, "print the state of the netlab as JSON");
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
