// fusewise import: logs of other projects become profiles and networks.

#include "traces/import.hpp"

#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "models/errors.hpp"
#include "models/files.hpp"
#include "planner/entries.hpp"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> logs;
  std::string output;
  std::string dtype = "float32";
  std::string tensors = "parameter";
  traces::ImportOptions import;
};

traces::LogFile read_log(const std::string& path) {
  try {
    return {.path = path, .text = models::read_file(path)};
  } catch (const std::system_error& error) {
    throw models::InputError(fmt::format("{}: /: expected a file that can be read, got: {}",
                                         models::printable(path), error.code().message()));
  }
}

void import(const Options& options) {
  traces::ImportOptions wanted = options.import;
  wanted.dtype = *traces::dtype(options.dtype);
  wanted.tensors = options.tensors == "layer" ? traces::Grouping::layer : traces::Grouping::parameter;
  std::vector<traces::LogFile> logs;
  for (const std::string& path : options.logs) logs.push_back(read_log(path));
  const traces::Imported imported = traces::import_logs(logs, wanted);
  if (const auto* profile = std::get_if<traces::Profile>(&imported))
    write_or_print(options.output, profile_text(*profile), summary(*profile));
  else
    write_or_print(options.output, network_text(std::get<traces::Network>(imported)),
                   summary(std::get<traces::Network>(imported)));
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("import", "Turn logs of other projects into a profile or a network");
  std::string formats = "Formats:\n";
  for (const traces::ImportFormat& format : traces::import_formats())
    formats += fmt::format("  {:<10} {}\n", format.name, format.summary);
  command->footer(
      formats +
      "Example: fusewise import tmp8comm.log --model googlenet --batch 64 -o googlenet.profile.json");
  command->add_option("LOG", options->logs, "log files that belong together")->required();
  command->add_option("-o,--output", options->output, "write to this file and print a summary")
      ->check(file_name());
  command->add_option("--format", options->import.format, "instead of recognising it")
      ->check(CLI::IsMember(planner::names(traces::import_formats())));
  command->add_option("--model", options->import.model, "name of the model (default: the file's name)");
  command->add_option("--name", options->import.network_name,
                      "name of the network (default: the file's name)");
  command->add_option("--batch", options->import.batch_size, "samples per worker, where the log does not say")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--device", options->import.device, "what the log was measured on");
  command->add_option("--dtype", options->dtype, "element type of the gradients")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--tensors", options->tensors, "a tensor per parameter, or one per layer")
      ->check(CLI::IsMember({"parameter", "layer"}))
      ->capture_default_str();
  command
      ->add_option("--forward-ratio", options->import.forward_ratio,
                   "assumed forward time as a share of backward, where the log holds none")
      ->check(number_in(0, 1000))
      ->capture_default_str();
  command->add_option("--workers", options->import.workers, "number of workers, where the log does not say")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command->add_option("--line-rate-gbps", options->import.line_rate_gbps, "of the network, 10^9 bits/s")
      ->check(number_in(0, 1e6));
  command->callback([options] { import(*options); });
}

}  // namespace cli
