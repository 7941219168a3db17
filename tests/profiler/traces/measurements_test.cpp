// Measured collectives: tables written by people, and the output of nccl-tests.

#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/traces/import.hpp"

namespace traces {
namespace {

const std::string kTable =
    "collective,algorithm,workers,bytes,us\n"
    "all_reduce,ring,2,1024,10.5\nall_gather,,2,1024,5\nall_reduce,ring,2,2048,11\nall_reduce,,4,1024,20\n";

const std::string kText =
    "$ mpirun -n 1 ./build/all_reduce_perf -b 8M -e 32M -f 2 -g 4\n"
    "# nccl-tests version 2.13.8 nccl-headers=21903 nccl-library=21903\n"
    "# nThread 1 nGpus 4 minBytes 8388608 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   6534 on       host device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  1 Group  0 Pid   6534 on       host device  1 [0x0f] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  2 Group  0 Pid   6534 on       host device  2 [0x47] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  3 Group  0 Pid   6534 on       host device  3 [0x4e] NVIDIA A100-SXM4-40GB\n"
    "#\n"
    "#                                                              out-of-place                       "
    "in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)       \n"
    "     8388608       2097152     float     sum      -1    116.8   71.82  107.73      0    116.0   72.31  "
    "108.47      0\n"
    "    16777216       4194304     float     sum      -1    181.6   92.39  138.58      0    182.4   91.98  "
    "137.97    N/A\n"
    "    33554432       8388608     float     sum      -1    319.5  105.02  157.53    N/A    318.2  105.45  "
    "158.18    N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 134.74\n";

const std::string kJson =
    R"({"version":2,"start_time":"2025-01-01 10:00:00","args":["\/opt\/reduce_scatter_perf","-J","x"],)"
    R"("env":["A=1"],"nccl_version":22703,"config":{"nthreads":1,"ngpus":1,"minimum_bytes":1024,)"
    R"("devices":[{"rank":0,"group":0},{"rank":1,"group":0}]},"results":[)"
    R"({"size":1048576,"count":131072,"type":"float","redop":"sum","root":"    -1",)"
    R"("out_of_place":{"time":52.428800,"alg_bw":20.000000,"bus_bw":10.000000,"nwrong":0.000000},)"
    R"("in_place":{"time":50.0,"alg_bw":20.9,"bus_bw":10.4,"nwrong":null}},)"
    R"({"size":2097152,"out_of_place":{"time":104.857600,"alg_bw":20.000000,"bus_bw":10.000000,"nwrong":null}}],)"
    R"("out_of_bounds":{"count":0,"okay":"true"}})";

using Texts = std::vector<std::string>;
using Points = std::vector<std::pair<double, double>>;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::vector<Series> series_of(const std::string& text, const ImportOptions& options = {},
                              const std::string& path = "logs/x.log") {
  return read_measurements({{path, text}}, options).series;
}

void check_refused(const std::string& text, const std::string& message, const ImportOptions& options = {}) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read_measurements({{"x.log", text}}, options), message.c_str(), core::InputError);
}

TEST_CASE("curves of traces: continued by a line to one byte and beyond the largest size") {
  // 20 us + 1 us per 1000 bytes
  const Points exact = continued({{10'000, 30}, {20'000, 40}, {40'000, 60}});
  REQUIRE(exact.size() == 5);
  CHECK(exact.front().first == 1);
  CHECK(exact.front().second == doctest::Approx(20));
  CHECK(exact.back().first == 50'000);
  CHECK(exact.back().second == doctest::Approx(70));
  // the first has waited; no slope is left, so that a line from 10 us through the last goes on
  const Points falling = continued({{10'000, 50}, {40'000, 40}});
  REQUIRE(falling.size() == 4);
  CHECK(falling[0] == std::pair<double, double>{1, 10});
  CHECK(falling[1] == std::pair<double, double>{10'000, 40});
  CHECK(falling[2] == std::pair<double, double>{40'000, 40});
  CHECK(falling[3].second == doctest::Approx(47.5));
  // two sizes that are almost alike: the line through them would rise by 261 us for 1000 bytes
  const Points close = continued({{2'100'000, 3'770}, {2'120'000, 9'010}});
  REQUIRE(close.size() == 4);
  CHECK(close.back().first == 2'650'000);
  CHECK(close.back().second == doctest::Approx(9'010 + 0.25 * 9'000));
  CHECK(continued({{1'000, 4}}) == Points{{1, 2}, {1'000, 4}, {1'250, 4.5}});  // half of 4 us is below 10 us
  const core::Network network = network_of(
      {.source = "s",
       .series = {{.path = "p", .workers = 4, .points = {{1'000'000, 110}}, .is_continued = true}}},
      "n");
  CHECK(network.measured[0].curve.us(1) == 10);
  CHECK(network.measured[0].curve.us(10'000'000) == doctest::Approx(10 + 1'000));
  CHECK(network.origin.source.find("ASSUMED: the first and the last point of each curve") !=
        std::string::npos);
}

TEST_CASE("csv: curves in any order, by collective, algorithm and number of workers") {
  const std::vector<Series> all = series_of(kTable);
  REQUIRE(all.size() == 3);
  CHECK(all[0].workers == 4);  // a curve for any algorithm comes before one with a name
  CHECK(all[1].algorithm == "ring");
  CHECK(all[1].points == std::vector<std::pair<double, double>>{{1024, 10.5}, {2048, 11}});
  CHECK(all[2].collective == core::CollectiveKind::all_gather);
  CHECK_FALSE(all[2].algorithm.has_value());
}

TEST_CASE("csv: what a table leaves out, options or the file's name say") {
  const std::vector<Series> named = series_of("us,bytes\r\n10,1024\r\n\r\n11,2048\r\n", {}, "run8.csv");
  CHECK(named[0].workers == 8);
  CHECK(named[0].points.front() == std::pair<double, double>{1024, 10});
  CHECK(series_of("bytes,us\n1,1\n", {.workers = 3, .collective = "all_gather"})[0].collective ==
        core::CollectiveKind::all_gather);
  const Imported imported = import_logs({{"run8.csv", "bytes,us\n1024,10\n2048,11\n"}}, {});
  CHECK(std::get<core::Network>(imported.value).measured[0].workers == 8);
}

TEST_CASE("csv: a table that is wrong is refused with its line") {
  check_refused(replaced(kTable, "11\n", "11,5\n"), "x.log:4: expected 5 fields, got 6");
  check_refused(replaced(kTable, "10.5", "10,5"), "x.log:2: expected 5 fields, got 6");
  check_refused(replaced(kTable, "10.5", "fast"),
                "x.log:2: expected a time, a number from 1e-06 to 1000000000000, got 'fast'");
  check_refused(replaced(kTable, "all_gather", "gather"),
                "x.log:3: expected all_reduce, reduce_scatter or all_gather, got 'gather'");
  check_refused(replaced(kTable, "2,2048", "2,1024"),
                "x.log:4: expected more bytes than in the row above, 1024, got '1024'");
  check_refused(
      "bytes,us,ms\n1,2,3\n",
      "x.log:1: expected columns among collective, algorithm, workers, bytes, us, each once, got 'ms'");
  check_refused("bytes,us\n", "x.log:1: expected rows under the header, got none", {.workers = 2});
  check_refused("bytes,us\n1,2\nmean,2\n",
                "x.log:3: expected bytes, an integer from 0 to 8000000000000000, got 'mean'", {.workers = 2});
  check_refused(kTable, "x.log:3: expected all_reduce, got 'all_gather'", {.collective = "all_reduce"});
  check_refused("idx,tensor,numel,gap_us\n0,a,1,1\n",
                "x.log: /: expected measured collectives, got a profile's log (espresso)",
                {.format = "espresso"});
}

TEST_CASE("nccl-tests: what it prints, with text before and after, and line ends of DOS") {
  std::string dos;
  for (const char c : kText) dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
  for (const std::string& text : {kText, "\xEF\xBB\xBF" + dos, kText + "\nhost: done in three minutes\n"}) {
    const std::vector<Series> all = series_of(text);
    REQUIRE(all.size() == 1);
    CHECK(all[0].collective == core::CollectiveKind::all_reduce);
    CHECK(all[0].workers == 4);
    CHECK(all[0].points ==
          std::vector<std::pair<double, double>>{{8388608, 116.8}, {16777216, 181.6}, {33554432, 319.5}});
  }
}

TEST_CASE("nccl-tests: what it prints is refused with its line where it is wrong") {
  check_refused(replaced(kText, "    33554432       8388608", "# so far\n    33554432       8388608"),
                "x.log:16: expected a row of nccl-tests, as there are more below, got '# so far'");
  check_refused(kText + kText,
                "x.log: /: expected one table of all_reduce for each number of workers: keep one of the "
                "tables, got a second one for 4, after x.log");
  check_refused(replaced(kText, "319.5  105.02", "319.5"), "x.log:16: expected 13 columns, got 12");
  check_refused(replaced(kText, "319.5", "319,5"),
                "x.log:16: expected a time, a number from 1e-06 to 1000000000000, got '319,5'");
  check_refused(replaced(kText, "#  Rank  3 Group  0", "#  Rank  3 Group  1"),
                "x.log:14: expected a bus bandwidth of 95.76 GB/s of all_reduce on 3 workers, got '107.73'");
  check_refused(kText, "x.log:9: expected 8 ranks, as --workers says, got 4", {.workers = 8});
  check_refused(kText, "x.log:1: expected all_gather, got all_reduce", {.collective = "all_gather"});
  const std::string nameless = replaced(kText, "all_reduce_perf", "a.out");
  check_refused(nameless,
                "x.log: /: expected the collective, as --collective NAME or as one of all_reduce_perf, "
                "reduce_scatter_perf, all_gather_perf in the log or the file's name, got neither");
  CHECK(series_of(nameless, {}, "all_reduce_perf.txt").size() == 1);
  check_refused(nameless,
                "x.log:14: expected a bus bandwidth of 53.87 GB/s of all_gather on 4 workers, got '107.73'",
                {.collective = "all_gather"});
}

TEST_CASE("nccl-tests: a row with wrong sums is left out, with its place") {
  const Series found = series_of(replaced(kText, "157.53    N/A", "157.53      7"))[0];
  CHECK(found.points == Points{{8388608, 116.8}, {16777216, 181.6}});
  CHECK(curve_warnings({found}) ==
        Texts{"logs/x.log:16: the sums were wrong (errors: 7), so this row is left out"});
  std::string none = kText;
  for (const char* errors : {"107.73      ", "138.58      "})
    none = replaced(none, std::string(errors) + "0", std::string(errors) + "9");
  check_refused(
      replaced(none, "157.53    N/A", "157.53      7"),
      "x.log:12: expected rows of more than 0 bytes without wrong elements under the header, got none");
}

TEST_CASE("nccl-tests: the row in the middle of which the log of a killed job ends is left out") {
  const std::string cut = kText.substr(0, kText.find("319.5"));
  for (const std::string& text : {cut, cut + "slurmstepd: error: *** STEP CANCELLED ***\n",
                                  cut + "\nsrun: error: host: task 0: Killed\n"}) {
    const Series found = series_of(text)[0];
    CHECK(found.points == Points{{8388608, 116.8}, {16777216, 181.6}});
    CHECK(found.warnings ==
          Texts{"logs/x.log:16: the log ends in the middle of this row, which is left out"});
  }
  check_refused(replaced(cut, "181.6", ""), "x.log:15: expected 13 columns, got 12");
  check_refused(
      kText.substr(0, kText.find("116.8")),
      "x.log:12: expected rows of more than 0 bytes without wrong elements under the header, got none");
}

TEST_CASE("nccl-tests: an out-of-place time far above the in-place time is replaced by it") {
  const std::string cold = replaced(kText, "116.8   71.82  107.73", "350.4   23.94   35.91");
  const std::vector<Series> found = series_of(cold);
  CHECK(found[0].points.front() == std::pair<double, double>{8388608, 116.0});
  CHECK(curve_warnings(found) ==
        Texts{"logs/x.log, all_reduce on 4 workers: the in-place time is taken for a row, whose out-of-place "
              "time is far longer, as if it held first iterations"});
  CHECK(network_of({.source = "s", .series = found}, "n").origin.source ==
        "s: x.log (4 workers, in-place time of a row)");
  // 1.29 times the in-place time, and sums that were wrong in place
  CHECK(
      series_of(replaced(kText, "116.8   71.82  107.73", "149.6   56.07   84.11"))[0].points.front().second ==
      149.6);
  CHECK(series_of(replaced(cold, "108.47      0", "108.47      2"))[0].points.front().second == 350.4);
  check_refused(replaced(cold, "108.47", "118.47"),
                "x.log:14: expected a bus bandwidth of 108.47 GB/s of all_reduce on 4 workers, got '118.47'");
}

/// The text with what `prefix` says of each line number before its lines.
std::string prefixed(const std::string& text, const std::function<std::string(int line)>& prefix) {
  std::string out;
  int line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = text.find('\n', at) + 1;
    out += prefix(line) + text.substr(at, end - at);
    at = end;
  }
  return out;
}

TEST_CASE("nccl-tests: what launchers and collectors of logs put before each line") {
  const Points expected = series_of(kText)[0].points;
  for (const char* prefix : {"0: ", " 0: ", "[0] ", "[host:1,0]<stdout>:", "[prterun-host-1@1,0]<stdout>: ",
                             "[1,mpirank:0,algo-1]<stdout>:", "host-1: ", "test-0-1  | ", "> ", "+"}) {
    CAPTURE(prefix);
    const Series found = series_of(prefixed(kText, [&](int) { return prefix; }))[0];
    CHECK(found.points == expected);
    CHECK(found.workers == 4);
    CHECK(found.collective == core::CollectiveKind::all_reduce);
  }
  // zeros at the end of the fraction are not written
  const auto time = [](int line) {
    return "2024-07-19T10:22:0" + std::to_string(line % 10) + (line % 2 == 0 ? ".25Z " : ".1234567Z ");
  };
  CHECK(series_of(prefixed(kText, time))[0].points == expected);
  std::string no_hash;
  for (const char c : kText)
    if (c != '#') no_hash += c;
  CHECK(series_of(no_hash)[0].points == expected);
}

TEST_CASE("nccl-tests: prefixes within rows, and lines of other ranks between them") {
  const std::string ranked = prefixed(kText, [](int) { return "[0] "; });
  const Points expected = series_of(kText)[0].points;
  CHECK(series_of(replaced(ranked, "-1    181.6", "-1[0]    181.6"))[0].points == expected);
  const std::string row = "[0]     33554432";
  CHECK(series_of(replaced(ranked, row, "[3] library loaded\n" + row))[0].points == expected);
  const std::string tagged = prefixed(kText, [](int) { return "[1,0]<stdout>:"; });
  const std::string tagged_row = "[1,0]<stdout>:    33554432";
  CHECK(series_of(replaced(tagged, tagged_row, "[1,3]<stdout>:library loaded\n" + tagged_row))[0].points ==
        expected);
  check_refused(replaced(ranked, row, "[0] library loaded\n" + row),
                "x.log:16: expected a row of nccl-tests, as there are more below, got 'library loaded'");
  check_refused(replaced(ranked, "181.6 ", ""), "x.log:15: expected 13 columns, got 12");
  check_refused(ranked + kText,
                "x.log:30: expected the header of a table after '[0]', as above, got one after ''");
}

TEST_CASE("nccl-tests: what a log does not say, or says several times") {
  std::string no_devices = kText;
  for (int rank = 0; rank < 4; ++rank) no_devices = replaced(no_devices, "#  Rank  ", "#  rank  ");
  check_refused(
      no_devices,
      "x.log: /: expected the number of workers, 1 to 1000000, as --workers N or as the one number in "
      "the file's name, got neither, nor lines of devices (the number of processes, as after mpirun "
      "-np, says nothing of the GPUs of each)");
  const std::string alone =
      "# all_gather_perf\n#  Rank  0 Group  0 Pid 1 on host device  0 [0x07] GPU\n"
      "# size count type redop root time algbw busbw #wrong\n1024 128 float none -1 1.2 0.85 0.00 0\n";
  check_refused(
      alone + alone,
      "x.log: /: expected one table of all_gather for each number of workers: keep one of the tables, "
      "or, if this was one job, build nccl-tests with MPI=1, without which each process runs by "
      "itself, got a second one for 1, after x.log");
}

TEST_CASE("nccl-tests: the tables of several runs in one log") {
  const std::string gather =
      "# Collective test concluded: all_reduce_perf\n#\n# Collective test starting: all_gather_perf\n"
      "#  Rank  0 Group  0 Pid 1 on host device  0 [0x07] GPU\n"
      "#  Rank  1 Group  0 Pid 1 on host device  1 [0x0f] GPU\n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
      "algbw   "
      "busbw  #wrong\n"
      "    1048576        131072     float    none      -1    52.43   20.00   10.00       0    52.43   20.00 "
      "  "
      "10.00       0\n";
  const std::string other = replaced(gather, "starting: all_gather_perf", "starting: alltoall_perf");
  const std::vector<Series> all = series_of(kText + other + gather);
  REQUIRE(all.size() == 2);
  CHECK(all[0].collective == core::CollectiveKind::all_reduce);
  CHECK(all[0].workers == 4);
  CHECK(all[0].points.size() == 3);
  CHECK(all[1].collective == core::CollectiveKind::all_gather);
  CHECK(all[1].workers == 2);
  CHECK(all[1].points == std::vector<std::pair<double, double>>{{1048576, 52.43}});
  CHECK(curve_warnings(all) ==
        std::vector<std::string>{"logs/x.log: a table is left out, of other collectives"});
  CHECK(series_of(kText + gather, {.collective = "all_gather"}).size() == 1);
  // the name of a folder is no program
  const std::string folder = replaced(gather, "# Collective test starting: all_gather_perf",
                                      "$ cd net_perf_runs && ./alltoall_perfect.sh");
  CHECK(series_of(kText + folder, {.collective = "all_gather"}).size() == 1);
  check_refused(other + other,
                "x.log: /: expected a table of all_reduce_perf, reduce_scatter_perf or "
                "all_gather_perf, got none");
}

TEST_CASE("nccl-tests: rows of no bytes, and lines of NCCL's own log between rows, are left out") {
  const std::string empty =
      "           0             0     float     sum      -1     6.36    0.00    0.00      0     6.40    0.00 "
      "   "
      "0.00      0\n";
  const std::string row = "    33554432       8388608";
  const std::string log = "host:21:21 [0] NCCL INFO Launch mode Parallel\n";
  CHECK(
      series_of(replaced(replaced(kText, "     8388608", empty + empty + "     8388608"), row, log + row))[0]
          .points == series_of(kText)[0].points);
  const std::string only = kText.substr(0, kText.find("     8388608"));
  check_refused(only + empty,
                "x.log:12: expected rows of more than 0 bytes without wrong elements under the "
                "header, got none");
  const std::string zero = R"({"size":0,"out_of_place":{"time":0.3,"bus_bw":0,"nwrong":0}},)";
  CHECK(series_of(replaced(kJson, R"({"size":1048576)", zero + zero + R"({"size":1048576)"))[0].points ==
        series_of(kJson)[0].points);
}

TEST_CASE("nccl-tests: rounding errors, as printed before they were counted") {
  std::string old = replaced(replaced(kText, "#wrong", "error"), "#wrong", "error");
  old = replaced(old, "107.73      0", "107.73  5e-07");
  CHECK(series_of(old)[0].points == series_of(kText)[0].points);
  const Series left = series_of(replaced(old, "5e-07", "1e+00"))[0];
  CHECK(left.points.size() == 2);
  CHECK(left.warnings ==
        Texts{"logs/x.log:14: the sums were wrong (errors: 1e+00), so this row is left out"});
  check_refused(replaced(kText, "107.73      0", "107.73  5e-07"),
                "x.log:14: expected a number of wrong elements, got '5e-07'");
}

TEST_CASE("rccl-tests: the table that it writes as CSV") {
  const std::string csv =
      "numCycle,collective,gpus,size,type,redop,inplace,time,algbw,busbw,#wrong\n"
      "0,\"ReduceScatter\",2,0,\"float\",\"sum\",0,0.388600,0.000000,0.000000,\"0\"\n"
      "0,\"ReduceScatter\",2,1048576,\"float\",\"sum\",0,52.428800,20.000000,10.000000,\"0\"\n"
      "0,\"ReduceScatter\",2,1048576,\"float\",\"sum\",1,50.000000,20.971520,10.485760,\"0\"\n"
      "0,\"ReduceScatter\",4,1048576,\"float\",\"sum\",0,60.000000,17.476267,13.107200,\"0\"\n"
      "0,\"AlltoAll\",4,1048576,\"float\",\"sum\",0,60.000000,17.476267,13.107200,\"0\"\n";
  const std::vector<Series> all = series_of(csv);
  REQUIRE(all.size() == 2);
  CHECK(all[0].collective == core::CollectiveKind::reduce_scatter);
  CHECK(all[0].workers == 2);
  CHECK(all[0].points == std::vector<std::pair<double, double>>{{1048576, 52.4288}});
  CHECK(all[1].workers == 4);
  check_refused(
      replaced(csv, "10.000000,\"0\"", "99.000000,\"0\""),
      "x.log:3: expected a bus bandwidth of 10.00 GB/s of reduce_scatter on 2 workers, got '99.000000'");
  const std::string cold = replaced(csv, "52.428800,20.000000,10.000000", "524.288000,2.000000,1.000000");
  CHECK(series_of(cold)[0].points == Points{{1048576, 50}});
  CHECK(series_of(cold)[0].in_place_rows == 1);
  const std::vector<Series> left = series_of(replaced(csv, "10.000000,\"0\"", "10.000000,\"3\""));
  REQUIRE(left.size() == 1);
  CHECK(left[0].workers == 4);
  check_refused(csv, "x.log:3: expected 8 GPUs, as --workers says, got '2'", {.workers = 8});
  check_refused(csv,
                "x.log: /: expected out-of-place rows of AllReduce, ReduceScatter or AllGather, got none",
                {.collective = "all_reduce"});
}

TEST_CASE("nccl-tests: what -J writes") {
  const std::vector<Series> all = series_of(kJson);
  REQUIRE(all.size() == 1);
  CHECK(all[0].collective == core::CollectiveKind::reduce_scatter);
  CHECK(all[0].workers == 2);
  CHECK(all[0].points == std::vector<std::pair<double, double>>{{1048576, 52.4288}, {2097152, 104.8576}});
  check_refused(kJson.substr(0, kJson.size() - 40), "x.log:1:592: expected JSON, got the end of the file");
  check_refused(
      replaced(kJson, "\"size\":2097152", "\"size\":1048576"),
      "x.log: /results/1/size: expected more bytes than in the result before, 1048576, got 1048576");
  check_refused(
      replaced(kJson, "\"ngpus\":1", "\"ngpus\":2"),
      "x.log: /results/0/out_of_place/bus_bw: expected a bus bandwidth of 15.00 GB/s of reduce_scatter on 4 "
      "workers, got 10.0");
  const Series left = series_of(replaced(kJson, "\"nwrong\":0.000000", "\"nwrong\":3.000000"))[0];
  CHECK(left.points == Points{{2097152, 104.8576}});
  CHECK(
      left.warnings ==
      Texts{"logs/x.log: /results/0/out_of_place: the sums were wrong (errors: 3), so this row is left out"});
  const Series cold = series_of(replaced(kJson, R"({"time":52.428800,"alg_bw":20.000000,"bus_bw":10.000000)",
                                         R"({"time":524.28800,"alg_bw":2.000000,"bus_bw":1.000000)"))[0];
  CHECK(cold.points.front() == std::pair<double, double>{1048576, 50});
  CHECK(cold.in_place_rows == 1);
  check_refused(kJson, "x.log: /config/devices: expected 8 ranks, as --workers says, got 2", {.workers = 8});
  check_refused(kJson, "x.log: /args/0: expected all_gather, got reduce_scatter",
                {.collective = "all_gather"});
}

}  // namespace
}  // namespace traces
