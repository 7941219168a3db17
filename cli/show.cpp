// fusewise show: describes the contents of a file in a few lines.

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "core/bundled_networks.hpp"
#include "core/model/model.hpp"
#include "core/text_table.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/scenario.hpp"

namespace cli {
namespace {

std::string model_summary(const core::Field& file) {
  const core::Model model = core::read_model(file);
  std::string out = fmt::format(
      "model {}: {} layers, {} tensors, {} parameters, {:.4g} GFLOP forward per sample\n", model.name,
      model.layers.size(), tensor_count(model), parameter_count(model), forward_flops(model) / 1e9);
  if (!model.about.empty()) out += model.about + '\n';
  for (const core::Layer& layer : model.layers) {
    out +=
        fmt::format("  {:<40} {:<20} {:>20}", layer.name, core::name(layer.kind), core::text(layer.output));
    for (const core::Tensor& tensor : layer.tensors) out += fmt::format("  {}", core::text(tensor.shape));
    out += '\n';
  }
  return out;
}

std::string profile_summary(const core::Field& file) { return summary(core::read_profile(file)); }
std::string network_summary(const core::Field& file) { return summary(core::read_network(file)); }
std::string compressors_summary(const core::Field& file) {
  return summary(core::read_compressor_costs(file));
}
std::string plan_summary(const core::Field& file) {
  return scenarios::plan_table(planner::read_plan_file(file));
}

std::string scenario_summary(const core::Field& file) {
  const scenarios::Scenario scenario = scenarios::read_scenario(file);
  std::vector<std::string> names;
  for (const planner::Schedule& schedule : scenario.schedules) names.push_back(schedule.name);
  return fmt::format("scenario {}: {} workers; schedules {}\n{}{}", scenario.name,
                     fmt::join(scenario.workers, ", "), fmt::join(names, ", "), summary(scenario.profile),
                     summary(scenario.network));
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
                               {"fusewise.scenario", scenario_summary}};

/// One row per bundled network: its collectives, numbers of workers, range of sizes and largest bandwidth.
std::string network_list() {
  std::vector<std::vector<std::string>> rows = {
      {"network", "measured on", "collectives", "sizes", "GB/s of an all-reduce"}};
  for (const core::BundledNetwork& bundled : core::bundled_networks()) {
    const core::Network network = core::read_network(*core::find_bundled_network(bundled.name));
    std::vector<std::int64_t> workers;
    std::vector<std::string_view> collectives;
    double min_bytes = std::numeric_limits<double>::infinity();
    double max_bytes = 0;
    double rate = 0;
    for (const core::Measured& measured : network.measured) {
      const auto& points = measured.curve.points();
      if (std::find(workers.begin(), workers.end(), measured.workers) == workers.end())
        workers.push_back(measured.workers);
      if (std::find(collectives.begin(), collectives.end(), name(measured.collective)) == collectives.end())
        collectives.push_back(name(measured.collective));
      min_bytes = std::min(min_bytes, points.front().first);
      max_bytes = std::max(max_bytes, points.back().first);
      constexpr double kBytesPerUsOfGb = 1e3;
      if (measured.collective == core::CollectiveKind::all_reduce)
        rate = points.back().first / points.back().second / kBytesPerUsOfGb;
    }
    rows.push_back({std::string(bundled.name), fmt::format("{} workers", fmt::join(workers, ", ")),
                    fmt::format("{}", fmt::join(collectives, ", ")),
                    fmt::format("{:.0f} B to {:.4g} MB", min_bytes, max_bytes / 1e6),
                    fmt::format("{:.1f} on {}", rate, workers.back())});
  }
  return core::aligned(rows, {0, 1, 2, 3}) +
         "\nA scenario names one: \"network\": \"NAME\", with \"between\": {\"bandwidth_gbps\": 400} for "
         "several "
         "nodes of that size\n";
}

/// One row per bundled model.
std::string model_list() {
  std::vector<std::vector<std::string>> rows = {
      {"model", "layers", "tensors", "parameters", "GFLOP a sample"}};
  for (const std::string& name : bundled_names(Bundled::model)) {
    const core::Model model = core::read_model(core::Field::load(*find_bundled(Bundled::model, name)));
    rows.push_back({name, fmt::to_string(model.layers.size()), fmt::to_string(tensor_count(model)),
                    fmt::to_string(parameter_count(model)),
                    fmt::format("{:.4g}", forward_flops(model) / 1e9)});
  }
  return core::aligned(rows, {0}) + "\nfusewise estimate MODEL --device NAME makes a profile of one\n";
}

/// One row per bundled scenario.
std::string scenario_list() {
  std::vector<std::vector<std::string>> rows = {{"scenario", "model", "network", "workers", "schedules"}};
  for (const std::string& name : bundled_names(Bundled::scenario)) {
    const scenarios::Scenario scenario =
        scenarios::read_scenario(core::Field::load(*find_bundled(Bundled::scenario, name)));
    const std::vector<std::int64_t>& workers = scenario.workers;
    rows.push_back({name, scenario.profile.model, scenario.network.name,
                    workers.size() == 1 ? fmt::to_string(workers.front())
                                        : fmt::format("{} to {}", workers.front(), workers.back()),
                    fmt::to_string(scenario.schedules.size())});
  }
  return core::aligned(rows, {0, 1, 2}) +
         "\nfusewise simulate NAME, plan NAME and report NAME take one from any folder\n";
}

/// One row per bundled profile.
std::string profile_list() {
  std::vector<std::vector<std::string>> rows = {{"profile", "device", "batch", "layers", "MB", "compute ms"}};
  for (const std::string& name : bundled_names(Bundled::profile)) {
    const core::Profile profile =
        core::read_profile(core::Field::load(*find_bundled(Bundled::profile, name)));
    double bytes = 0;
    for (const core::ProfileLayer& layer : profile.layers)
      for (const auto& tensor : layer.tensors)
        bytes += static_cast<double>(tensor.elements) *
                 static_cast<double>(core::bytes_per_element(profile.dtype));
    rows.push_back({name, profile.device, fmt::to_string(profile.batch_size),
                    fmt::to_string(profile.layers.size()), fmt::format("{:.1f}", bytes / 1e6),
                    fmt::format("{:.3f}", (core::forward_us(profile) + core::backward_us(profile)) / 1e3)});
  }
  return core::aligned(rows, {0, 1});
}

struct List {
  std::string_view name;
  std::string (*text)();
};

constexpr List kLists[] = {{"scenarios", scenario_list},
                           {"models", model_list},
                           {"profiles", profile_list},
                           {"networks", network_list}};

/// A file, otherwise the bundled network, scenario, profile or model of that name.
core::Field loaded(const std::string& path) {
  if (auto bundled = core::find_bundled_network(path)) return std::move(*bundled);
  for (const Bundled kind : {Bundled::scenario, Bundled::profile, Bundled::model})
    if (!std::filesystem::exists(path))
      if (const auto found = find_bundled(kind, path)) return core::Field::load(*found);
  return core::Field::load(path);
}

void show(const std::string& path) {
  for (const List& list : kLists)
    if (list.name == path) return print(printable_lines(list.text()));
  const core::Field file = loaded(path);
  std::vector<std::string_view> known;
  for (const Format& format : kFormats) known.push_back(format.name);
  const std::string name = file.at("format").one_of(known);
  for (const Format& format : kFormats)
    if (format.name == name) print(printable_lines(format.show(file)));
}

}  // namespace

void add_show(const Command& program) {
  auto path = std::make_shared<std::string>();
  const Command command = program.add_command("show", "Describe the contents of a file");
  command.footer("Example: fusewise show models/resnet50.json");
  command
      .add_option(
          "FILE", *path,
          "a profile, network, compressors, model, plan or scenario file; the name of a bundled one; or "
          "'scenarios', 'models', 'profiles' or 'networks' for a list of those")
      .required();
  command.on_run([path] { show(*path); });
}

}  // namespace cli
