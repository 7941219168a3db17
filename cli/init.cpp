// fusewise init: writes a scenario from four answers, given as options or on a terminal.

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "core/estimate/estimate.hpp"
#include "core/files.hpp"
#include "core/ignoring_case.hpp"
#include "core/json_text.hpp"
#include "core/quantities.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/recompute.hpp"
#include "planner/job/registry.hpp"
#include "planner/scenarios/scenario.hpp"

namespace cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  std::string model;
  std::string device;
  std::string network;
  std::string between;
  std::vector<std::int64_t> workers;
  std::optional<std::int64_t> batch;
  std::string output = "scenario.json";
  bool json = false;
  bool force = false;
};

/// Asks on the terminal until `check` accepts the answer; elsewhere an option that is missing is an error.
std::string prompt(const std::string& option, const std::string& question,
                   const std::function<void(const std::string&)>& check) {
  if (::isatty(STDIN_FILENO) == 0)
    throw core::InputError(
        fmt::format("{}: this option is required where there is no terminal to ask on (try --help)", option));
  for (;;) {
    fmt::print(stderr, "{} ", fitted(question, terminal_width(STDERR_FILENO)));
    std::string answer;
    if (!std::getline(std::cin, answer))
      throw core::InputError(fmt::format("{}: expected an answer, got the end of the input", option));
    try {
      check(answer);
      return answer;
    } catch (const core::InputError& error) {
      print_error(error.what());
    }
  }
}

std::int64_t read_count(const std::string& text) {
  constexpr std::int64_t kMax = 1'000'000;
  std::size_t used = 0;
  std::int64_t out = 0;
  try {
    out = std::stoll(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || text.find_first_not_of(' ', used) != std::string::npos || out < 1 || out > kMax)
    reject("--workers", "numbers from 1 to 1000000 with commas between them", text);
  return out;
}

std::vector<std::int64_t> read_workers(const std::string& text) {
  std::vector<std::int64_t> out;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    out.push_back(read_count(text.substr(from, to - from)));
    from = to + 1;
  }
  return out;
}

/// The profile or model of that path or name.
core::Field load_model(const std::string& name) {
  if (const auto bundled = find_bundled(Bundled::profile, name)) return core::Field::load(*bundled);
  std::error_code none;
  if (!is_name(name) || find_bundled(Bundled::model, name) || std::filesystem::is_regular_file(name, none))
    return core::Field::load(input_path(Bundled::model, name));
  check_data_folder(name);
  std::vector<std::string> names = bundled_names(Bundled::model);
  for (std::string& profile : bundled_names(Bundled::profile)) names.push_back(std::move(profile));
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw core::InputError(
      fmt::format("--model: expected a file, or a name that 'fusewise show models' or 'show profiles' lists, "
                  "got '{}'{}",
                  core::printable(name), core::suggestion(name, known)));
}

std::string device_of(const std::string& text) {
  return known_name("--device", text, planner::names(core::devices()));
}

bool is_profile(const core::Field& file) {
  constexpr std::string_view kFormats[] = {"fusewise.profile", "fusewise.model"};
  return format_of(file, kFormats) == "fusewise.profile";
}

/// The largest number of workers on which a bundled network was measured; 0 for another network.
std::int64_t workers_of_node(const std::string& network) {
  std::int64_t out = 0;
  if (const auto file = core::find_bundled_network(network))
    for (const core::Measured& each : core::read_network(*file).measured) out = std::max(out, each.workers);
  return out;
}

std::string network_name(const std::string& text) {
  return core::ignoring_case(text, core::bundled_network_names());
}

void check_network(const std::string& text) {
  if (core::find_bundled_network(network_name(text))) return;
  if (text.find(".json") != std::string::npos) return void(core::read_network(core::Field::load(text)));
  if (core::parse_rate(text)) return;
  throw core::InputError(
      fmt::format("--network: expected a rate in kbit, mbit, gbit or tbit (a second), such as 25gbit, a "
                  "network file, or a name that 'fusewise show networks' "
                  "lists, got '{}'{}",
                  core::printable(text), core::suggestion(text, core::bundled_network_names())));
}

void complete(Options& options) {
  if (options.model.empty())
    options.model = prompt("--model",
                           fmt::format("Which model? A profile or model file, or one of {}:",
                                       fmt::join(bundled_names(Bundled::model), ", ")),
                           [](const std::string& answer) { (void)is_profile(load_model(answer)); });
  if (options.device.empty() && !is_profile(load_model(options.model)))
    options.device = prompt(
        "--device", fmt::format("On which GPU? One of {}:", fmt::join(planner::names(core::devices()), ", ")),
        [](const std::string& answer) { (void)device_of(answer); });
  if (options.network.empty())
    options.network =
        prompt("--network",
               "Which network? A rate such as 25gbit, a network file, or a name that 'fusewise show "
               "networks' lists:",
               check_network);
  check_network(options.network);
  options.network = network_name(options.network);
  if (options.workers.empty())
    options.workers = read_workers(prompt("--workers", "How many workers? Such as 4,8,16:",
                                          [](const std::string& answer) { (void)read_workers(answer); }));
  const std::int64_t node = workers_of_node(options.network);
  if (node > 0 && options.between.empty() && *std::ranges::max_element(options.workers) > node)
    options.between = prompt(
        "--between", fmt::format("Which network joins machines of {} workers? A rate such as 400gbit:", node),
        [](const std::string& answer) { (void)read_rate("--between", answer); });
}

/// A profile file or a bundled profile as it is; a model is estimated on the device.
core::Profile profile_of(const Options& options) {
  const core::Field file = load_model(options.model);
  if (is_profile(file)) {
    core::Profile profile = core::read_profile(file);
    for (const auto& [option, is_given] :
         {std::pair{"--device", !options.device.empty()}, std::pair{"--batch", options.batch.has_value()}})
      if (is_given)
        throw core::InputError(fmt::format(
            "{}: expected a model to estimate, got {}, a profile of {} with batch {}, which stays as it is",
            option, core::one_line(options.model), core::one_line(profile.device), profile.batch_size));
    return profile;
  }
  return core::estimate(core::read_model(file), core::device(device_of(options.device)).value(),
                        {.batch_size = options.batch});
}

/// The name of a bundled network, the path of a file, or a link of a given rate.
ordered_json network_of(const std::string& text) {
  if (core::find_bundled_network(text)) return text;
  if (text.find(".json") != std::string::npos) return std::filesystem::absolute(text).string();
  constexpr double kAlphaUs = 20;  // of TCP in a data centre
  const double gbps = read_rate("--network", text) / 1e9;
  return {{"format", "fusewise.network"},
          {"version", 1},
          {"name", text},
          {"line_rate_gbps", gbps},
          {"origin",
           {{"kind", "estimated"},
            {"source",
             fmt::format("line rate, and a startup of {:g} us; measure yours: fusewise measure", kAlphaUs)}}},
          {"link", {{"alpha_us", kAlphaUs}, {"beta_us_per_byte", 8e-3 / gbps}}}};
}

/// Bytes of a parameter in training with Adam. In 32 bits: 4 itself, 4 its gradient, 8 two states. In 16
/// bits: 2, 2, 8, and 4 a copy in 32 bits.
constexpr double kStateBytes = 16;

/// The bytes of the GPU's memory, if parameters, gradients and the optimizer's states do not fit into it, so
/// that workers have to share them.
std::optional<std::int64_t> too_small_memory(const Options& options, const core::Profile& profile) {
  if (options.device.empty()) return {};
  const double bytes = core::device(device_of(options.device)).value().memory_gbytes * 1e9;
  if (kStateBytes * static_cast<double>(core::parameter_count(profile)) <= bytes) return {};
  return static_cast<std::int64_t>(bytes);
}

/// Bytes of the outputs of all layers, which wait for the backward pass; 0 if the profile does not say them.
double activation_bytes(const core::Profile& profile) {
  double out = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    out += static_cast<double>(layer.activation_bytes.value_or(0));
  return out;
}

/// Makes the job one of FSDP whose plans keep to this memory; blocks are computed again where activations fit
/// on no number of workers. Returns what is to be said of that.
std::string shard(ordered_json& scenario, const core::Profile& profile, std::int64_t memory,
                  std::int64_t most_workers) {
  constexpr double kGiga = 1e9;
  const ordered_json optimal = {{"name", "fsdp2"}, {"fusion", "optimal"}};
  scenario["schedules"] = {"fsdp2", optimal};
  if (scenario.contains("between")) scenario["schedules"].push_back("hsdp");
  if (core::bytes_per_element(profile.dtype) < 4)
    scenario["data_types"] = {{"parameters", "float32"}, {"reduce", "float32"}};
  scenario["memory"] = {{"optimizer", "adam"}, {"cap_bytes", memory}};
  const double states = kStateBytes * static_cast<double>(core::parameter_count(profile));
  const double activations = activation_bytes(profile);
  const bool recomputes =
      activations + states / static_cast<double>(most_workers) > static_cast<double>(memory) &&
      !planner::segments_of(profile, {}).empty();
  if (recomputes) scenario["recompute"] = "blocks";
  return fmt::format(
      "FSDP: with Adam, {:.1f} billion parameters take {:.0f} GB, and the GPU has {:.0f} GB; plans keep to "
      "memory.cap_bytes (docs/sharded.md)\n{}",
      static_cast<double>(core::parameter_count(profile)) / kGiga, states / kGiga,
      static_cast<double>(memory) / kGiga,
      recomputes
          ? fmt::format("recompute: activations take {:.0f} GB more, so backward passes compute blocks "
                        "again\n",
                        activations / kGiga)
          : "");
}

/// An existing file is replaced only with --force.
void check_output(const Options& options) {
  std::error_code none;
  if (!options.force && std::filesystem::is_regular_file(options.output, none))
    throw core::InputError(fmt::format(
        "--output: expected the name of a new file, or --force to replace one, got {}, which exists",
        core::one_line(options.output)));
}

void init(Options options) {
  const bool is_interactive = options.model.empty() || options.network.empty() || options.workers.empty();
  if (is_interactive) check_output(options);  // before anybody answers
  complete(options);
  const core::Profile profile = profile_of(options);
  ordered_json scenario = {{"format", "fusewise.scenario"},
                           {"version", 1},
                           {"name", fmt::format("{} on {}", profile.model, options.network)},
                           {"workers", options.workers},
                           {"schedules", {"wfbp", "ddp", "horovod", "fusewise", "fusewise-dear"}},
                           {"network", network_of(options.network)},
                           {"profile", ordered_json::parse(core::profile_text(profile))}};
  if (!options.between.empty()) {
    scenario["between"] = {{"bandwidth_gbps", read_rate("--between", options.between) / 1e9}};
    scenario["worker_spread"] = planner::kUsualWorkerSpread;
  }
  std::string sharding;
  if (const auto memory = too_small_memory(options, profile))
    sharding = shard(scenario, profile, *memory, *std::ranges::max_element(options.workers));
  const std::string text = core::json_text(scenario);
  (void)scenarios::read_scenario(
      core::Field::parse(text, options.output));  // refuses what cannot be simulated
  check_output(options);
  core::write_file(options.output, text);
  if (options.json) return print(text);
  print_for_people(printable_lines(fmt::format("{}: {}, {} layers, {}\n", options.output, profile.model,
                                               profile.layers.size(), profile.origin.source)));
  if (!options.between.empty())
    print_for_people(fmt::format(
        "worker_spread {:g}: the times of GPUs are taken to differ by this standard deviation, as "
        "found on other clusters; 0 makes all GPUs alike\n",
        planner::kUsualWorkerSpread));
  print_for_people(sharding);
  print(printable_lines(fmt::format(
      "next: fusewise simulate {0}\n      fusewise plan {0} --workers {1}\n      fusewise report {0}\n",
      options.output, options.workers.back())));
}

}  // namespace

void add_init(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("init", "Write a scenario for a job of your own, from four answers");
  command.footer(
      "What is not given is asked for on the terminal.\n"
      "Example: fusewise init --model resnet50 --device a100 --network 25gbit --workers 8,16,32 -o "
      "mine.json");
  command.add_option(
      "--model", options->model,
      "a profile or model file, or a name that 'fusewise show models' or 'show profiles' lists");
  command.add_option(
      "--device", options->device,
      fmt::format("for a model: the GPU whose data sheet gives the times of its layers: one of {}",
                  fmt::join(planner::names(core::devices()), ", ")));
  command.add_option("--batch", options->batch, "for a model: samples per worker (default: the model's)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command.add_option("--network", options->network,
                     "a rate such as 25gbit, a network file, or a name that 'fusewise show networks' lists");
  command.add_option(
      "--between", options->between,
      "for a bundled network: the rate of the network that joins several machines, such as 400gbit");
  command.add_option("--workers", options->workers, "numbers of workers, such as 8,16,32")
      .delimiter(',')
      .check(range<std::int64_t>(1, 1'000'000));
  command.add_output("-o,--output", options->output, "the scenario").show_default();
  command.add_flag("--force", options->force, "replace the file of --output if it exists");
  command.add_flag("--json", options->json, "print the scenario, too, instead of what to do next");
  command.on_run([options] { init(*options); });
}

}  // namespace cli
