// fusewise profile: measures the layers of a model on this machine.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/model/model.hpp"
#include "planner/job/registry.hpp"
#include "profiler/common/host.hpp"
#include "profiler/layers/measure_profile.hpp"

namespace cli {
namespace {

struct Options {
  std::string model;
  std::string backend = "cuda";
  bool is_backend_given = false;
  std::optional<std::int64_t> batch;
  std::optional<std::string> dtype;
  std::optional<std::int64_t> input_size;
  std::optional<std::int64_t> sequence_length;
  std::optional<int> threads;
  int repetitions = 30;
  int warm_up = 2;
  std::optional<double> memory_mb;
  bool tf32 = false;
  bool verify = false;
  std::string output;
  bool json = false;
};

/// A progress bar on stderr, if that is a terminal.
class ProgressBar {
 public:
  ~ProgressBar() {
    if (is_shown_) fmt::print(stderr, "\r\033[K");
  }
  ProgressBar() = default;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(int done, int total) {
    constexpr int kWidth = 20;
    if (!is_terminal_) return;
    is_shown_ = true;
    const int filled = kWidth * done / total;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    fmt::print(stderr, "\r[{}{}] {} of {} repetitions{}\033[K",
               std::string(static_cast<std::size_t>(filled), '#'),
               std::string(static_cast<std::size_t>(kWidth - filled), '.'), done, total,
               pace(static_cast<std::size_t>(done), static_cast<std::size_t>(total - done), seconds));
    std::fflush(stderr);
  }

 private:
  bool is_terminal_ = shows_progress();
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool is_shown_ = false;
};

profiler::ProfileOptions options_of(const Options& options, const core::Model& model) {
  profiler::ProfileOptions out = {
      .session = {.batch_size = options.batch.value_or(model.batch_size),
                  .dtype = core::Dtype::float32,
                  .threads = options.threads.value_or(profiler::processor_count()),
                  .tf32 = options.tf32},
      .warm_up = options.warm_up,
      .repetitions = options.repetitions,
      .max_bytes = {}};
  constexpr double kMega = 1e6;
  if (options.memory_mb) out.max_bytes = *options.memory_mb * kMega;
  if (options.dtype) out.session.dtype = *core::dtype(*options.dtype);
  return out;
}

/// Compares the results of each layer on the backend with those on the CPU.
void verify(const profiler::Backend& backend, const core::Model& model,
            const profiler::SessionOptions& options) {
  if (backend.verify == nullptr)
    throw core::InputError(fmt::format(
        "--verify: expected --backend cuda, got {}, with which the others are compared", backend.name));
  backend.check(options);
  const profiler::Verdict verdict = backend.verify(profiler::make_work(model), options);
  std::vector<std::string> different;
  for (const profiler::LayerDifference& layer : verdict.layers) {
    const bool agrees = layer.forward <= verdict.tolerance && layer.backward <= verdict.tolerance;
    fmt::print("{:<40} forward {:9.2e}  backward {:9.2e}{}\n", layer.layer, layer.forward, layer.backward,
               agrees ? "" : "  differs");
    if (!agrees) different.push_back(layer.layer);
  }
  if (!different.empty())
    throw core::EnvironmentError(
        fmt::format("{} of {} layers differ from the CPU's by more than {:g}, the first is {}",
                    different.size(), verdict.layers.size(), verdict.tolerance, different.front()));
  fmt::print("all {} layers agree with the CPU's within {:g}\n", verdict.layers.size(), verdict.tolerance);
}

void profile(const Options& options) {
  const profiler::Backend& backend =
      *std::ranges::find(profiler::backends(), options.backend, &profiler::Backend::name);
  const core::Model model =
      core::read_model(core::Field::load(input_path(Bundled::model, options.model)),
                       {.sequence_length = options.sequence_length, .input_size = options.input_size});
  if (options.verify && options.json)
    throw core::InputError("--json: expected no --verify with it, as that prints a table, got both");
  if (options.verify) return verify(backend, model, options_of(options, model).session);
  ProgressBar bar;
  const profiler::MeasuredProfile measured = [&] {
    try {
      return profiler::measure_profile(model, backend, options_of(options, model),
                                       [&](int done, int total) { bar.show(done, total); });
    } catch (const core::EnvironmentError& error) {
      if (options.is_backend_given) throw;
      throw core::EnvironmentError(fmt::format("{} (--backend cpu measures on the processor)", error.what()));
    }
  }();
  std::vector<std::string> warnings = measured.warnings;
  if (!options.dtype && model.dtype != "float32")
    warnings.push_back(fmt::format("measured in float32, but the dtype of the model is {}", model.dtype));
  print_warnings(warnings);
  const std::string text =
      fmt::format("{}whole iteration {:.1f} us (spread {:.1f}), layers add up to {:.1f} us; machine {}\n",
                  summary(measured.profile), measured.iteration.median, measured.iteration.spread,
                  measured.layers_us, measured.noise.is_noisy() ? "noisy" : "quiet");
  write_or_print(options.output, profile_text(measured.profile), text, options.json);
}

}  // namespace

void add_profile(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command("profile", "Measure the layers of a model on this machine");
  command.footer("Example: fusewise profile resnet18 --backend cpu --batch-size 4 -o r18.profile.json");
  constexpr int kMaxRepetitions = 1'000'000;
  command
      .add_option("MODEL", options->model,
                  "a fusewise.model file, or a name that 'fusewise show models' lists")
      .required();
  const Option backend = command.add_option("--backend", options->backend, "where the layers run")
                             .check(one_of(planner::names(profiler::backends())))
                             .show_default();
  command.add_option("--batch,--batch-size", options->batch, "samples (default: those of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command
      .add_option("--dtype", options->dtype, "element type of computation and gradients (default: float32)")
      .check(one_of({"float32", "float16", "bfloat16"}));
  command
      .add_option("--input-size", options->input_size,
                  "height and width of the images (default: those of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command
      .add_option("--sequence-length", options->sequence_length,
                  "length of the sequences (default: that of the model)")
      .check(range<std::int64_t>(1, 1'000'000'000));
  command.add_option("--threads", options->threads, "threads on the CPU (default: one per core)")
      .check(range(1, 4096));
  command.add_flag("--tf32", options->tf32, "compute float32 products on a GPU with TF32 precision");
  command.add_flag(
      "--verify", options->verify,
      "compare the results of each layer with the CPU instead of measuring; a small --batch-size is enough");
  command
      .add_option("--repetitions", options->repetitions, "measured repetitions; at least 30 are recommended")
      .check(range(1, kMaxRepetitions))
      .show_default();
  command.add_option("--warm-up", options->warm_up, "repetitions before the measured ones")
      .check(range(0, kMaxRepetitions))
      .show_default();
  command.add_option("--memory-mb", options->memory_mb, "memory to use at most (default: all free memory)")
      .check(number_in(1e-3, 1e9));
  command.add_output("-o,--output", options->output, "write to this file and print a summary");
  command.add_flag("--json", options->json,
                   "print JSON also with --output, which prints a summary otherwise");
  command.on_run([options, backend] {
    options->is_backend_given = backend.is_given();
    profile(*options);
  });
}

}  // namespace cli
