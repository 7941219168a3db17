// fusewise estimate: a profile from a model's shapes and a device's data sheet.

#include "core/estimate/estimate.hpp"

#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/model/model.hpp"
#include "planner/job/registry.hpp"

namespace cli {
namespace {

struct Options {
  std::string model;
  std::string device;
  std::optional<std::int64_t> batch;
  std::optional<std::string> dtype;
  std::optional<double> iteration_ms;
  std::optional<std::int64_t> sequence_length;
  std::string output;
};

core::Device named_device(const std::string& name) {
  if (const std::optional<core::Device> device = core::device(name)) return *device;
  const std::vector<std::string_view> known = planner::names(core::devices());
  throw core::InputError(fmt::format("--device: expected one of {}, got '{}'{}", fmt::join(known, ", "),
                                     core::printable(name), core::suggestion(name, known)));
}

void estimate(const Options& options) {
  const core::Device device = named_device(options.device);
  const core::Model model =
      core::read_model(core::Field::load(options.model), {.sequence_length = options.sequence_length});
  core::EstimateOptions wanted = {
      .batch_size = options.batch, .dtype = {}, .compute_us = {}, .forward_share = {}};
  if (options.iteration_ms) wanted.compute_us = *options.iteration_ms * 1e3;
  if (options.dtype) wanted.dtype = core::dtype(*options.dtype);
  const core::Profile profile = core::estimate(model, device, wanted);
  write_or_print(options.output, profile_text(profile), summary(profile));
}

}  // namespace

void add_estimate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("estimate", "Estimate a profile from a model's shapes on a known device");
  command.footer(
      "Example: fusewise estimate models/resnet50.json --device v100 --iteration-ms 220 -o "
      "resnet50.profile.json");
  command.add_option("MODEL", options->model, "a fusewise.model file").required();
  command
      .add_option("--device", options->device,
                  fmt::format("one of {}", fmt::join(planner::names(core::devices()), ", ")))
      .required();
  command.add_option("--batch", options->batch, "samples per worker (default: the model's)")
      .check(range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command.add_option("--dtype", options->dtype, "of computation and gradients (default: the model's)")
      .check(one_of({"float32", "float16", "bfloat16"}));
  command.add_option("--sequence-length", options->sequence_length, "instead of the model's")
      .check(range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command
      .add_option("--iteration-ms", options->iteration_ms, "scale forward and backward to this time in all")
      .check(number_in(1e-6, 1e9));
  command.add_option("-o,--output", options->output, "write to this file and print a summary")
      .check(file_name());
  command.on_run([options] { estimate(*options); });
}

}  // namespace cli
