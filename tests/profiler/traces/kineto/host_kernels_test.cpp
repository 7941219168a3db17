// Traces of training on CPUs: operators are the kernels, threads of Gloo are the channel.

#include "profiler/traces/kineto/host_kernels.hpp"

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/scenarios/replay.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/kineto/read_trace.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

/// Events of a job on CPUs; threads 1 computes, 8 and 9 are Gloo's.
class CpuTrace {
 public:
  void range(int thread, const std::string& name, double start, double end,
             const std::string& arguments = "") {
    const bool is_annotation = name.find("::") == std::string::npos || name.starts_with("gloo:");
    events_ += fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 5, \"tid\": {}, \"ts\": {}, \"dur\": "
        "{}, "
        "\"args\": {{{}}}}}",
        events_.empty() ? "" : ",\n", is_annotation ? "user_annotation" : "cpu_op", name, thread, start,
        end - start, arguments);
  }

  /// Two layers of one gradient each, and DDP with a bucket for each.
  void iteration(int number, double at) {
    const auto op = [&](const std::string& name, double start, double end,
                        const std::string& arguments = "") {
      range(1, name, at + start, at + end, arguments);
    };
    const auto sequence = [&](int layer) {
      return fmt::format("\"Sequence number\": {}, \"Input Dims\": [[16, 8]]", 2 * number + layer);
    };
    const std::string gradient = "\"Input Dims\": [[500]]";
    const std::string bucket = gradient + ", \"Input type\": [\"float\"]";
    op(fmt::format("ProfilerStep#{}", number), 0, 1190);
    op("aten::linear", 10, 100, sequence(0));
    op("aten::linear", 110, 200, sequence(1));
    op("aten::addmm", 120, 190, sequence(1));
    op("autograd::engine::evaluate_function: AddmmBackward0", 210, 400, sequence(1));
    op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 400, 420);
    op("torch::autograd::AccumulateGrad", 401, 405, gradient);
    op("c10d::allreduce_", 412, 418);
    range(8, "gloo:all_reduce", at + 420, at + 700, bucket);
    op("autograd::engine::evaluate_function: AddmmBackward0", 430, 600, sequence(0));
    op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 600, 1000);
    op("torch::autograd::AccumulateGrad", 601, 605, gradient);
    op("c10d::allreduce_", 606, 610);
    range(9, "gloo:all_reduce", at + 612, at + 900, bucket);
    for (const double start : {905, 950}) {
      op("torch.distributed.ddp.reducer::copy_bucket_to_grad", start, start + 40, gradient);
      op("aten::copy_", start + 5, start + 35);
    }
    op("Optimizer.step#SGD.step", 1010, 1100);
    op("aten::add_", 1020, 1090);
  }

  std::string text() const {
    return "{\"schemaVersion\": 1, \"deviceProperties\": [], \"distributedInfo\": {\"backend\": \"gloo\", "
           "\"rank\": 0, "
           "\"world_size\": 2}, \"traceEvents\": [\n" +
           events_ + "\n]}";
  }

 private:
  std::string events_;
};

std::string three_iterations() {
  CpuTrace trace;
  for (int i = 0; i < 3; ++i) trace.iteration(i, 1200 * i);
  return trace.text();
}

TEST_CASE("host kernels: operators compute but for the time in which they wait, and Gloo is one channel") {
  CpuTrace job;
  job.iteration(0, 0);
  const support::TemporaryFolder folder;
  const Trace trace = read_trace(folder.put("t.json", job.text()));
  std::vector<std::pair<std::string, Span>> computing;
  Spans channel;
  for (const Kernel& kernel : trace.kernels) {
    const Span us = {kernel.start_ns / 1000, kernel.end_ns / 1000};
    if (kernel.collective >= 0)
      channel.push_back(us);
    else
      computing.emplace_back(trace.texts[kernel.name].substr(0, 12), us);
  }
  using Pieces = std::vector<std::pair<std::string, Span>>;
  CHECK(computing == Pieces{{"aten::linear", {10, 100}},
                            {"aten::linear", {110, 200}},
                            {"autograd::en", {210, 400}},
                            {"autograd::en", {400, 420}},
                            {"autograd::en", {430, 600}},
                            {"autograd::en", {600, 610}},  // waits until the last all-reduce ends
                            {"autograd::en", {900, 905}},
                            {"autograd::en", {905, 945}},
                            {"autograd::en", {945, 950}},
                            {"autograd::en", {950, 990}},
                            {"autograd::en", {990, 1000}},
                            {"aten::add_", {1020, 1090}}});
  CHECK(trace.blocked == kineto::Spans{{610'000, 900'000}});
  // The first has the channel alone to 612, both share it to 700, the second has it alone to 900.
  CHECK(channel == kineto::Spans{{420, 656}, {656, 900}});
}

/// What the channel runs, in nanoseconds, with the times at which it was issued.
std::vector<std::pair<std::string, std::pair<Span, std::int64_t>>> channel_of(const CpuTrace& job) {
  const support::TemporaryFolder folder;
  const Trace trace = read_trace(folder.put("t.json", job.text()));
  std::vector<std::pair<std::string, std::pair<Span, std::int64_t>>> out;
  for (const Kernel& kernel : trace.kernels) {
    if (kernel.collective < 0) continue;
    for (const Launch& launch : trace.launches)
      if (launch.correlation == kernel.correlation)
        out.emplace_back(trace.texts[kernel.name],
                         std::pair(Span(kernel.start_ns, kernel.end_ns), launch.at_ns));
  }
  return out;
}

TEST_CASE("host kernels: collectives in flight are matched within their family, whichever starts first") {
  CpuTrace job;
  job.range(1, "aten::linear", 0, 10);
  job.range(1, "c10d::allreduce_", 10, 11);
  job.range(1, "c10d::allreduce_", 12, 13);
  job.range(1, "c10d::_allgather_base_", 14, 15);
  job.range(8, "gloo:all_gather", 20, 30);
  job.range(9, "gloo:all_reduce", 30, 40);
  job.range(8, "gloo:all_reduce", 40, 60);
  using Channel = std::vector<std::pair<std::string, std::pair<Span, std::int64_t>>>;
  CHECK(channel_of(job) == Channel{{"gloo:all_gather", {{20'000, 30'000}, 14'000}},
                                   {"gloo:all_reduce", {{30'000, 40'000}, 10'000}},
                                   {"gloo:all_reduce", {{40'000, 60'000}, 12'000}}});
}

TEST_CASE(
    "host kernels: the parts of collectives that share the channel add up to the time in which it is busy") {
  CpuTrace job;
  job.range(1, "aten::linear", 0, 10);
  for (int i = 0; i < 3; ++i) job.range(1, "c10d::allreduce_", 10 + i, 10.5 + i);
  for (int thread = 7; thread < 10; ++thread) job.range(thread, "gloo:all_reduce", 20, 20.1);
  Spans parts;
  for (const auto& [name, part] : channel_of(job)) parts.push_back(part.first);
  CHECK(parts == Spans{{20'000, 20'033}, {20'033, 20'067}, {20'067, 20'100}});
}

TEST_CASE("host kernels: ten thousand collectives at once take no time that grows with their square") {
  constexpr int kMany = 10'000;
  Trace trace;
  const auto add = [&](const char* name, std::int64_t thread, std::int64_t start, std::int64_t end) {
    trace.ranges.push_back({.start_ns = start,
                            .end_ns = end,
                            .name = trace.texts.id(name),
                            .thread = trace.texts.id(std::to_string(thread))});
  };
  for (int i = 0; i < kMany; ++i) {
    add("c10d::allreduce_", 1, i, i);
    trace.ranges.back().kind = RangeKind::operation;
    add("gloo:all_reduce", 2 + i, kMany + i, 3 * kMany + i);
  }
  add_host_kernels(trace);
  CHECK(trace.collectives.size() == kMany);
  REQUIRE(!trace.kernels.empty());
  CHECK(trace.kernels.back().end_ns == 4 * kMany - 1);
}

TEST_CASE("host kernels: a job on CPUs is imported with its layers, exposed time and curve") {
  const support::TemporaryFolder folder;
  const Imported imported = import_trace(folder.put("t.json", three_iterations()), {});
  CHECK(imported.iteration_us == doctest::Approx(1200));
  CHECK(imported.exposed_us == doctest::Approx(290));
  REQUIRE(imported.profile.layers.size() == 3);  // the first is what comes before the update's kernels
  CHECK(imported.profile.device == "CPU");
  CHECK(imported.profile.batch_size == 16);
  CHECK(imported.profile.layers[1].forward_us == doctest::Approx(90));
  CHECK(imported.profile.layers[2].forward_us == doctest::Approx(100));
  CHECK(imported.profile.layers[2].backward_us == doctest::Approx(220));
  CHECK_FALSE(imported.profile.layers[2].backward_host_us);
  CHECK(imported.buckets == std::vector<std::int64_t>{500, 500});
  REQUIRE(imported.network);
  REQUIRE(imported.network->measured.size() == 1);
  CHECK(imported.network->measured[0].workers == 2);
}

TEST_CASE("host kernels: a recorded job with DDP over Gloo has its layers, gradients and buckets") {
  const std::string path =
      (support::source_dir() / "tests" / "data" / "cpu" / "ddp" / "rank0.json.gz").string();
  Imported imported = import_trace(path, {});
  // A transformer of two blocks of width 256, 1000 words and 64 positions.
  const std::int64_t block = 2 * 512 + 197'376 + 65'792 + 263'168 + 262'400;
  CHECK(core::parameter_count(imported.profile) == 64 * 256 + 256'000 + 2 * block + 512 + 257'000);
  CHECK(imported.buckets.size() == 2);
  CHECK(imported.buckets[0] + imported.buckets[1] == core::parameter_count(imported.profile));
  CHECK(imported.profile.batch_size == 4);
  // The median of four markers of 153.337, 156.703, 177.966 and 230.213 ms, and what is between them.
  CHECK(imported.iteration_us == doctest::Approx(167'334).epsilon(0.001));
  CHECK(std::ranges::any_of(imported.warnings, [](const std::string& warning) {
    return warning.starts_with("steps take 153.4") &&
           warning.ends_with("uncertain by 10 %: trace more of them");
  }));
  const scenarios::Replay run = scenarios::replay(imported.profile, imported.network,
                                                  {.iteration_us = imported.iteration_us,
                                                   .exposed_us = imported.exposed_us,
                                                   .buckets = imported.buckets});
  CHECK(run.computing_us == doctest::Approx(imported.computing_us).epsilon(0.01));
  CHECK(std::abs(run.predicted_us / imported.iteration_us - 1) < 0.08);  // one rank knows no waiting
}

TEST_CASE("host kernels: FSDP2 over Gloo gathers and scatters, and several ranks are matched") {
  const std::string folder = (support::source_dir() / "tests" / "data" / "cpu" / "fsdp").string();
  const Imported imported = import_trace(folder + "/rank1.json.gz", {});
  CHECK(imported.profile.batch_size == 4);
  CHECK(imported.gathers == core::Gathers::for_forward_and_backward);
  REQUIRE(imported.network);
  std::set<core::CollectiveKind> kinds;
  for (const core::Measured& measured : imported.network->measured) kinds.insert(measured.collective);
  CHECK(kinds == std::set{core::CollectiveKind::reduce_scatter, core::CollectiveKind::all_gather});
  const auto report = support::run_program({"import", folder});
  CHECK(report.exit_code == 0);
  CHECK(report.out.find("2 of 2 ranks") != std::string::npos);
  const auto off = [&](bool collectives_block) {
    core::Profile profile = imported.profile;
    return std::abs(scenarios::replay(profile, imported.network,
                                      {.iteration_us = imported.iteration_us,
                                       .exposed_us = imported.exposed_us,
                                       .collectives_block = collectives_block})
                            .predicted_us /
                        imported.iteration_us -
                    1);
  };
  CHECK(imported.computes_on_host);
  CHECK(off(true) < off(false));
}

TEST_CASE("host kernels: the operators of a job on a GPU are not taken for its kernels") {
  CpuTrace job;
  job.iteration(0, 0);
  job.range(1, "aten::cudnn_convolution", 1100, 1110);
  const support::TemporaryFolder folder;
  CHECK_THROWS_WITH_AS((void)import_trace(folder.put("t.json", job.text()), {}),
                       doctest::Contains("expected kernels of a GPU, got none in"), core::InputError);
}

}  // namespace
}  // namespace kineto
