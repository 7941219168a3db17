// Several ranks of a job: against made-up jobs with a known truth, a drawn case, and a real job of eight
// ranks.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/network.hpp"
#include "profiler/traces/ranks/read_kineto.hpp"
#include "profiler/traces/ranks/report.hpp"
#include "tests/profiler/traces/kineto/trace_text.hpp"
#include "tests/profiler/traces/ranks/made_job.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ranks {
namespace {

using support::MadeCall;
using support::MadeJob;
using support::MatchedBy;

std::vector<RankTrace> traces_of(const std::vector<std::string>& texts) {
  const support::TemporaryFolder folder;
  std::vector<RankTrace> out;
  for (std::size_t i = 0; i < texts.size(); ++i)
    out.push_back(read_kineto(folder.put(fmt::format("rank{}.json", i), texts[i]), "ProfilerStep#"));
  return out;
}

Report report_of(const std::vector<std::string>& texts) { return make_report(traces_of(texts)); }

/// The calls of a group, in the order in which they began.
std::vector<const MadeCall*> calls_of(const MadeJob& job, std::size_t group) {
  std::vector<const MadeCall*> out;
  for (const MadeCall& call : job.calls)
    if (call.group == group) out.push_back(&call);
  return out;
}

TEST_CASE("ranks: clocks, groups, waits and costs of made-up jobs are found") {
  for (std::uint32_t seed = 0; seed < support::seeds(60); ++seed) {
    CAPTURE(seed);
    const auto by = static_cast<MatchedBy>(seed % 3);
    const MadeJob made = support::make_job(seed, by);
    const Report report = report_of(made.traces);

    for (std::size_t rank = 0; rank < made.offset_ns.size(); ++rank)
      CHECK(report.job.clocks.offset_ns[rank] == made.offset_ns[0] - made.offset_ns[rank]);
    CHECK(report.job.clocks.spread_ns == 0);
    REQUIRE(report.job.groups.size() == made.groups.size());  // groups of equal size stay apart

    std::int64_t found = 0;
    for (const GroupStatistics& group : report.groups) {
      const Group& named = report.job.groups[group.group];
      const auto truth = std::find_if(made.groups.begin(), made.groups.end(),
                                      [&](const auto& each) { return each.name == named.name; });
      REQUIRE(truth != made.groups.end());
      CHECK(named.members == truth->members);
      CHECK(named.description == truth->description);
      const auto calls = calls_of(made, static_cast<std::size_t>(truth - made.groups.begin()));
      CHECK(group.collectives + named.incomplete == static_cast<std::int64_t>(calls.size()));
      found += group.collectives;
      for (const SizeStatistics& size : group.sizes) {
        CHECK(size.transfer_us * 1000 == doctest::Approx(static_cast<double>(
                                             truth->startup_ns + size.bytes * truth->ns_per_kib / 1024)));
        CHECK(size.spread_us == doctest::Approx(0));
      }
      for (const Latecomer& late : group.latecomers) {
        if (late.rank != made.slowest) continue;
        CHECK(late.times == group.collectives);  // its delay is longer than any other
        CHECK(late.rank == group.latecomers.front().rank);
      }
    }
    if (by == MatchedBy::order) CHECK(found == static_cast<std::int64_t>(made.calls.size()));
    CHECK(found > static_cast<std::int64_t>(made.calls.size()) / 2);
  }
}

/// A trace of two ranks whose second clock shows offset + (1 + drift) * time, in ns; 40 all-reduces in 2 s.
std::vector<std::string> drifting(double drift, std::int64_t noise_ns, std::uint32_t seed) {
  support::Random random(seed);
  std::vector<std::string> out;
  std::vector<std::string> events(2);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t end = 50'000'000 * i + random.between(0, 20'000'000);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::int64_t start = end - 500'000 - (rank == 0 ? random.between(0, 400'000) : 0);
      const auto shown = [&](std::int64_t ns) {
        const double moved = rank == 0 ? 0 : 7e6 + drift * static_cast<double>(ns);
        return 1'000'000'000 + ns + std::llround(moved);
      };
      events[rank] += fmt::format(
          R"({}{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 0, "tid": 7, "ts": {}, )"
          R"("dur": {}, "args": {{"stream": 7, "Seq": {}, "Process Group Name": "0", "Group size": 2}}}})",
          i == 0 ? "" : ",", support::made::time_us(shown(start)),
          support::made::time_us(shown(end) - shown(start) + random.between(0, noise_ns)), i);
    }
  }
  for (std::size_t rank = 0; rank < 2; ++rank)
    out.push_back(
        fmt::format(R"({{"distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [{}]}})", rank,
                    events[rank]));
  return out;
}

TEST_CASE(
    "ranks: clocks that drift apart are aligned along the whole trace, and noise is not taken for drift") {
  for (std::uint32_t seed = 0; seed < support::seeds(30); ++seed) {
    CAPTURE(seed);
    const double drift = (seed % 2 == 0 ? 1e-6 : -1e-6) * (20 + seed);
    const Report report = report_of(drifting(drift, 1'000, seed));
    CHECK(report.job.clocks.drift[0] == 0);
    CHECK(report.job.clocks.drift[1] == doctest::Approx(-drift).epsilon(0.05));
    CHECK(report.job.clocks.spread_ns < 2'000);  // the drift is 40 us and more
    REQUIRE(report.groups.size() == 1);
    CHECK(report.groups[0].collectives == 40);
    CHECK(report.groups[0].transfer_us == doctest::Approx(40 * 500).epsilon(0.01));
    CHECK(report.groups[0].inconsistent == 0);
    const Report steady = report_of(drifting(0, 1'000, seed));
    CHECK(steady.job.clocks.drift[1] == 0);
    CHECK(std::abs(steady.job.clocks.spread_ns) < 2'000);
  }
}

TEST_CASE(
    "ranks: members come from the list of process groups, as a list and as text, and ids may be large") {
  const std::string groups =
      R"([{"pg_name": "3", "pg_desc": "dp \"x\"", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [4, 6]},)"
      R"( {"pg_name": "5", "pg_desc": "tp", "pg_size": 2, "ranks": [4, 5], "more": [{"a": [null, true, 1.5]}, {}]}])";
  std::string text;
  for (const char c : groups) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  for (const std::string& listed : {groups, '"' + text + '"'}) {
    CAPTURE(listed);
    const support::TemporaryFolder folder;
    const RankTrace trace = read_kineto(
        folder.put(
            "t.json",
            R"({"distributedInfo": {"rank": 4, "pg_config": )" + listed +
                R"(, "world_size": 8}, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce",
        "ts": 1, "dur": 2, "args": {"stream": 7, "Process Group Name": "3", "Comms Id": 18446744073709551615}},
        {"ph": "X", "cat": "kernel", "name": "ncclKernel_AllReduce", "ts": 4, "dur": 2,
         "args": {"stream": 7, "Process Group Name": "9", "Process Group Ranks": [4, 7], "Comms Id": 0}}]})"),
        "");
    CHECK(trace.rank == 4);
    CHECK(trace.world_size == 8);
    REQUIRE(trace.groups.size() == 2);
    CHECK(trace.groups[0].members == std::vector<std::int64_t>{4, 6});
    CHECK(trace.groups[0].description == "dp \"x\"");
    CHECK(trace.groups[0].size == 2);
    CHECK(trace.exchanges[0].id == "18446744073709551615");
    CHECK(trace.groups[1].members == std::vector<std::int64_t>{4, 7});
    CHECK(trace.exchanges[1].id.empty());
  }
}

TEST_CASE("ranks: each group has a curve of its own, chosen by name") {
  const Report report = report_of(support::make_job(3, MatchedBy::sequence).traces);
  const traces::Measurements one = measurements_of(report, "1");
  const traces::Measurements two = measurements_of(report, "2");
  REQUIRE(one.series.size() == 1);
  CHECK(one.series[0].workers == 4);
  CHECK(two.series[0].workers == 4);
  CHECK(one.series[0].points != two.series[0].points);
  CHECK(measurements_of(report, "data_parallel@3").series[0].points == two.series[0].points);
  CHECK_THROWS_WITH_AS(
      measurements_of(report, "dp"),
      "--group: expected one of the groups that have curves (group 0 (default_pg), ranks 0 to 7; "
      "group 1 (data_parallel), ranks 0 to 6 in steps of 2; group 3 (tensor_parallel), ranks 0, 1; "
      "group 2 (data_parallel), ranks 1 to 7 in steps of 2; group 4 (tensor_parallel), ranks 2, 3; "
      "group 5 (tensor_parallel), ranks 4, 5; group 6 (tensor_parallel), ranks 6, 7), got 'dp'",
      core::InputError);
}

TEST_CASE("ranks: all-reduces of unknown size send the gradients before them") {
  const support::TemporaryFolder folder;
  std::string text = kineto::two_layers(1, 4).text.as_object();
  const std::string sizes =
      R"("In msg nelems": 250000, "Out msg nelems": 250000, "dtype": "Float", "Group size": 4)";
  for (std::size_t at = 0; (at = text.find(sizes, at)) != std::string::npos;)
    text.replace(at, sizes.size(), R"("dtype": "Float")");
  for (const char* rank : {"rank0.json", "rank1.json"}) folder.put(fmt::format("job/{}", rank), text);
  const std::string network = folder / "n.json";
  const support::Outcome outcome = support::run_program(
      {"import", folder / "job", "--workers", "2", "-o", folder / "p.json", "--network", network});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const std::string assumption = "ASSUMED, as the trace does not hold the sizes of its all-reduces";
  CHECK(outcome.err.find("warning: ranks 0, 1: " + assumption) != std::string::npos);
  CHECK(outcome.err.find(assumption) == outcome.err.rfind(assumption));  // it is said once
  const core::Network read = core::read_network(core::Field::load(network));
  REQUIRE(read.measured.size() == 1);
  CHECK(read.measured[0].curve.points()[1].first == 16);  // 4 elements; the other 32 become ready later
}

//            us 0    10   20   30   40   50
// rank 0        [c1 ==========][---)           its clock is right
//               xxxxxxxxx         xxxxxx       computes 0 to 9 and 32 to 38
// rank 1                [c1 ====]              its clock is 100 us early
TEST_CASE("ranks: exposed time is what no kernel covers, split where the last rank came") {
  const auto trace = [](int rank, const std::string& events) {
    return fmt::format(R"({{"distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [{}]}})", rank,
                       events);
  };
  const auto kernel = [](const char* name, int start, int length) {
    return fmt::format(
        R"({{"ph": "X", "cat": "kernel", "name": "{}", "ts": {}, "dur": {}, "args": {{"stream": 7}}}})", name,
        start, length);
  };
  const char* reduce = "ncclKernel_AllReduce";
  const Report report = report_of(
      {trace(0, kernel("gemm", 1000, 9) + ',' + kernel(reduce, 1000, 30) + ',' + kernel("gemm", 1032, 6)),
       trace(1, kernel(reduce, 920, 10))});
  CHECK(report.job.clocks.offset_ns == std::vector<std::int64_t>{0, 100'000});
  REQUIRE(report.exposed[0].size() == 1);
  CHECK(report.exposed[0][0].waiting_ns == 11'000);   // 9 to 20
  CHECK(report.exposed[0][0].transfer_ns == 10'000);  // 20 to 30
  CHECK(report.exposed[1][0].ns() == 10'000);
  const RankTimes times = times_of(report.job.ranks[0]);
  CHECK(times.whole_us == doctest::Approx(38));
  CHECK(times.compute_us + times.exposed_us + times.copies_us + times.idle_us ==
        doctest::Approx(times.whole_us));
  CHECK(times.idle_us == doctest::Approx(2));
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].transfer_us == doctest::Approx(10));
  CHECK(report.groups[0].latecomers[0].rank == 1);
  CHECK(report.groups[0].latecomers[0].kept_waiting_us == doctest::Approx(20));
}

//            ns   0    10   20   30  35
// computes        [=====]            [===
// bucket          [================]
// exchange              . . . . . .[==]         of a layer, launched at 10: it queues behind the bucket
TEST_CASE("ranks: while an exchange of a pass queues, the time is its own and not the bucket's") {
  RankTrace trace;
  trace.compute = {{0, 10}, {35, 50}};
  trace.exchanges = {{.ran = {0, 30}}, {.ran = {30, 35}, .is_of_layer = true, .is_in_pass = true}};
  trace.in_passes = {{10, 35}};
  const std::vector<Exposed> exposed = exposed_times(trace, {5, 30});
  REQUIRE(exposed.size() == 2);
  CHECK(exposed[0].ns() == 0);
  CHECK(exposed[1].ns() == 25);
}

TEST_CASE("ranks: kernels of eight ranks take 1.7 to 11.3 ms, of which 0.22 ms are not waiting") {
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < 8; ++rank)
    traces.push_back(read_kineto(
        (support::source_dir() / fmt::format("tests/data/ranks/dlrm/worker{}.pt.trace.json.gz", rank))
            .string(),
        "ProfilerStep#"));
  const Report report = make_report(std::move(traces));
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].collectives == 8);
  CHECK(report.groups[0].min_kernel_us == doctest::Approx(1746));
  CHECK(report.groups[0].max_kernel_us == doctest::Approx(11'336));
  CHECK(report.groups[0].transfer_us == doctest::Approx(225));
  CHECK(report.job.clocks.spread_ns <= 1'000);
  const std::vector<traces::Series> found = curves(report.job, report.groups[0]);
  REQUIRE(found.size() == 1);  // an all-to-all has no curve
  CHECK(found[0].workers == 8);
  CHECK(found[0].points.size() == 3);
  CHECK(found[0].points.back().first == 1'576'964);
}

TEST_CASE("ranks: a trace without a rank, and a rank that is there twice, are refused") {
  const std::string none =
      R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}]})";
  const support::TemporaryFolder folder;
  const std::string a = folder.put("a.json", none);
  const std::string rank0 = folder.put("job_rank-0.json", none);
  CHECK_THROWS_WITH_AS(
      make_report({read_kineto(rank0, ""), read_kineto(a, "")}),
      (a + ": /distributedInfo/rank: expected the rank, here or in the file's name (rank3), got neither")
          .c_str(),
      core::InputError);
  CHECK_THROWS_WITH_AS(
      make_report({read_kineto(rank0, ""), read_kineto(rank0, "")}),
      (rank0 + ": /distributedInfo/rank: expected each rank once, got rank 0 again, after " + rank0).c_str(),
      core::InputError);
  CHECK(rank_in_name("x/worker12_step_3.pt.trace.json") == 12);
  CHECK(rank_in_name("rank/trace.json") == -1);
}

}  // namespace
}  // namespace ranks
