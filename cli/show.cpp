// fusewise show: what a file holds, in a few lines.

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "core/files.hpp"
#include "core/model/model.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/scenario.hpp"

namespace cli {
namespace {

/// Names in a file may hold anything; its lines stay lines.
std::string printed(const std::string& text) {
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    out += core::one_line(std::string_view(text).substr(begin, end - begin)) + '\n';
    begin = end + 1;
  }
  return out + core::one_line(std::string_view(text).substr(begin));
}

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
    if (format.name == name) print(printed(format.show(file)));
}

}  // namespace

std::string summary(const core::Profile& profile) {
  constexpr double kMega = 1e6;
  const auto bytes =
      static_cast<double>(core::parameter_count(profile) * core::bytes_per_element(profile.dtype));
  return fmt::format(
      "profile {} on {}, batch {}, {}: {} layers, {} tensors, {:.2f} MB of gradients\n"
      "  forward {:.3f} ms, backward {:.3f} ms\n  origin: {}\n",
      profile.model, profile.device, profile.batch_size, core::name(profile.dtype), profile.layers.size(),
      core::tensor_count(profile), bytes / kMega, core::forward_us(profile) / 1e3,
      core::backward_us(profile) / 1e3, profile.origin.source);
}

std::string summary(const core::Network& network) {
  const auto link = [](const core::Link& l) {
    return fmt::format("alpha {:.6g} us, beta {:.6g} us/MB, gamma {:.6g} us/MB", l.alpha_us,
                       l.beta_us_per_byte * 1e6, l.gamma_us_per_byte * 1e6);
  };
  std::string out = fmt::format("network {}\n", network.name);
  if (network.line_rate_gbps) out += fmt::format("  line rate {} Gb/s\n", *network.line_rate_gbps);
  if (network.link) out += fmt::format("  link: {}\n", link(*network.link));
  for (const core::Level& level : network.levels)
    out += fmt::format("  level {}{}: {}{}\n", level.name,
                       level.size ? fmt::format(", {} units", *level.size) : "", link(level.link),
                       level.shared ? ", shared" : "");
  for (const core::Measured& measured : network.measured) {
    out += fmt::format("  measured {} {} on {} workers: {} points, {} segments",
                       measured.algorithm.value_or("any"), core::name(measured.collective), measured.workers,
                       measured.curve.points().size(), measured.curve.segments().size());
    if (measured.fit)
      out += fmt::format("; a straight line is off by {:.1f} % in the mean, {:.1f} % at worst",
                         100 * measured.fit->mean_relative_error, 100 * measured.fit->max_relative_error);
    out += '\n';
  }
  return out + fmt::format("  origin: {}\n", network.origin.source);
}

std::string summary(const core::CompressorCosts& costs) {
  std::string out =
      fmt::format("compressors on {}\n  {:<11} {:>7} {:>11} {:>12} {:>9} {:>12} {:>9} {:>9}\n", costs.device,
                  "", "density", "elements", "encode us", "spread", "decode us", "spread", "ratio");
  for (const core::MeasuredCompressor& compressor : costs.compressors)
    for (const core::CodeCurve& curve : compressor.curves)
      for (const core::CodePoint& point : curve.points)
        out += fmt::format("  {:<11} {:>7} {:>11} {:>12.2f} {:>9.2f} {:>12.2f} {:>9.2f} {:>9.5f}\n",
                           compressor.name, curve.density ? fmt::to_string(*curve.density) : "",
                           point.elements, point.encode.us, point.encode.spread_us, point.decode.us,
                           point.decode.spread_us, point.bytes / (4 * static_cast<double>(point.elements)));
  return out + fmt::format("  command: {}\n  origin: {}\n", costs.command, costs.origin.source);
}

void write_or_print(const std::string& file, const std::string& text, const std::string& summary) {
  if (!file.empty()) core::write_file(file, text);
  print(file.empty() ? text : printed(summary));
}

void add_show(const Command& program) {
  auto path = std::make_shared<std::string>();
  const Command command = program.add_command("show", "Say what a file holds");
  command.footer("Example: fusewise show models/resnet50.json");
  command.add_option("FILE", *path, "a profile, network, file of compressors, model, plan or scenario")
      .required();
  command.on_run([path] { show(*path); });
}

}  // namespace cli
