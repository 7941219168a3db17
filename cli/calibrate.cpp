// fusewise calibrate: fits profiles and networks to the measured throughputs of a few runs.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "validate/measurements/calibrate.hpp"
#include "validate/measurements/calibrated_files.hpp"
#include "validate/measurements/calibration_text.hpp"

namespace cli {
namespace {

struct Options {
  std::string rows;
  std::string setup;
  std::vector<std::string> calibrate_on;
  std::vector<std::string> fit;
  std::vector<std::int64_t> workers;
  std::string folder;
  std::string output;
  bool json = false;
};

std::vector<std::string_view> quantity_names() {
  std::vector<std::string_view> out;
  for (const validate::FittedQuantity each : validate::kQuantities) out.push_back(validate::name(each));
  return out;
}

std::vector<bool> calibrated_rows(const std::vector<validate::Measurement>& rows,
                                  const std::vector<std::string>& options) {
  std::vector<bool> out(rows.size(), options.empty());
  for (const std::string& option : options) {
    const std::vector<bool> more = validate::select_rows(rows, option);
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] = out[i] || more[i];
  }
  return out;
}

validate::CalibrateOptions calibrate_options(const Options& options) {
  validate::CalibrateOptions out;
  if (options.fit.empty()) return out;
  out.fit.emplace();
  for (const std::string& text : options.fit) {
    const std::string each = known_name("--fit", text, quantity_names());
    for (const validate::FittedQuantity quantity : validate::kQuantities)
      if (validate::name(quantity) == each) out.fit->push_back(quantity);
  }
  return out;
}

std::vector<core::FileText> in_folder(const Options& options,
                                      const std::vector<validate::CalibratedFile>& files) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error)
    throw core::InputError(
        fmt::format("--output-folder: expected a folder, got '{}'", core::printable(options.folder)));
  std::vector<core::FileText> texts;
  for (const validate::CalibratedFile& each : files)
    texts.push_back({.file = std::filesystem::path(options.folder) / each.name, .text = each.text});
  return texts;
}

void calibrate(const Options& options) {
  const std::string source = core::one_line(options.rows);
  const std::vector<validate::Measurement> rows =
      validate::read_measurements(read_text(options.rows, core::kMaxLogBytes), source);
  const validate::Setup setup = validate::read_setup(core::Field::load(options.setup));
  const validate::Predictor predictor(rows, setup, source);
  StepLine line;
  line.count_seconds();
  line.next(fmt::format("fitting to {} rows", rows.size()));
  const validate::Calibration result = validate::calibrate(rows, calibrated_rows(rows, options.calibrate_on),
                                                           predictor, source, calibrate_options(options));
  line.end();
  const std::string json = validate::calibration_json(result, predictor);
  std::vector<core::FileText> files;
  if (!options.folder.empty())
    files = in_folder(options, validate::calibrated_files(
                                   result, predictor, options.workers,
                                   core::one_line(std::filesystem::path(source).filename().string())));
  if (!options.output.empty()) files.push_back({.file = options.output, .text = json});
  core::write_files(files);
  options.json
      ? print(json)
      : print_for_people(validate::calibration_table(result, predictor, terminal_width(STDOUT_FILENO)));
}

}  // namespace

void add_calibrate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("calibrate", "Fit profiles and networks to the measured throughputs of a few runs");
  command.footer(
      "Example: fusewise calibrate runs.csv --setup cluster.json --calibrate-on workers=1 --calibrate-on "
      "schedule=wfbp\n         --output-folder calibrated\nWithout --calibrate-on all rows are fitted; the "
      "errors of rows left out in turn are printed in any case.");
  command
      .add_option("RUNS", options->rows,
                  "CSV file: model,network,schedule,workers,samples_per_s (or iteration_us)")
      .required();
  command
      .add_option("--setup", options->setup, "a fusewise.setup file that defines the names of the CSV file")
      .required();
  command
      .add_option(
          "--calibrate-on", options->calibrate_on,
          "fit to the rows with KEY=VALUE and predict the others; keys are model, network, schedule, "
          "workers and line; a row must match all conditions that commas separate (repeatable: a row may "
          "match any)")
      .repeatable();
  command
      .add_option("--fit", options->fit,
                  fmt::format("fit these besides compute_factor and per_byte, instead of all that "
                              "the rows determine: {}",
                              fmt::join(quantity_names(), ", ")))
      .delimiter(',');
  command
      .add_option("--workers", options->workers, "further numbers of workers for which networks are written")
      .check(range<std::int64_t>(2, core::kMaxWorkers))
      .delimiter(',');
  command.add_option("--output-folder", options->folder,
                     "write a network for each network, and a profile for each model on it, to this folder");
  command.add_output("-o,--output", options->output, "also write the results to this file, as JSON");
  command.add_flag("--json", options->json, "print JSON");
  command.on_run([options] { calibrate(*options); });
}

}  // namespace cli
