// fusewise fit: fits curves, segments and links to measured collectives, and reports the error of each.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/job/registry.hpp"
#include "profiler/fit/report.hpp"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string test = "by-turns";
  std::string write = "curve";
  bool as_json = false;
  traces::ImportOptions import;
  fit::Options fit;
};

bool is_network(const traces::LogFile& log) {
  return log.text.find("\"fusewise.network\"") != std::string::npos;
}

/// Adds the measured curves of a network, so that they are fitted again.
void add_network(traces::Measurements& out, const traces::LogFile& log, fit::Options& fit_options) {
  const core::Field field = core::Field::parse(log.text, log.path);
  const core::Network network = core::read_network(field);
  if (network.measured.empty()) field.expected("measured curves", "none");
  const std::vector<core::Field> entries = field.at("measured").items();
  for (std::size_t i = 0; i < network.measured.size(); ++i) {
    const core::Measured& measured = network.measured[i];
    const core::Field& entry = entries[i];
    if (measured.curve.points().empty()) entry.at("segments").expected("a curve to fit to, not segments");
    for (const auto& [bytes, us] : measured.curve.points())
      if (us <= 0) entry.at("curve").expected("times above 0", fmt::format("{} us", us));
    out.series.push_back({.path = log.path,
                          .collective = measured.collective,
                          .algorithm = measured.algorithm,
                          .workers = measured.workers,
                          .points = measured.curve.points(),
                          .spread_us = measured.spread_us,
                          .p99_us = measured.p99_us});
  }
  if (network.line_rate_gbps && !fit_options.line_rate_gbps)
    fit_options.line_rate_gbps = network.line_rate_gbps;
  if (fit_options.name.empty()) fit_options.name = network.name;
  std::ranges::stable_sort(out.series, [](const auto& a, const auto& b) {
    return std::pair(a.collective, a.workers) < std::pair(b.collective, b.workers);
  });
  out.source = fmt::format("network {}, {}", network.name, network.origin.source);
}

traces::Measurements read(const Options& options, fit::Options& fit_options) {
  const std::vector<traces::LogFile> logs = read_logs(options.logs);
  if (!options.import.format.empty() || !is_network(logs.front()))
    return traces::read_measurements(logs, options.import);
  if (logs.size() > 1)
    throw core::InputError(fmt::format("{}: /: expected one network at a time, got a second file",
                                       core::one_line(logs[1].path)));
  traces::Measurements out;
  add_network(out, logs.front(), fit_options);
  return out;
}

void run(const Options& options) {
  fit::Options fit_options = options.fit;
  fit_options.test = options.test == "powers-of-two" ? fit::Test::powers_of_two : fit::Test::by_turns;
  fit_options.write_segments = options.write == "segments";
  if (options.import.line_rate_gbps > 0) fit_options.line_rate_gbps = options.import.line_rate_gbps;
  const traces::Measurements measurements = read(options, fit_options);
  if (fit_options.name.empty())
    fit_options.name = std::filesystem::path(options.logs.front()).stem().string();
  StepLine line;
  line.count_seconds();
  line.next("fitting");
  const fit::Report report = fit::fit(measurements, fit_options);
  line.end();
  print_warnings(report.warnings);
  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, network_text(report.network)});
  core::write_files(files);
  options.as_json ? print(report_json(report)) : print_for_people(report_table(report));
}

}  // namespace

void add_fit(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command(
      "fit", "Fit curves and links to measured collectives, and report the error of each");
  std::string formats =
      "LOG is a fusewise.network file with measured curves, or a log in one of these formats:\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    if (format.is_measured()) formats += fmt::format("  {:<10} {}\n", format.name, format.summary);
  command.footer(formats +
                 "Example: fusewise fit allreduce2.log allreduce4.log allreduce8.log --line-rate-gbps 10 \\\n"
                 "    --predict-workers 16 -o cluster.network.json");
  command.add_option("LOG", options->logs, "files with measurements of the same network").required();
  command.add_output("-o,--output", options->output, "write a fusewise.network to this file");
  command.add_flag("--json", options->as_json,
                   "print the report as JSON, of which fusewise report draws the errors");
  command
      .add_option("--format", options->import.format,
                  "format of the logs (default: recognized from the text)")
      .check(one_of(planner::names(traces::import_formats())));
  command.add_option("--name", options->fit.name, "name of the network (default: the file's name)");
  command
      .add_option("--workers", options->import.workers, "number of workers, if the log does not contain it")
      .check(range<std::int64_t>(1, 1'000'000));
  command
      .add_option("--collective", options->import.collective,
                  "collective that was measured, if the log does not contain it")
      .check(one_of({"all_reduce", "reduce_scatter", "all_gather"}));
  command
      .add_option("--algorithm", options->fit.algorithm,
                  "all-reduce algorithm for which the link is fitted (default: the one that fits best)")
      .check(one_of({fit::link_algorithms().begin(), fit::link_algorithms().end()}));
  command
      .add_option("--line-rate-gbps", options->import.line_rate_gbps,
                  "line rate of the network in 10^9 bits/s; slopes below this physical bound give a warning")
      .check(number_in(0, 1e6));
  command.add_option("--test", options->test, "sizes that are fitted; the error is tested on the other sizes")
      .check(one_of({"by-turns", "powers-of-two"}))
      .show_default();
  command
      .add_option("--penalty", options->fit.segments.penalty,
                  "error that an additional segment must remove; a higher penalty gives fewer segments")
      .check(number_in(0, 1e6))
      .show_default();
  command
      .add_option("--predict-workers", options->fit.predict,
                  "numbers of workers to predict and to write into the network")
      .delimiter(',')
      .check(range<std::int64_t>(2, 1'000'000));
  command.add_option("--write", options->write, "form in which the network contains the measurements")
      .check(one_of({"curve", "segments"}))
      .show_default();
  command.has_no("--plot", "fusewise report -o report.html draws charts of fit --json");
  command.on_run([options] { run(*options); });
}

}  // namespace cli
