// fusewise show: describes the contents of a file in a few lines.

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

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
#include "core/estimate/device.hpp"
#include "core/ignoring_case.hpp"
#include "core/json_text.hpp"
#include "core/model/model.hpp"
#include "core/quantities.hpp"
#include "core/text_table.hpp"
#include "planner/advise/memory_front_text.hpp"
#include "planner/job/registry.hpp"
#include "planner/scenarios/divided_plan.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/scenario.hpp"
#include "planner/schedule/schedule.hpp"
#include "validate/live/compare.hpp"

namespace cli {
namespace {

using nlohmann::ordered_json;

std::string model_summary(const core::Field& file) {
  const core::Model model = core::read_model(file);
  std::string out = fmt::format(
      "model {}: {} layers, {} tensors, {} parameters, {:.4g} GFLOP forward per sample\n", model.name,
      model.layers.size(), tensor_count(model), parameter_count(model), forward_flops(model) / 1e9);
  if (!model.about.empty()) out += model.about + '\n';
  std::vector<std::vector<std::string>> rows;
  for (const core::Layer& layer : model.layers) {
    std::vector<std::string> shapes;
    for (const core::Tensor& tensor : layer.tensors) shapes.push_back(core::text(tensor.shape));
    rows.push_back({"  " + layer.name, std::string(core::name(layer.kind)), core::text(layer.output),
                    fmt::format("{}", fmt::join(shapes, "  "))});
  }
  return out + core::aligned(rows, {0, 1, 3});
}

std::string profile_summary(const core::Field& file) { return summary(core::read_profile(file)); }
std::string network_summary(const core::Field& file) { return summary(core::read_network(file)); }
std::string compressors_summary(const core::Field& file) {
  return summary(core::read_compressor_costs(file));
}
std::string plan_summary(const core::Field& file) {
  return scenarios::plan_table(planner::read_plan_file(file));
}

std::string stage_plans_summary(const core::Field& file) {
  return scenarios::divided_plan_text(scenarios::read_divided_plan(file), terminal_width(STDOUT_FILENO));
}

std::string scenario_summary(const core::Field& file) {
  const scenarios::Scenario scenario = scenarios::read_scenario(file);
  std::vector<std::string> names;
  for (const planner::Schedule& schedule : scenario.schedules) names.push_back(schedule.name);
  names = scenarios::without_folders(std::move(names));
  return fmt::format("scenario {}: {} worker{}; schedules {}\n{}{}", scenario.name,
                     core::list_text(scenario.workers),
                     scenario.workers == std::vector<std::int64_t>{1} ? "" : "s", fmt::join(names, ", "),
                     summary(scenario.profile), summary(scenario.network));
}

std::string memory_front_summary(const core::Field& file) {
  return planner::memory_front_summary(planner::read_memory_front(file), terminal_width(STDOUT_FILENO));
}

std::string live_validation_summary(const core::Field& file) {
  std::string out;
  for (const live::Comparison& run : live::read_comparisons(file)) out += live::comparison_table(run);
  return out;
}

struct Format {
  std::string_view name;
  std::string (*show)(const core::Field& file);
};

constexpr Format kFormats[] = {{"fusewise.profile", profile_summary},
                               {"fusewise.network", network_summary},
                               {"fusewise.compressors", compressors_summary},
                               {"fusewise.model", model_summary},
                               {"fusewise.plan", plan_summary},
                               {"fusewise.stage-plans", stage_plans_summary},
                               {"fusewise.memory-front", memory_front_summary},
                               {"fusewise.live-validation", live_validation_summary},
                               {"fusewise.scenario", scenario_summary}};

/// A row of a list, and the same as JSON.
struct Entry {
  std::vector<std::string> cells;
  ordered_json json;
};

struct List {
  std::string_view name;  ///< of what is listed, in the plural
  std::vector<std::string> header;
  std::vector<std::size_t> left;  ///< columns that are left-aligned
  std::vector<Entry> (*entries)();
  std::string_view hint;
};

/// Without duplicates, in the order of the curves.
template <typename Value, typename Of>
std::vector<Value> distinct(const core::Network& network, Of of) {
  std::vector<Value> out;
  for (const core::Measured& measured : network.measured)
    if (std::ranges::find(out, of(measured)) == out.end()) out.push_back(of(measured));
  return out;
}

std::vector<std::int64_t> workers_of(const core::Network& network) {
  return distinct<std::int64_t>(network, [](const core::Measured& each) { return each.workers; });
}

std::vector<std::string_view> collectives_of(const core::Network& network) {
  return distinct<std::string_view>(network,
                                    [](const core::Measured& each) { return name(each.collective); });
}

/// Its collectives, numbers of workers, range of sizes and largest bandwidth.
Entry measured_network(const core::BundledFile& bundled) {
  const core::Network network = core::read_network(*core::find_bundled_network(bundled.name));
  double min_bytes = std::numeric_limits<double>::infinity();
  double max_bytes = 0;
  double rate = 0;
  for (const core::Measured& measured : network.measured) {
    const auto& points = measured.curve.points();
    min_bytes = std::min(min_bytes, points.front().first);
    max_bytes = std::max(max_bytes, points.back().first);
    constexpr double kBytesPerUsOfGb = 1e3;
    if (measured.collective == core::CollectiveKind::all_reduce)
      rate = points.back().first / points.back().second / kBytesPerUsOfGb;
  }
  const std::vector<std::int64_t> workers = workers_of(network);
  const std::vector<std::string_view> collectives = collectives_of(network);
  return {{std::string(bundled.name), fmt::format("{}", fmt::join(workers, ", ")),
           fmt::format("{:.0f} B to {:.4g} MB", min_bytes, max_bytes / 1e6),
           fmt::format("{:.1f} GB/s on {}", rate, workers.back()),
           fmt::format("{}", fmt::join(collectives, ", "))},
          {{"name", bundled.name},
           {"workers", workers},
           {"collectives", collectives},
           {"min_bytes", min_bytes},
           {"max_bytes", max_bytes},
           {"all_reduce_gb_per_s", rate}}};
}

std::vector<Entry> measured_networks() {
  std::vector<Entry> out;
  for (const core::BundledFile& bundled : core::bundled_networks()) out.push_back(measured_network(bundled));
  return out;
}

/// The kind of its data and what they are, in words.
std::string described(const core::Network& network) {
  if (!network.measured.empty())
    return fmt::format("{} on {} workers", fmt::join(collectives_of(network), ", "),
                       core::list_text(workers_of(network)));
  if (network.link)
    return fmt::format("a link: startup {:.3g} us, {:.3g} us a MB", network.link->alpha_us,
                       network.link->beta_us_per_byte * 1e6);
  std::vector<std::string> levels;
  for (const core::Level& level : network.levels) levels.push_back(level.name);
  return fmt::format("levels: {}", fmt::join(levels, ", "));
}

std::vector<Entry> networks_of_scenarios() {
  std::vector<Entry> out;
  for (const core::BundledFile& bundled : core::networks_of_scenarios()) {
    const core::Network network = core::read_network(*core::find_bundled_network(bundled.name));
    const std::string text = described(network);
    out.push_back({{std::string(bundled.name), text}, {{"name", bundled.name}, {"described_by", text}}});
  }
  return out;
}

std::vector<Entry> models() {
  std::vector<Entry> out;
  for (const std::string& name : bundled_names(Bundled::model)) {
    const core::Model model = core::read_model(core::Field::load(*find_bundled(Bundled::model, name)));
    out.push_back(
        {{name, fmt::to_string(model.layers.size()), fmt::to_string(tensor_count(model)),
          fmt::to_string(parameter_count(model)), fmt::format("{:.4g}", forward_flops(model) / 1e9)},
         {{"name", name},
          {"layers", model.layers.size()},
          {"tensors", tensor_count(model)},
          {"parameters", parameter_count(model)},
          {"forward_flops", forward_flops(model)}}});
  }
  return out;
}

std::vector<Entry> bundled_scenarios() {
  std::vector<Entry> out;
  for (const std::string& name : bundled_names(Bundled::scenario)) {
    const scenarios::Scenario scenario =
        scenarios::read_scenario(core::Field::load(*find_bundled(Bundled::scenario, name)));
    const std::vector<std::int64_t>& workers = scenario.workers;
    out.push_back({{name, scenario.profile.model, scenario.network.name,
                    workers.size() == 1 ? fmt::to_string(workers.front())
                                        : fmt::format("{} to {}", workers.front(), workers.back()),
                    fmt::to_string(scenario.schedules.size())},
                   {{"name", name},
                    {"model", scenario.profile.model},
                    {"network", scenario.network.name},
                    {"workers", workers},
                    {"schedules", scenario.schedules.size()}}});
  }
  return out;
}

std::vector<Entry> profiles() {
  std::vector<Entry> out;
  for (const std::string& name : bundled_names(Bundled::profile)) {
    const core::Profile profile =
        core::read_profile(core::Field::load(*find_bundled(Bundled::profile, name)));
    double bytes = 0;
    for (const core::ProfileLayer& layer : profile.layers)
      for (const auto& tensor : layer.tensors)
        bytes += static_cast<double>(tensor.elements) *
                 static_cast<double>(core::bytes_per_element(profile.dtype));
    const double compute_us = core::forward_us(profile) + core::backward_us(profile);
    out.push_back(
        {{name, profile.device, fmt::to_string(profile.batch_size), fmt::to_string(profile.layers.size()),
          fmt::format("{:.1f}", bytes / 1e6), fmt::format("{:.3f}", compute_us / 1e3)},
         {{"name", name},
          {"device", profile.device},
          {"batch_size", profile.batch_size},
          {"layers", profile.layers.size()},
          {"bytes", bytes},
          {"compute_us", compute_us}}});
  }
  return out;
}

std::vector<Entry> schedules() {
  std::vector<Entry> out;
  for (const planner::Preset& preset : planner::presets())
    out.push_back({{std::string(preset.name), std::string(preset.summary)},
                   {{"name", preset.name}, {"summary", preset.summary}}});
  return out;
}

std::vector<Entry> devices() {
  std::vector<Entry> out;
  for (const core::Device& device : core::devices())
    out.push_back(
        {{std::string(device.name), std::string(device.full_name), fmt::format("{:g}", device.float32_tflops),
          fmt::format("{:g}", device.float16_tflops), fmt::format("{:g}", device.memory_gbytes_per_s)},
         {{"name", device.name},
          {"full_name", device.full_name},
          {"float32_tflops", device.float32_tflops},
          {"float16_tflops", device.float16_tflops},
          {"memory_gbytes_per_s", device.memory_gbytes_per_s}}});
  return out;
}

std::vector<List> lists() {
  return {
      {.name = "scenarios",
       .header = {"scenario", "model", "network", "workers", "schedules"},
       .left = {0, 1, 2},
       .entries = bundled_scenarios,
       .hint = "\nfusewise simulate NAME, plan NAME and report NAME take one from any folder\n"},
      {.name = "models",
       .header = {"model", "layers", "tensors", "parameters", "GFLOP a sample"},
       .left = {0},
       .entries = models,
       .hint = "\nfusewise estimate MODEL --device NAME makes a profile of one\n"},
      {.name = "profiles",
       .header = {"profile", "device", "batch", "layers", "MB", "time ms"},
       .left = {0, 1},
       .entries = profiles,
       .hint =
           "\ntime = forward and backward of an iteration; a scenario names one: \"profile\": \"NAME\"\n"},
      {.name = "networks",
       .header = {"network", "workers", "sizes", "all-reduce", "collectives"},
       .left = {0, 1, 2, 4},
       .entries = measured_networks,
       .hint = "\n"},
      {.name = "networks",
       .header = {"network of scenarios", "described by"},
       .left = {0, 1},
       .entries = networks_of_scenarios,
       .hint = "\nA scenario names one: \"network\": \"NAME\", with \"between\": "
               "{\"bandwidth_gbps\": 400} for several nodes of a measured machine\n"},
      {.name = "schedules",
       .header = {"schedule", "what it does"},
       .left = {0, 1},
       .entries = schedules,
       .hint =
           "\nA scenario lists some: \"schedules\": [\"NAME\"]; fusewise plan --schedule NAME takes one\n"},
      {.name = "devices",
       .header = {"device", "in full", "float32", "float16", "memory"},
       .left = {0, 1},
       .entries = devices,
       .hint = "float32 and float16 in TFLOP/s, memory in GB/s\n\n"
               "fusewise estimate MODEL --device NAME makes a profile for one\n"}};
}

std::string table(const List& list) {
  std::vector<std::vector<std::string>> rows = {list.header};
  for (const Entry& entry : list.entries()) rows.push_back(entry.cells);
  return core::aligned(rows, list.left) + std::string(list.hint);
}

/// The lists of that name as a table or as JSON; nothing if there is none.
std::string list_text(const std::string& name, bool json) {
  std::string tables;
  ordered_json entries = ordered_json::array();
  for (const List& list : lists()) {
    if (list.name != name) continue;
    if (name == "scenarios" || name == "models" || name == "profiles")
      check_data_folder(name);  // the others are a part of the program
    if (!json) tables += table(list);
    if (json)
      for (Entry& entry : list.entries()) entries.push_back(std::move(entry.json));
  }
  if (!json || entries.empty()) return printable_lines(tables);
  return core::json_text({{"format", "fusewise.list"}, {"version", 1}, {name, std::move(entries)}});
}

/// The row of a device or a schedule, which have no file; nothing if there is none of that name.
std::string row_text(const std::string& name, bool json) {
  for (const List& list : lists()) {
    if (list.name != "devices" && list.name != "schedules") continue;
    for (Entry& entry : list.entries())
      if (entry.cells.front() == name)
        return json ? core::json_text({{"format", "fusewise.list"},
                                       {"version", 1},
                                       {list.name, ordered_json::array({std::move(entry.json)})}})
                    : printable_lines(core::aligned({list.header, entry.cells}, list.left) +
                                      std::string(list.hint));
  }
  return "";
}

/// Everything that can be shown by a name.
std::vector<std::string> known_names() {
  std::vector<std::string> out;
  for (const List& list : lists()) out.emplace_back(list.name);
  for (const Bundled kind : {Bundled::scenario, Bundled::profile, Bundled::model})
    for (std::string& name : bundled_names(kind)) out.push_back(std::move(name));
  for (const std::string_view name : core::bundled_network_names()) out.emplace_back(name);
  for (const std::string_view name : planner::names(core::devices())) out.emplace_back(name);
  for (const std::string_view name : planner::names(planner::presets())) out.emplace_back(name);
  return out;
}

struct Document {
  std::string source;
  std::string text;
};

/// A file, otherwise the bundled network, scenario, profile or model of that name.
Document loaded(const std::string& path) {
  if (const std::string_view text = core::bundled_network_text(path); !text.empty())
    return {fmt::format("bundled network {}", path), std::string(text)};
  std::error_code none;
  if (is_name(path) && !std::filesystem::exists(path, none)) {
    for (const Bundled kind : {Bundled::scenario, Bundled::profile, Bundled::model})
      if (const auto found = find_bundled(kind, path)) return {found->string(), read_text(found->string())};
    check_data_folder(path);
    const std::vector<std::string> names = known_names();
    throw core::InputError(
        fmt::format("{}: expected a file, or a name that 'fusewise show scenarios', 'models', 'profiles', "
                    "'networks', 'schedules' or 'devices' lists, got neither{}",
                    core::one_line(path),
                    core::suggestion(path, std::vector<std::string_view>(names.begin(), names.end()))));
  }
  return {path, read_text(path)};
}

void show(const std::string& text, bool json) {
  const std::vector<std::string> names = known_names();
  std::error_code none;
  const std::string path =
      std::filesystem::exists(text, none)
          ? text
          : core::ignoring_case(text, std::vector<std::string_view>(names.begin(), names.end()));
  if (const std::string list = list_text(path, json); !list.empty())
    return json ? print(list) : print_for_people(list);
  if (const std::string row = std::filesystem::exists(text, none) ? "" : row_text(path, json); !row.empty())
    return json ? print(row) : print_for_people(row);
  const Document document = loaded(path);
  const core::Field file = core::Field::parse(document.text, document.source);
  std::vector<std::string_view> known;
  for (const Format& format : kFormats) known.push_back(format.name);
  const std::string name = format_of(file, known);
  for (const Format& format : kFormats)
    if (format.name == name) {
      const std::string shown = format.show(file);  // refuses what is wrong, also for --json
      json ? print(document.text) : print_for_people(printable_lines(shown));
    }
}

}  // namespace

void add_show(const Command& program) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  const Command command = program.add_command("show", "Describe the contents of a file");
  command.footer("Example: fusewise show resnet50");
  command
      .add_option(
          "FILE", *path,
          "a profile, network, compressors, model, plan, stage plans, memory front, live validation or "
          "scenario file; the name of a bundled one, of a schedule or of a device; or 'scenarios', 'models', "
          "'profiles', 'networks', 'schedules' or 'devices' for a list of those")
      .required();
  command.add_flag("--json", *json, "print JSON: the list, or the file itself after it has been checked");
  command.on_run([path, json] { show(*path, *json); });
}

}  // namespace cli
