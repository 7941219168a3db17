// fusewise fit: measured collectives become curves, segments and links, with how far each is off.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/job/registry.hpp"
#include "profiler/fit/report.hpp"
#include "profiler/fit/residual_plot.hpp"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string plot;
  std::string test = "by-turns";
  std::string write = "curve";
  bool as_json = false;
  traces::ImportOptions import;
  fit::Options fit;
};

bool is_network(const traces::LogFile& log) {
  return log.text.find("\"fusewise.network\"") != std::string::npos;
}

/// A network's measured curves, to be fitted again.
void add_network(traces::Measurements& out, const traces::LogFile& log, fit::Options& options) {
  const core::Field field = core::Field::parse(log.text, log.path);
  const core::Network network = core::read_network(field);
  if (network.measured.empty()) field.expected("measured curves", "none");
  for (std::size_t i = 0; i < network.measured.size(); ++i) {
    const core::Measured& measured = network.measured[i];
    const core::Field place = field.at("measured").items()[i];
    if (measured.curve.points().empty()) place.at("segments").expected("a curve to fit to, not segments");
    for (const auto& [bytes, us] : measured.curve.points())
      if (us <= 0) place.at("curve").expected("times above 0", fmt::format("{} us", us));
    out.series.push_back({.path = log.path,
                          .collective = measured.collective,
                          .algorithm = measured.algorithm,
                          .workers = measured.workers,
                          .points = measured.curve.points(),
                          .spread_us = measured.spread_us,
                          .p99_us = measured.p99_us});
  }
  if (network.line_rate_gbps && !options.line_rate_gbps) options.line_rate_gbps = network.line_rate_gbps;
  if (options.name.empty()) options.name = network.name;
  std::stable_sort(out.series.begin(), out.series.end(), [](const auto& a, const auto& b) {
    return std::pair(a.collective, a.workers) < std::pair(b.collective, b.workers);
  });
  out.source = fmt::format("network {}, {}", network.name, network.origin.source);
}

traces::Measurements read(const Options& options, fit::Options& wanted) {
  std::vector<traces::LogFile> logs;
  for (const std::string& path : options.logs) logs.push_back(read_log(path));
  if (!options.import.format.empty() || !is_network(logs.front()))
    return traces::read_measurements(logs, options.import);
  if (logs.size() > 1)
    throw core::InputError(
        fmt::format("{}: expected one network at a time, got a second file", core::one_line(logs[1].path)));
  traces::Measurements out;
  add_network(out, logs.front(), wanted);
  return out;
}

void run(const Options& options) {
  fit::Options wanted = options.fit;
  wanted.test = options.test == "powers-of-two" ? fit::Test::powers_of_two : fit::Test::by_turns;
  wanted.write_segments = options.write == "segments";
  if (options.import.line_rate_gbps > 0) wanted.line_rate_gbps = options.import.line_rate_gbps;
  const traces::Measurements measurements = read(options, wanted);
  if (wanted.name.empty()) wanted.name = std::filesystem::path(options.logs.front()).stem().string();
  const fit::Report report = fit::fit(measurements, wanted);
  warn(report.warnings);
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, network_text(report.network)});
  if (!options.plot.empty()) files.push_back({options.plot, residual_plot(report)});
  core::write_files(files);
  print(options.as_json ? report_json(report) : report_table(report));
}

}  // namespace

void add_fit(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("fit", "Fit measured collectives, and say how far each description is off");
  std::string formats = "Reads a fusewise.network with measured curves, or logs in one of the formats\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    if (format.series != nullptr) formats += fmt::format("  {:<10} {}\n", format.name, format.summary);
  command.footer(formats +
                 "Example: fusewise fit allreduce2.log allreduce4.log allreduce8.log --line-rate-gbps 10 \\\n"
                 "    --predict-workers 16 --plot residuals.svg -o cluster.network.json");
  command.add_option("LOG", options->logs, "measurements that belong together").required();
  command.add_option("-o,--output", options->output, "write a fusewise.network to this file")
      .check(file_name());
  command.add_option("--plot", options->plot, "write the residuals to this SVG file").check(file_name());
  command.add_flag("--json", options->as_json, "print the report as JSON");
  command.add_option("--format", options->import.format, "of the logs, instead of recognising it")
      .check(one_of(planner::names(traces::import_formats())));
  command.add_option("--name", options->fit.name, "name of the network (default: the file's name)");
  command.add_option("--workers", options->import.workers, "number of workers, where the log does not say")
      .check(range(std::int64_t{1}, std::int64_t{1'000'000}));
  command.add_option("--collective", options->import.collective, "which it was, where the log does not say")
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather"}));
  command
      .add_option("--algorithm", options->fit.algorithm,
                  "of all-reduce, for the link under it (default: the one that fits best)")
      .check(one_of({"ring", "binary_tree", "recursive_doubling", "halving_doubling", "double_binary_tree"}));
  command
      .add_option("--line-rate-gbps", options->import.line_rate_gbps,
                  "of the network, 10^9 bits/s: slopes under the physical bound are warned of")
      .check(number_in(0, 1e6));
  command.add_option("--test", options->test, "which sizes a fit is made from, to be tested on the others")
      .check(one_of({"by-turns", "powers-of-two"}))
      .show_default();
  command
      .add_option("--penalty", options->fit.segments.penalty,
                  "what a segment more has to gain: higher, fewer segments")
      .check(number_in(0, 1e6))
      .show_default();
  command
      .add_option("--predict-workers", options->fit.predict,
                  "predict these numbers of workers, and write them into the network")
      .delimiter(',')
      .check(range(std::int64_t{2}, std::int64_t{1'000'000}));
  command.add_option("--write", options->write, "what the network holds of what was measured")
      .check(one_of({"curve", "segments"}))
      .show_default();
  command.on_run([options] { run(*options); });
}

}  // namespace cli
