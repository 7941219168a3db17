// fusewise show: describes the contents of a file in a few lines.

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "core/model/model.hpp"
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

void show(const std::string& path) {
  const core::Field file = core::Field::load(path);
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
  command.add_option("FILE", *path, "a profile, network, compressors, model, plan or scenario file")
      .required();
  command.on_run([path] { show(*path); });
}

}  // namespace cli
