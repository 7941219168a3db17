// Imported and simulated, made-up jobs take as long as they do: over hundreds of seeds and every way in which
// traces are written that we know of.

#include "tests/profiler/traces/kineto/made_job.hpp"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/scenarios/replay.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "tests/support/program.hpp"
#include "tests/support/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

struct Outcome {
  Imported imported;
  scenarios::Replay replay;
  double truth_us = 0;

  double error() const { return std::abs(replay.iteration_us / truth_us - 1); }
  /// Before what is missing is taken for waiting for slower workers.
  double predicted_error() const { return std::abs(replay.predicted_us / truth_us - 1); }
};

Outcome outcome(const MadeJob& job, const traces::ImportOptions& options = {.batch_size = 32}) {
  const support::TemporaryFolder folder;
  const MadeTrace trace(job);
  Outcome out = {.imported = import_trace(folder.put("t.json", trace.text()), options),
                 .replay = {},
                 .truth_us = trace.iteration_us()};
  out.replay = scenarios::replay(out.imported.profile, out.imported.network,
                                 {.iteration_us = out.imported.iteration_us,
                                  .exposed_us = out.imported.exposed_us,
                                  .buckets = out.imported.buckets,
                                  .gathers = out.imported.gathers});
  return out;
}

TEST_CASE("made job: on one worker the simulated iteration is the job's, within 3 %") {
  int ahead = 0;
  int waiting = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    const Outcome out = outcome(any_job(seed, true));
    CAPTURE(out.truth_us);
    CAPTURE(out.imported.iteration_us);
    CAPTURE(out.replay.iteration_us);
    CHECK(out.error() < 0.03);
    const core::ProfileIteration& rest = *out.imported.profile.iteration;
    if (rest.host_us) ++(rest.synchronizes ? waiting : ahead);
  }
  CHECK(ahead > static_cast<int>(support::seeds(300)) / 15);
  CHECK(waiting > static_cast<int>(support::seeds(300)) / 6);
}

TEST_CASE("made job: with DDP the simulated iteration is the job's, within 5 %") {
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    MadeJob job = any_job(seed, true);
    job.workers = 2 + static_cast<int>(seed % 7);
    job.slower_workers_us = seed % 3 == 0 ? 500.0 * static_cast<double>(seed % 11) : 0;
    job.has_shapes = seed % 2 == 0;
    const Outcome out = outcome(job);
    CAPTURE(out.truth_us);
    CAPTURE(out.imported.iteration_us);
    CAPTURE(out.replay.iteration_us);
    CAPTURE(out.replay.exposed_us);
    CAPTURE(out.imported.exposed_us);
    CHECK(out.replay.workers == job.workers);
    CHECK(out.error() < 0.05);
  }
}

// No waiting is added here, so that nothing but the layers, the buckets and the curve makes the prediction.
TEST_CASE("made job: DDP without slower workers is predicted within 10 %, and nearly always within 5 %") {
  int above = 0;
  double worst = 0;
  const auto count = static_cast<int>(support::seeds(200));
  for (int seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    MadeJob job = any_job(static_cast<std::uint64_t>(seed));
    job.workers = 2 + seed % 7;
    job.has_shapes = seed % 2 == 0;
    const Outcome out = outcome(job);
    CAPTURE(out.truth_us);
    CAPTURE(out.replay.predicted_us);
    const scenarios::Replay& run = out.replay;
    CHECK(run.computing_us + run.rest_us + run.exposed_us + run.waiting_us ==
          doctest::Approx(run.iteration_us));
    CHECK(run.iteration_us + 1e-3 >= run.predicted_us);
    CHECK(out.predicted_error() < 0.1);
    worst = std::max(worst, out.predicted_error());
    if (out.predicted_error() > 0.05) ++above;
  }
  CAPTURE(worst);
  CHECK(above <= 1 + count / 30);
}

// Operators of the update state the number that the next forward pass takes, so the number alone does not
// tell them.
TEST_CASE("made job: without markers and annotations the update is told from the next forward pass") {
  for (const int layers : {3, 6}) {
    CAPTURE(layers);
    const MadeJob job = {.layers = layers,
                         .launch_us = 10,
                         .kernel_us = 60,
                         .optimizer_kernels = 4,
                         .has_steps = false,
                         .annotates_optimizer = false};
    const Outcome out = outcome(job);
    CHECK(out.imported.profile.iteration->optimizer_us == doctest::Approx(4 * 60).epsilon(0.02));
    CHECK(out.imported.profile.layers.size() == static_cast<std::size_t>(layers));
    CHECK(out.error() < 0.01);
  }
}

TEST_CASE("made job: all-reduces of unknown size send what became ready, given the model's parameters") {
  MadeJob job = {.workers = 4, .has_shapes = false};
  job.has_sizes = false;
  job.sends_buffers = job.copies_gradients = true;
  traces::ImportOptions options = {.batch_size = 32};
  CHECK_THROWS_WITH((void)outcome(job, options),
                    doctest::Contains("a model with its parameters (--model FILE)"));
  options.parameters.assign(4, 1'000'000);
  const Outcome out = outcome(job, options);
  CHECK(out.imported.buckets == std::vector<std::int64_t>{2'000'000, 2'000'000});
  CHECK(out.imported.profile.origin.source.find("does not hold the sizes of its all-reduces") !=
        std::string::npos);
  CHECK(out.replay.workers == 4);
  CHECK(out.predicted_error() < 0.05);
}

TEST_CASE("made job: a host that launches slowly and waits at the end of an iteration is in the profile") {
  for (const int optimizer_kernels : {1, 3, 12}) {
    CAPTURE(optimizer_kernels);
    const Outcome out = outcome({.launch_us = 60,
                                 .kernel_us = 10,
                                 .optimizer_kernels = optimizer_kernels,
                                 .wait = MadeJob::Wait::at_end});
    REQUIRE(out.imported.profile.iteration->host_us);
    CHECK(out.imported.profile.iteration->synchronizes);
    CHECK(out.error() < 0.01);
  }
}

TEST_CASE("made job: launches of the update that its kernels hide do not hide the host") {
  const Outcome out = outcome({.layers = 8,
                               .launch_us = 40,
                               .kernel_us = 30,
                               .optimizer_kernels = 12,
                               .wait = MadeJob::Wait::after_backward});
  REQUIRE(out.imported.profile.iteration->host_us);
  CHECK(out.error() < 0.02);
}

TEST_CASE("made job: gaps between short kernels are no waits for the host") {
  for (const MadeJob::Wait wait : {MadeJob::Wait::never, MadeJob::Wait::at_end}) {
    const Outcome out =
        outcome({.layers = 8, .launch_us = 8, .kernel_us = 20, .gap_us = 2, .between_us = 400, .wait = wait});
    REQUIRE(out.imported.profile.iteration->host_us);
    CHECK(out.error() < 0.01);
  }
}

TEST_CASE(
    "made job: without AccumulateGrad operators a bucket holds a gradient of each layer since the last") {
  for (const bool is_compiled : {false, true}) {
    CAPTURE(is_compiled);
    const Outcome out = outcome({.layers = 6,
                                 .wait = MadeJob::Wait::at_end,
                                 .workers = 2,
                                 .has_shapes = false,
                                 .is_compiled = is_compiled,
                                 .names_accumulation = false});
    const core::Profile& profile = out.imported.profile;
    CHECK(profile.origin.source.find("ASSUMED, as the trace does not say when gradients become ready") !=
          std::string::npos);
    CHECK(out.imported.warnings.size() == 2);
    CHECK(core::parameter_count(profile) == 6'000'000);
    CHECK(out.imported.buckets.size() == 3);
    CHECK(profile.layers.size() == (is_compiled ? 1 : 6));
    CHECK(out.predicted_error() < 0.05);
  }
}

TEST_CASE("made job: a model's parameters need AccumulateGrad operators") {
  const MadeJob job = {.workers = 2, .has_shapes = false, .names_accumulation = false};
  traces::ImportOptions options = {.batch_size = 32};
  options.parameters = {1, 2, 3, 4};
  CHECK_THROWS_WITH(
      (void)outcome(job, options),
      doctest::Contains("t.json: /: expected AccumulateGrad operators, to give the parameters of "
                        "--model their places in backward, got none"));
}

TEST_CASE("made job: batch norms that are synchronized queue behind buckets of gradients, within 3 %") {
  for (const double kernel_us : {10, 60, 200}) {
    CAPTURE(kernel_us);
    const Outcome out = outcome({.layers = 8,
                                 .kernel_us = kernel_us,
                                 .wait = MadeJob::Wait::at_end,
                                 .workers = 2,
                                 .has_batch_norms = true});
    CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
    CHECK(out.predicted_error() < 0.03);
  }
}

TEST_CASE("made job: parameters that are gathered after the update are ZeRO, and not FSDP, within 2 %") {
  for (const MadeJob::Zero zero : {MadeJob::Zero::by_bucket, MadeJob::Zero::at_once})
    for (const bool has_steps : {true, false}) {
      CAPTURE(static_cast<int>(zero));
      CAPTURE(has_steps);
      const Outcome out = outcome({.layers = 6,
                                   .kernel_us = 100,
                                   .workers = 4,
                                   .zero = zero,
                                   .iterations = 6,
                                   .has_steps = has_steps});
      CHECK(out.imported.gathers == core::Gathers::after_update);
      CHECK(out.replay.schedule == "zero");
      CHECK(out.replay.buckets == 3);
      CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
      CHECK(out.predicted_error() < 0.02);
    }
}

TEST_CASE("made job: where whole gradients are summed and parameters gathered, it is ZeRO, too, within 2 %") {
  for (const bool has_steps : {true, false})
    for (const bool beside : {true, false}) {
      CAPTURE(has_steps);
      CAPTURE(beside);
      const Outcome out = outcome({.layers = 6,
                                   .kernel_us = 100,
                                   .workers = 4,
                                   .zero = MadeJob::Zero::summed,
                                   .gathers_beside = beside,
                                   .iterations = 6,
                                   .has_steps = has_steps});
      CHECK(out.replay.schedule == "zero");
      CHECK(out.replay.all_reduces);
      CHECK(out.replay.gathers_beside == beside);
      CHECK(out.replay.buckets == 3);
      CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
      CHECK(out.predicted_error() < 0.02);
      CHECK(out.imported.profile.iteration->other_us < 300);  // without the 930 us of the gathers
    }
}

TEST_CASE("made job: parameters that are gathered beside the next forward pass are ZeRO, and not FSDP") {
  const Outcome out = outcome({.layers = 6,
                               .kernel_us = 100,
                               .workers = 4,
                               .zero = MadeJob::Zero::by_bucket,
                               .gathers_beside = true,
                               .iterations = 6});
  CHECK(out.imported.gathers == core::Gathers::beside_forward);
  CHECK(out.replay.schedule == "zero");
  CHECK(out.replay.gathers_beside);
  CHECK(out.predicted_error() < 0.02);
}

TEST_CASE("made job: micro-batches that all send their gradients are predicted within 3 %") {
  for (const int micro_batches : {2, 4})
    for (const MadeJob::Zero zero : {MadeJob::Zero::no, MadeJob::Zero::by_bucket}) {
      CAPTURE(micro_batches);
      CAPTURE(static_cast<int>(zero));
      const Outcome out = outcome({.layers = 6,
                                   .micro_batches = micro_batches,
                                   .sends_each_batch = true,
                                   .workers = 4,
                                   .zero = zero});
      CHECK(out.imported.buckets == std::vector<std::int64_t>{2'000'000, 2'000'000, 2'000'000});
      CHECK(out.replay.buckets == 3);
      CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
      CHECK(out.predicted_error() < 0.03);
      CHECK(std::ranges::any_of(out.imported.warnings, [](const std::string& warning) {
        return warning.find("every micro-batch sends its own") != std::string::npos;
      }));
    }
}

TEST_CASE("made job: of micro-batches that all wait for a slower worker the waiting of the last is counted") {
  std::vector<double> waiting_us;
  for (const int micro_batches : {1, 2, 3}) {
    MadeJob job = {.micro_batches = micro_batches,
                   .sends_each_batch = true,
                   .workers = 2,
                   .slower_workers_us = 2000,
                   .noise = 0};
    const support::TemporaryFolder folder;
    const support::TemporaryFolder written;
    for (job.rank = 0; job.rank < 2; ++job.rank)
      folder.put(fmt::format("rank{}.json", job.rank), MadeTrace(job).text());
    const support::Outcome imported =
        support::run_program({"import", folder.path().string(), "-o", written / "p.json"});
    REQUIRE(imported.exit_code == 0);
    waiting_us.push_back(core::read_profile(core::Field::load(written / "p.json")).iteration->waiting_us);
  }
  CHECK(waiting_us[0] > 1500);  // backward hides some of it
  CHECK(waiting_us[1] == doctest::Approx(waiting_us[0]).epsilon(0.02));
  CHECK(waiting_us[2] == doctest::Approx(waiting_us[0]).epsilon(0.02));
}

TEST_CASE("made job: updates that accumulate gradients each are predicted within 3 %") {
  for (const bool sends_each : {false, true}) {
    CAPTURE(sends_each);
    const Outcome out = outcome({.layers = 6,
                                 .micro_batches = 3,
                                 .sends_each_batch = sends_each,
                                 .updates = 2,
                                 .workers = 4,
                                 .iterations = 8,
                                 .has_steps = false});
    std::int64_t gradients = 0;
    for (const std::int64_t elements : out.imported.buckets) gradients += elements;
    CHECK(gradients == 11'000'000);  // six and five layers
    CHECK(core::parameter_count(out.imported.profile) == 6 * 1'000'000 + 5 * 999'000);
    CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
    CHECK(out.predicted_error() < 0.03);
  }
}

bool warns_of_updates(const Outcome& out) {
  return std::ranges::any_of(out.imported.warnings, [](const std::string& warning) {
    return warning.starts_with("without step markers");
  });
}

TEST_CASE("made job: without step markers an iteration of several updates is told by what repeats") {
  for (const int updates : {2, 3})
    for (const bool begins_amid : {true, false}) {
      CAPTURE(updates);
      CAPTURE(begins_amid);
      MadeJob job = {.updates = updates, .iterations = 6, .has_shapes = true, .begins_amid = begins_amid};
      const Outcome marked = outcome(job);
      job.has_steps = false;
      const Outcome out = outcome(job);
      CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.02));
      CHECK(out.error() < 0.02);
      CHECK(out.imported.profile.layers.size() == marked.imported.profile.layers.size());
      CHECK(warns_of_updates(out));
      CHECK_FALSE(warns_of_updates(marked));
    }
  CHECK_FALSE(warns_of_updates(outcome({.iterations = 6, .has_steps = false})));
}

TEST_CASE("made job: what an update before the last of an iteration exposes is other work, within 3 %") {
  const Outcome out = outcome({.updates = 2, .workers = 2, .iterations = 6});
  CHECK(out.imported.iteration_us == doctest::Approx(out.truth_us).epsilon(0.01));
  CHECK(out.predicted_error() < 0.03);
  CHECK(out.imported.profile.iteration->other_us == doctest::Approx(450).epsilon(0.05));
}

TEST_CASE("made job: what DDP's broadcast of buffers takes beyond the shortest is waiting") {
  const MadeJob job = {.kernel_us = 200, .workers = 2, .sends_buffers = true, .late_us = 800};
  MadeJob calm = job;
  calm.late_us = 0;
  const Outcome out = outcome(job);
  CHECK(out.error() < 0.01);
  CHECK(out.replay.waiting_us == doctest::Approx(800).epsilon(0.05));
  CHECK(out.replay.iteration_us - out.replay.waiting_us ==
        doctest::Approx(outcome(calm).truth_us).epsilon(0.01));
}

TEST_CASE("made job: a rank that is always late to a broadcast is told by the traces of both") {
  MadeJob job = {.kernel_us = 200,
                 .workers = 2,
                 .noise = 0,
                 .sends_buffers = true,
                 .late_us = 800,
                 .is_always_late = true};
  const support::TemporaryFolder folder;
  const support::TemporaryFolder written;
  for (job.rank = 0; job.rank < 2; ++job.rank)
    folder.put(fmt::format("rank{}.json", job.rank), MadeTrace(job).text());
  const support::Outcome imported =
      support::run_program({"import", folder.path().string(), "-o", written / "p.json"});
  CAPTURE(imported.err);
  REQUIRE(imported.exit_code == 0);
  const core::Profile profile = core::read_profile(core::Field::load(written / "p.json"));
  CHECK(profile.iteration->waiting_us == doctest::Approx(800).epsilon(0.05));
  CHECK(imported.out.find("(+0.0 %)") != std::string::npos);
  const support::Outcome compared = support::run_program({"compare", folder.path().string(), "--json"});
  REQUIRE(compared.exit_code == 0);
  const nlohmann::json comparison = nlohmann::json::parse(compared.out);
  for (const nlohmann::json& side : comparison.at("sides"))
    CHECK(side["waiting_us"].get<double>() == doctest::Approx(800).epsilon(0.05));
}

TEST_CASE("made job: a job that is limited by launches is told from one that the GPU limits") {
  MadeJob job = {.launch_us = 60, .kernel_us = 10};
  const Outcome launches = outcome(job);
  REQUIRE(launches.imported.profile.iteration->host_us);
  CHECK_FALSE(launches.imported.profile.iteration->synchronizes);
  const double kernels_us = core::forward_us(core::without_launch_waits(launches.imported.profile)) +
                            core::backward_us(core::without_launch_waits(launches.imported.profile));
  CHECK(kernels_us < 0.3 * launches.truth_us);
  const auto warns = [](const Outcome& out) {
    return std::ranges::any_of(out.imported.warnings, [](const std::string& warning) {
      return warning.find("the profiler makes them slower") != std::string::npos;
    });
  };
  CHECK(warns(launches));
  CHECK(launches.error() < 0.01);
  job = {.launch_us = 10, .kernel_us = 60};
  const Outcome kernels = outcome(job);
  REQUIRE(kernels.imported.profile.iteration->host_us);
  CHECK_FALSE(warns(kernels));
  CHECK_FALSE(warns(outcome({.launch_us = 10, .kernel_us = 60, .between_us = 5000})));
  CHECK(kernels.error() < 0.01);
}

TEST_CASE("made job: launches that are slow now and then are waits for the host, and no other work") {
  // The host waits amid passes, so that its stream is not in the profile.
  const Outcome out = outcome({.layers = 8,
                               .launch_us = 60,
                               .slow_launches = 0.02,
                               .kernel_us = 10,
                               .reads_layers = true,
                               .iterations = 7});
  const core::Profile& profile = out.imported.profile;
  REQUIRE_FALSE(profile.iteration->host_us);
  CHECK(out.error() < 0.01);
  CHECK(profile.iteration->other_us < 200);  // the host loads data for 100 us between iterations

  const Outcome loading = outcome({.layers = 8, .between_us = 5000, .reads_layers = true, .iterations = 7});
  REQUIRE_FALSE(loading.imported.profile.iteration->host_us);
  CHECK(loading.imported.profile.iteration->other_us > 2500);  // kernels hide some of it
}

}  // namespace
}  // namespace kineto
