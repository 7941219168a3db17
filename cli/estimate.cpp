// fusewise estimate: estimates a profile from a model's shapes and the data sheet of a device.

#include "core/estimate/estimate.hpp"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/model/model.hpp"
#include "planner/job/registry.hpp"

namespace cli {
namespace {

struct Options {
  std::string model;
  std::string device;
  std::optional<std::int64_t> batch;
  std::optional<std::string> dtype;
  bool tf32 = false;
  std::optional<double> iteration_ms;
  std::optional<std::int64_t> sequence_length;
  std::string output;
  bool json = false;
};

core::Profile estimate(const core::Field& file, const core::Model& model, const core::Device& device,
                       const core::EstimateOptions& options) {
  try {
    return core::estimate(model, device, options);
  } catch (const core::InputError& error) {
    file.expected("a model whose times a profile can hold", error.what());
  }
}

void estimate(const Options& options) {
  const std::string device = known_name("--device", options.device, planner::names(core::devices()));
  const core::Field file = core::Field::load(input_path(Bundled::model, options.model));
  const core::Model model = core::read_model(file, {.sequence_length = options.sequence_length});
  core::EstimateOptions estimate_options = {
      .batch_size = options.batch, .dtype = {}, .tf32 = options.tf32, .compute_us = {}, .forward_share = {}};
  if (options.iteration_ms) estimate_options.compute_us = *options.iteration_ms * 1e3;
  if (options.dtype) estimate_options.dtype = core::dtype(*options.dtype);
  const core::Profile profile = estimate(file, model, core::device(device).value(), estimate_options);
  write_or_print(options.output, profile_text(profile), summary(profile), options.json);
}

}  // namespace

void add_estimate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("estimate", "Estimate a profile from the shapes of a model on a known device");
  command.footer(
      "Example: fusewise estimate resnet50 --device v100 --iteration-ms 220 -o "
      "resnet50.profile.json");
  command
      .add_option("MODEL", options->model,
                  "a fusewise.model file, or a name that 'fusewise show models' lists")
      .required();
  command
      .add_option("--device", options->device,
                  fmt::format("device whose data sheet is used: one of {}",
                              fmt::join(planner::names(core::devices()), ", ")))
      .required();
  command.add_option("--batch", options->batch, "samples per worker (default: those of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command
      .add_option("--dtype", options->dtype,
                  "element type of computation and gradients (default: that of the model)")
      .check(one_of({"float32", "float16", "bfloat16"}));
  command.add_flag("--tf32", options->tf32,
                   "products of float32 with TF32's precision, where the device has it");
  command
      .add_option("--sequence-length", options->sequence_length,
                  "length of the sequences (default: that of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command
      .add_option("--iteration-ms", options->iteration_ms,
                  "scale the layer times so that forward and backward together take this time")
      .check(number_in(1e-6, 1e9));
  command.add_output("-o,--output", options->output, "write to this file and print a summary");
  command.add_flag("--json", options->json,
                   "print JSON also with --output, which prints a summary otherwise");
  command.on_run([options] { estimate(*options); });
}

}  // namespace cli
