// What was measured beside what was predicted: parts add up, and a real job through the program.

#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/ranks/read_kineto.hpp"
#include "tests/profiler/traces/kineto/made_job.hpp"
#include "tests/profiler/traces/kineto/trace_text.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "validate/compared/comparison.hpp"

namespace compared {
namespace {

const std::string kJob = "tests/data/ranks/dlrm";

ranks::Report real_job() {
  std::vector<ranks::RankTrace> traces;
  for (int rank = 0; rank < 8; ++rank)
    traces.push_back(ranks::read_kineto(
        (support::source_dir() / fmt::format("{}/worker{}.pt.trace.json.gz", kJob, rank)).string(),
        "ProfilerStep#"));
  return ranks::make_report(std::move(traces));
}

void check_sum(const Iteration& iteration) {
  CHECK(iteration.local_us() + iteration.exposed_us() - iteration.other_exposed_us ==
        doctest::Approx(iteration.iteration_us));
  CHECK(iteration.idle_us >= 0);
  double computing_us = 0;
  double until = -iteration.iteration_us;
  for (const Computing& each : iteration.computing) {
    CHECK(each.start_us - until > iteration.iteration_us / 1000);  // shorter gaps are left out
    CHECK(each.end_us <= iteration.iteration_us + 1e-6);
    computing_us += each.end_us - each.start_us;
    until = each.end_us;
  }
  CHECK(computing_us >= iteration.busy_us - 1e-6);
}

TEST_CASE("compare: on every rank the exposed times, computing, copies and waits add up to the iteration") {
  const ranks::Report report = real_job();
  for (const ranks::RankTrace& trace : report.job.ranks) {
    CAPTURE(trace.rank);
    const Iteration iteration = measured(report, trace, "");
    check_sum(iteration);
    REQUIRE(iteration.collectives.size() == 3);
    CHECK(iteration.collectives[0].bytes == 1'576'964);
    CHECK(iteration.exposed_us() > 0);
    CHECK(iteration.exposed_us() < iteration.iteration_us - iteration.busy_us);
    for (const Collective& collective : iteration.collectives) {
      CHECK(collective.waiting_us <= collective.exposed_us);
      CHECK(collective.exposed_us <= collective.end_us - collective.start_us + 1e-9);
    }
    CHECK(iteration.other_exposed_us > 0);  // the all-to-alls
  }
}

TEST_CASE("compare: what is exposed is the same as in the import of a trace") {
  using kineto::MadeJob;
  for (int seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    MadeJob job = kineto::any_job(static_cast<std::uint64_t>(seed));
    job.workers = 4;
    job.noise = 0;
    job.begins_amid = job.ends_amid = job.truncates_to_us = false;
    job.slower_workers_us = seed % 2 == 0 ? 2000 : 0;
    const support::TemporaryFolder folder;
    const std::string path = folder.put("t.json", kineto::MadeTrace(job).text());
    const kineto::Imported imported = kineto::import_trace(path, {.batch_size = 1});
    const ranks::Report report = ranks::make_report({ranks::read_kineto(path, kineto::kProfilerStep)});
    const Iteration iteration = measured(report, report.job.ranks[0], "");
    check_sum(iteration);
    CHECK(iteration.iteration_us == doctest::Approx(imported.iteration_us).epsilon(0.001));
    CHECK(iteration.exposed_us() == doctest::Approx(imported.exposed_us).epsilon(0.01));
  }
}

/// Two layers whose bucket of 1,000,000 bytes a hook sums, and whose backward functions sum four times as
/// much within another group of four workers.
std::string tensor_parallel_trace() {
  kineto::TwoLayers made = kineto::two_layers(1, 4);
  for (int step = 0; step < 4; ++step)
    made.text.kernel(2, 20000.0 * step + 403, "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                     20000.0 * step + 6500, 200,
                     R"("Collective name": "allreduce", "In msg nelems": 1000000, "dtype": "Float", )"
                     R"("Process Group Name": "tp", "Process Group Ranks": "[0, 1, 2, 3]")");
  std::string out = made.text.as_object();
  const std::string bucket = R"("Group size": 4)";
  const std::string named =
      R"("Process Group Name": "dp", "Process Group Ranks": "[0, 4, 8, 12]", )" + bucket;
  for (std::size_t at = 0; (at = out.find(bucket, at)) != std::string::npos; at += named.size())
    out.replace(at, bucket.size(), named);
  return out;
}

TEST_CASE("compare: collectives that belong to layers are no buckets, and import takes the same network") {
  const support::TemporaryFolder folder;
  const std::string path = folder.put("rank0.json", tensor_parallel_trace());
  const ranks::Report report = ranks::make_report({ranks::read_kineto(path, kineto::kProfilerStep)});
  const Iteration iteration = measured(report, report.job.ranks[0], "");
  REQUIRE(iteration.collectives.size() == 1);
  CHECK(iteration.collectives[0].bytes == 1'000'000);
  CHECK(iteration.workers == 4);
  CHECK(iteration.other_exposed_us > 0);

  const std::string network = (folder.path() / "n.json").string();
  for (const char* rank : {"", "--rank=0"}) {
    CAPTURE(rank);
    std::vector<std::string> words = {"import", path, "--network", network};
    if (*rank != 0) words.emplace_back(rank);
    const support::Outcome outcome = support::run_program(words);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const core::Network read = core::read_network(core::Field::load(network));
    REQUIRE(read.measured.size() == 1);
    CHECK(read.measured[0].curve.us(1e6) >= 2000);  // the made buckets take that, the others 200 us
  }
}

TEST_CASE("compare: differences add up to that of the iterations, the largest first") {
  const ranks::Report report = real_job();
  const Comparison both = compare("before", measured(report, report.job.ranks[0], ""), "after",
                                  measured(report, report.job.ranks[1], ""));
  CHECK(both.same_buckets);
  double sum = 0;
  for (std::size_t i = 0; i < both.differences.size(); ++i) {
    sum += both.differences[i].difference_us();
    if (i > 0)
      CHECK(std::abs(both.differences[i].difference_us()) <=
            std::abs(both.differences[i - 1].difference_us()));
  }
  CHECK(sum == doctest::Approx(both.second.iteration_us - both.first.iteration_us));
}

TEST_CASE("compare: a simulated iteration is split in the same way") {
  for (const std::string schedule : {"ddp", "wfbp", "dear", "s-sgd", "zero", "fsdp"}) {
    CAPTURE(schedule);
    const std::string text = fmt::format(
        R"({{"format": "fusewise.scenario", "version": 1, "profile": "{0}/googlenet-k80.profile.json",
            "network": "{0}/k80-10gbe.network.json", "workers": 8, "schedules": ["{1}"]}})",
        (support::source_dir() / "traces").string(), schedule);
    const scenarios::Scenario scenario = scenarios::read_scenario(core::Field::parse(text, "s"));
    const Iteration iteration = predicted(scenario, scenario.schedules.front(), 8);
    check_sum(iteration);
    const planner::Metrics metrics = scenarios::run(scenario).entries.front().metrics;
    CHECK(iteration.iteration_us == doctest::Approx(metrics.iteration_us).epsilon(0.01));
    CHECK(iteration.exposed_us() == doctest::Approx(metrics.exposed_communication_us).epsilon(0.01));
    CHECK(iteration.busy_us == doctest::Approx(metrics.forward_us + metrics.backward_us).epsilon(0.01));
    CHECK(iteration.idle_us == doctest::Approx(0));  // a worker without a host stream never idles otherwise
    CHECK_FALSE(iteration.collectives.empty());
  }
}

TEST_CASE("compare: predicted gathers have the bytes of parameters that are not trained, too") {
  const auto bytes_of = [](const char* kind, std::int64_t frozen) {
    nlohmann::json profile = nlohmann::json::parse(
        core::read_file((support::source_dir() / "traces/googlenet-k80.profile.json").string()));
    if (frozen > 0) profile["layers"][5]["frozen_elements"] = frozen;
    const nlohmann::json text = {
        {"format", "fusewise.scenario"},
        {"version", 1},
        {"profile", profile},
        {"network", (support::source_dir() / "traces/k80-10gbe.network.json").string()},
        {"workers", 8},
        {"schedules", {{{"name", "fsdp"}, {"reshard_after_forward", false}}}}};
    const scenarios::Scenario scenario = scenarios::read_scenario(core::Field::parse(text.dump(), "s"));
    std::int64_t out = 0;
    for (const Collective& each : predicted(scenario, scenario.schedules.front(), 8).collectives)
      if (each.kind == kind) out += each.bytes;
    return out;
  };
  CHECK(bytes_of("all_gather", 1000) - bytes_of("all_gather", 0) == 4000);
  CHECK(bytes_of("reduce_scatter", 1000) == bytes_of("reduce_scatter", 0));
}

/// The profile and the network of a real job of eight ranks, imported by the program.
struct ImportedJob {
  support::TemporaryFolder folder;
  std::string imported;  ///< what the program printed
  std::string scenario;

  ImportedJob() {
    const support::Outcome outcome =
        support::run_program({"import", kJob, "-o", folder / "p.json", "--network", folder / "n.json"});
    REQUIRE(outcome.exit_code == 0);
    imported = outcome.out;
    scenario = folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json",
                                        "network": "n.json", "workers": 8})");
  }
};

nlohmann::json side_of(const std::string& plan, std::size_t side) {
  const support::Outcome outcome = support::run_program({"compare", kJob, "--plan", plan, "--json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return nlohmann::json::parse(outcome.out).at("sides").at(side);
}

TEST_CASE("import: the ranks of a job give a profile, a network and a report") {
  const ImportedJob job;
  for (const std::string part :
       {"predicted with ddp on 8 workers", "with the trace's 3 buckets", "waiting for slower workers",
        "8 of 8 ranks", "came last, and kept all others waiting"})
    CHECK(job.imported.find(part) != std::string::npos);
  const core::Profile profile = core::read_profile(core::Field::load(job.folder / "p.json"));
  REQUIRE(profile.iteration);
  CHECK(profile.iteration->waiting_us > 0);
  const core::Network network = core::read_network(core::Field::load(job.folder / "n.json"));
  REQUIRE(network.measured.size() == 1);
  CHECK(network.measured[0].workers == 8);
}

TEST_CASE(
    "import, compare: a job on CPUs has collectives and operators, and each table says what it measured") {
  const support::TemporaryFolder folder;
  const std::string job = (support::source_dir() / "tests/data/cpu/ddp").string();
  const support::Outcome imported = support::run_program({"import", job, "-o", folder / "p.json"});
  REQUIRE(imported.exit_code == 0);
  for (const std::string gpu : {"NCCL", "kernel", "the host", "GPU"}) {
    CAPTURE(gpu);
    CHECK(imported.out.find(gpu) == std::string::npos);
    CHECK(imported.err.find(gpu) == std::string::npos);
  }
  CHECK(imported.out.find("  measured: of each part the median of this rank's iterations") !=
        std::string::npos);
  CHECK(imported.out.find("2 of 2 ranks over their whole traces") != std::string::npos);
  const support::Outcome compared = support::run_program({"compare", job});
  REQUIRE(compared.exit_code == 0);
  CHECK(compared.out.find("of median length of ") != std::string::npos);
}

TEST_CASE("compare: a plan is predicted with its options, and takes what `plan` said") {
  const ImportedJob job;
  for (const std::string schedule : {"fusewise", "zero1", "fsdp", "dear", "bytescheduler"}) {
    CAPTURE(schedule);
    const std::string plan = job.folder / (schedule + ".plan.json");
    REQUIRE(support::run_program({"plan", job.scenario, "--schedule", schedule, "-o", plan}).exit_code == 0);
    const double planned_us = core::Field::load(plan).at("predicted").at("iteration_us").number(0, 1e12);
    CHECK(side_of(plan, 0).at("iteration_us").get<double>() == doctest::Approx(planned_us).epsilon(1e-6));
  }
}

TEST_CASE("compare: all-to-alls, other work and waiting are the same parts in a trace and in its profile") {
  const ImportedJob job;
  const std::string plan = job.folder / "x.plan.json";
  REQUIRE(support::run_program({"plan", job.scenario, "-o", plan}).exit_code == 0);
  const nlohmann::json predicted = side_of(plan, 0);
  const nlohmann::json measured = side_of(plan, 1);
  for (const std::string part : {"computing_us", "other_exposed_us", "waiting_us"}) {
    CAPTURE(part);
    CHECK(std::abs(predicted.at(part).get<double>() - measured.at(part).get<double>()) <
          0.01 * measured.at("iteration_us").get<double>());
  }
}

TEST_CASE("compare: two ranks of one job are not before and after a change") {
  const std::string first = kJob + "/worker0.pt.trace.json.gz", second = kJob + "/worker1.pt.trace.json.gz";
  const support::Outcome outcome = support::run_program({"compare", first, second});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err == second + ": /: expected a trace of rank 0, as " + first +
                           " before the change, got one of rank 1 (fusewise compare FOLDER takes the traces "
                           "of one job; --plan FILE takes them as several files, too)\n");
}

TEST_CASE("compare: the end of a collective that an earlier iteration began is none of this one's") {
  kineto::TwoLayers made = kineto::two_layers(1, 4);
  std::string text = made.text.as_object();
  const support::TemporaryFolder folder;
  const std::string path = folder.put("rank0.json", text);
  ranks::Report report = ranks::make_report({ranks::read_kineto(path, kineto::kProfilerStep)});
  const Iteration usual = measured(report, report.job.ranks[0], "");
  REQUIRE(usual.collectives.size() == 1);
  // The one of each iteration now ends 10 us after the next one has begun.
  ranks::RankTrace& trace = report.job.ranks[0];
  for (std::size_t i = 0; i + 1 < trace.exchanges.size(); ++i)
    trace.exchanges[i].ran.second = trace.steps[i + 1].device_start_ns + 10'000;
  const Iteration longer = measured(report, trace, "");
  REQUIRE(longer.collectives.size() == 1);
  CHECK(longer.collectives[0].start_us == usual.collectives[0].start_us);
  check_sum(longer);
}

TEST_CASE(
    "compare, import: the trace of an FSDP job has no all-reduces for a plan, and groups that make one") {
  const ImportedJob job;
  const std::string plan = job.folder / "x.plan.json";
  REQUIRE(support::run_program({"plan", job.scenario, "-o", plan}).exit_code == 0);
  const std::string trace = (support::source_dir() / "tests/data/cpu/fsdp/rank0.json.gz").string();
  const support::Outcome compared = support::run_program({"compare", trace, "--plan", plan});
  CHECK(compared.exit_code == 2);
  CHECK(
      compared.err ==
      trace +
          ": /: expected all-reduces, which a plan with the pipeline wfbp sends, got reduce_scatter, "
          "all_gather alone, as of FSDP or ZeRO; compare a plan with their pipeline, or give a network that "
          "has all-reduces (--network)\n");
  const std::string groups = job.folder / "g.json";
  const support::Outcome imported =
      support::run_program({"import", trace, "-o", job.folder / "f.json", "--plan", groups});
  CHECK(imported.exit_code == 0);
  CHECK(imported.out.find("with the trace's 3 groups (--plan writes them, 1 in parts)") != std::string::npos);
  CHECK(
      imported.err.find("a plan's groups are neighbours in backward order: it holds 1 group of the job's in "
                        "parts, which the prediction that import prints does not\n") != std::string::npos);
  CHECK(support::run_program({"compare", trace, "--plan", groups}).exit_code == 0);
}

TEST_CASE("compare: the collectives of an FSDP job are those of its groups") {
  const std::string trace = (support::source_dir() / "tests/data/cpu/fsdp").string();
  const support::Outcome outcome = support::run_program({"compare", trace, "--json"});
  REQUIRE(outcome.exit_code == 0);
  const auto comparison = nlohmann::json::parse(outcome.out);
  const auto bytes = [&](std::size_t side) {
    std::vector<double> out;
    for (const auto& each : comparison.at("sides").at(side).at("collectives"))
      out.push_back(each.at("bytes"));
    std::sort(out.begin(), out.end());
    return out;
  };
  // two blocks and the model's own group: gathered, the blocks again, and scattered
  CHECK(bytes(0) ==
        std::vector<double>{2119584, 2119584, 3159040, 3159040, 3159040, 3159040, 3159040, 3159040});
  CHECK(bytes(1) == bytes(0));
}

TEST_CASE("compare: a plan whose shards all workers hold together needs no all-reduces") {
  const support::TemporaryFolder folder;
  const std::string trace = (support::source_dir() / "tests/data/cpu/fsdp/rank0.json.gz").string();
  const std::string profile = folder / "j.profile.json";
  REQUIRE(support::run_program({"import", trace, "-o", profile}).exit_code == 0);
  const std::string scenario = folder.put("s.json", fmt::format(R"({{
    "format": "fusewise.scenario", "version": 1, "profile": "{}", "network": "v100-10gbe", "workers": 2,
    "schedules": [{{"label": "shards", "pipeline": "sharded", "fusion": "all", "shard_workers": 2}}]}})",
                                                                profile));
  const std::string plan = folder / "s.plan.json";
  REQUIRE(support::run_program({"plan", scenario, "--schedule", "shards", "-o", plan}).exit_code == 0);
  const support::Outcome compared = support::run_program({"compare", trace, "--plan", plan});
  CAPTURE(compared.err);
  CHECK(compared.exit_code == 0);
}

TEST_CASE("compare: a trace with itself has no difference") {
  const support::Outcome same = support::run_program(
      {"compare", kJob + "/worker0.pt.trace.json.gz", kJob + "/worker0.pt.trace.json.gz"});
  CHECK(same.out.ends_with("\nno difference\n"));
}

}  // namespace
}  // namespace compared
