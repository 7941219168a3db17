// Other recordings than traces with kernels: PyTorch execution traces, exports of Nsight Systems, and files
// that are recognised and cannot be used.

#include <sqlite3.h>

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include "core/errors.hpp"
#include "profiler/traces/ranks/execution_trace.hpp"
#include "profiler/traces/ranks/read_nsys.hpp"
#include "profiler/traces/ranks/report.hpp"
#include "profiler/traces/ranks/source_kind.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ranks {
namespace {

const std::string kExecution = (support::source_dir() / "tests/data/ranks/resnet-2gpu-et.json.gz").string();

TEST_CASE("execution trace: the buckets of a real DDP run, in their order") {
  const ExecutionTrace trace = read_execution_trace(kExecution);
  CHECK(trace.group_size == 2);
  REQUIRE(trace.iterations.size() == 3);
  for (const RecordedIteration& iteration : trace.iterations) {
    CHECK(iteration.gradients.size() == 161);
    REQUIRE(iteration.buckets.size() == 5);
    std::vector<std::int64_t> elements;
    for (const Bucket& bucket : iteration.buckets) elements.push_back(bucket.elements);
    CHECK(elements == std::vector<std::int64_t>{2'049'000, 7'875'584, 6'563'840, 6'637'568, 2'431'040});
  }
}

TEST_CASE("execution trace: DDP's rule, on the gradients in their order, gives these buckets to the byte") {
  const ExecutionTrace trace = read_execution_trace(kExecution);
  const RecordedIteration& iteration = trace.iterations.back();
  std::vector<std::pair<double, std::int64_t>> gradients;
  for (const ReadyGradient& gradient : iteration.gradients) gradients.emplace_back(1, gradient.bytes);
  const support::Scene scene(support::gradients_of(gradients), support::pair_of(1, 1));
  std::string expected;
  for (const Bucket& bucket : iteration.buckets)
    expected += (expected.empty() ? "" : " ") + fmt::to_string(bucket.gradients);
  CHECK(expected == "2 15 12 51 81");
  CHECK(support::fused(R"({"kind": "buckets", "cap_bytes": 26214400, "first_cap_bytes": 1048576})", scene) ==
        expected);
  const auto first = first_cap(trace);
  const auto others = other_cap(trace);
  REQUIRE(first.has_value());
  REQUIRE(others.has_value());
  CHECK((first->from < 1'048'576 && 1'048'576 <= first->to));
  CHECK((others->from < 26'214'400 && 26'214'400 <= others->to));
}

// ---- Nsight Systems

TEST_CASE("execution trace: a node with more than 64 MiB of text is refused" *
          support::needs(support::no_sanitizer)) {
  const support::TemporaryFolder folder;
  const auto trace = [&](int texts) {
    std::string out = R"({"schema": "1.1.0", "nodes": [{"id": 1, "name": "a"},)"
                      "\n"
                      R"({"id": 2, "name": "torch::autograd::AccumulateGrad", "texts": [)";
    for (int i = 0; i < texts; ++i) out += (i == 0 ? "\"" : ",\"") + std::string(15 << 20, 'a') + "\"";
    return folder.put("et.json", out + "]}]}");
  };
  CHECK(read_execution_trace(trace(4)).nodes == 2);
  const std::string path = trace(5);
  CHECK_THROWS_WITH_AS((void)read_execution_trace(path),
                       (path + ":2: expected elements with at most 64 MiB of text, got more").c_str(),
                       core::InputError);
}

TEST_CASE("ranks: more collectives than fit into 2 GiB are refused") {
  std::vector<RankTrace> ranks(2);
  ranks[0].exchanges.resize(kMaxExchanges);
  ranks[0].path = "rank0.json";
  ranks[1].path = "rank1.json";
  check_sizes(ranks);
  ranks[1].exchanges.resize(1);
  CHECK_THROWS_WITH_AS(
      check_sizes(ranks),
      "rank1.json: /: expected traces with at most 2500000 collectives and 16000000 times in "
      "which ranks compute, copy or wait, in all, got more",
      core::InputError);
}

/// Makes an export as `nsys export --type sqlite` does, of two GPUs of one process with one all-reduce each.
std::string make_export(const support::TemporaryFolder& folder, const std::string& payload) {
  std::string path = folder / "export.sqlite";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  const std::string text = fmt::format(
      R"(CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (2, 'gemm'), (3, 'ncclAllReduce'),
           (4, 'cudaLaunchKernel');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
           correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
           (0, 50000, 0, 7, 1, {0}, 2), (60000, 130000, 0, 20, 2, {0}, 1),
           (0, 70000, 1, 7, 3, {0}, 2), (80000, 130000, 1, 21, 4, {0}, 1);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
           correlationId INTEGER, nameId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 1500, {1}, 2, 4), (2000, 2500, {1}, 4, 4);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER,
           jsonText TEXT, binaryData BLOB);
         INSERT INTO NVTX_EVENTS VALUES (900, 1600, NULL, 3, {1}, {2}), (1900, 2600, NULL, 3, {1}, {2});)",
      std::int64_t{5} << 24U, (std::int64_t{5} << 24U) + 9, payload);
  REQUIRE(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  return path;
}

TEST_CASE("nsys: kernels, streams, launches and the payloads of NCCL's ranges") {
  // the communicator, then 1,048,576 bytes, then the operation, in the byte order of the machine that traced
  for (const std::string payload :
       {R"('{"NCCL communicator ID": 77, "Message size [bytes]": 1048576}', NULL)",
        R"(NULL, x'4d00000000000000000010000000000000000000')"}) {
    CAPTURE(payload);
    const support::TemporaryFolder folder;
    const std::string path = make_export(folder, payload);
    CHECK(source_kind(path) == SourceKind::nsys);
    const Report report = make_report(read_nsys(path, ""));
    CHECK(folder.count() == 1);  // no journal beside the file
    REQUIRE(report.job.ranks.size() == 2);
    REQUIRE(report.groups.size() == 1);
    CHECK(report.job.groups[report.groups[0].group].name == "77");
    REQUIRE(report.groups[0].sizes.size() == 1);
    CHECK(report.groups[0].sizes[0].bytes == 1'048'576);
    CHECK(report.groups[0].transfer_us == doctest::Approx(50));
    CHECK(report.groups[0].latecomers[0].rank == 1);
    CHECK(curves(report.job, report.groups[0]).size() == 1);
  }
}

TEST_CASE("nsys: a view in place of the table of texts is refused, as it may have no end") {
  const support::TemporaryFolder folder;
  const std::string path = make_export(folder, "NULL, NULL");
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database,
                       "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE n(id, value) AS "
                       "(SELECT 1, 'nccl' UNION ALL SELECT id + 1, value FROM n) SELECT id, value FROM n;",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK_THROWS_WITH_AS((void)read_nsys(path, ""), doctest::Contains("with the table StringIds"),
                       core::InputError);
}

TEST_CASE("nsys: a time or a number that is no integer is refused with its column, not read as one") {
  for (const auto& [column, value] :
       {std::pair("start", "'soon'"), std::pair("end", "1.5"), std::pair("deviceId", "x'00'")}) {
    const support::TemporaryFolder folder;
    const std::string path = make_export(folder, "NULL, NULL");
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    const std::string change = fmt::format("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {} = {}", column, value);
    REQUIRE(sqlite3_exec(database, change.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    CAPTURE(change);
    const std::string expected = fmt::format("/: expected integers in the column {}, got ", column);
    CHECK_THROWS_WITH_AS((void)read_nsys(path, ""), doctest::Contains(expected.c_str()), core::InputError);
  }
}

TEST_CASE("nsys: a GPU with more than 10,000 streams without communicators is refused") {
  const support::TemporaryFolder folder;
  const std::string path = make_export(folder, "NULL, NULL");  // one of them is there
  for (const int more : {9'999, 10'000}) {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
    const std::string text = fmt::format(
        "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE streamId >= 100; WITH RECURSIVE n(i) AS (SELECT 1 "
        "UNION ALL SELECT i + 1 FROM n WHERE i < {}) INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
        "SELECT 200000 + 10 * i, 200005 + 10 * i, 0, 100 + i, 100 + i, {}, 1 FROM n;",
        more, std::int64_t{5} << 24U);
    REQUIRE(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
    if (more < 10'000)
      CHECK(read_nsys(path, "").at(0).groups.size() == 10'000);
    else
      CHECK_THROWS_WITH_AS(
          (void)read_nsys(path, ""),
          doctest::Contains(
              "expected at most 10000 communicators, or streams without one, on a GPU, got more"),
          core::InputError);
  }
}

TEST_CASE("nsys: the members of a communicator are the GPUs that use it, and sizes add up over them") {
  const support::TemporaryFolder folder;
  const std::string path = folder / "four.sqlite";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  std::string text =
      R"(CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         INSERT INTO StringIds VALUES (1, 'ncclDevKernel_AllGather_RING_LL'), (3, 'ncclAllGather');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
           correlationId INTEGER, globalPid INTEGER, shortName INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
           correlationId INTEGER, nameId INTEGER);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER,
           jsonText TEXT);)";
  for (int gpu = 0; gpu < 4; ++gpu) {
    const int communicator = gpu < 2 ? 77 : 88;
    const int end = gpu < 2 ? 130'000 : 140'000;
    const std::int64_t process = std::int64_t{5} << 24U;
    text += fmt::format(
        R"(INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({0}, {1}, {2}, 20, {3}, {4}, 1);
           INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({5}, {6}, {7}, {3}, 4);
           INSERT INTO NVTX_EVENTS VALUES ({8}, {9}, NULL, 3, {7},
             '{{"NCCL communicator ID": {10}, "Message size [bytes]": 1048576}}');)",
        60'000 + 10'000 * gpu, end, gpu, gpu + 1, process, 1000 * gpu + 100, 1000 * gpu + 200, process + 9,
        1000 * gpu, 1000 * gpu + 300, communicator);
  }
  REQUIRE(sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const Report report = make_report(read_nsys(path, ""));
  REQUIRE(report.job.groups.size() == 2);
  REQUIRE(report.groups.size() == 2);
  for (const GroupStatistics& group : report.groups) {
    const Group& named = report.job.groups[group.group];
    const bool is_first = named.name == "77";
    CHECK(named.members == (is_first ? std::vector<std::int64_t>{0, 1} : std::vector<std::int64_t>{2, 3}));
    CHECK(named.size == 2);
    CHECK(named.incomplete == 0);
    REQUIRE(group.sizes.size() == 1);
    CHECK(group.sizes[0].bytes == 2 * 1'048'576);
    CHECK(group.transfer_us == doctest::Approx(is_first ? 60 : 50));  // from 70 to 130, from 90 to 140
    CHECK(group.latecomers[0].rank == (is_first ? 1 : 3));
    REQUIRE(curves(report.job, group).size() == 1);
    CHECK(curves(report.job, group)[0].workers == 2);
  }
}

TEST_CASE("nsys: without payloads the sizes are unknown, and the report says what to record") {
  const support::TemporaryFolder folder;
  const Report report = make_report(read_nsys(make_export(folder, "NULL, NULL"), ""));
  REQUIRE(report.groups.size() == 1);
  CHECK(report.groups[0].sizes[0].bytes == 0);
  const std::string note =
      "ranks 0, 1: the export holds no payload for 1 of 1 NCCL kernels, so their sizes are unknown: "
      "export again "
      "with --include-blobs true --include-json true, from a report with NVTX";
  CHECK(std::find(report.warnings.begin(), report.warnings.end(), note) != report.warnings.end());
}

TEST_CASE("nsys: ranges that --step names have to be there") {
  const support::TemporaryFolder folder;
  const std::string path = make_export(folder, "NULL, NULL");
  CHECK_THROWS_WITH(
      (void)read_nsys(path, "epoch"),
      (path + ": /NVTX_EVENTS: expected ranges whose names begin with \"epoch\" (--step), got none").c_str());
}

TEST_CASE("nsys: a database without kernels, and a damaged one, are refused") {
  const support::TemporaryFolder folder;
  const std::string path = folder / "empty.sqlite";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database,
                       "CREATE TABLE t (a); CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT 1 AS start",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK_THROWS_WITH_AS(
      read_nsys(path, ""),
      (path + ": /: expected an export of Nsight Systems with CUDA kernels (nsys profile --trace "
              "cuda,nvtx), got no table CUPTI_ACTIVITY_KIND_KERNEL")
          .c_str(),
      core::InputError);
  const std::string broken =
      folder.put("broken.sqlite", "SQLite format 3" + std::string(1, '\0') + "rubbish");
  CHECK_THROWS_AS(read_nsys(broken, ""), core::InputError);
}

// ---- kinds of files

std::string refusal(const std::string& name, const std::string& text) {
  const support::TemporaryFolder folder;
  const std::string path = folder.put(name, text);
  try {
    (void)source_kind(path);
  } catch (const core::InputError& error) {
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "taken";
}

TEST_CASE("source kinds: a trace is recognised however late its events begin") {
  const support::TemporaryFolder folder;
  const std::string late = R"({"deviceProperties": [{"name": ")" + std::string(100'000, 'x') +
                           R"("}], "traceEvents": [{"ph": "X", "cat": "kernel"}]})";
  CHECK(source_kind(folder.put("late.json", late)) == SourceKind::kineto);
  CHECK(source_kind(folder.put("list.json", R"([{"ph": "X", "cat": "Operator"}])")) == SourceKind::kineto);
  CHECK(source_kind(folder.put("log.txt", "bytes,us\n1,2\n")) == SourceKind::log);
  CHECK(source_kind(kExecution) == SourceKind::execution_trace);
}

TEST_CASE("source kinds: a file of a known kind that cannot be used says what to record instead") {
  const std::string instead =
      "/: expected a torch.profiler trace (prof.export_chrome_trace) of each rank; fusewise imports these, "
      "got ";
  CHECK(refusal("t.json", R"([{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "w"}},
                             {"name": "NEGOTIATE_ALLREDUCE", "ph": "B", "ts": 1, "pid": 1},)") ==
        instead + "a timeline of Horovod, which shows its own queue and no kernels of layers");
  CHECK(refusal("c.json", R"({"workload_graph": [{"Id": 1, "Name": "n"}]})") ==
        instead +
            "a Chakra execution trace (JSON), which holds operators without the times of their kernels");
  CHECK(refusal("c.et", std::string("\x07\x0a\x05") + "0.0.4" + std::string("\x10\x00\x08", 3)) ==
        instead +
            "a Chakra execution trace (protobuf), which holds operators without the times of their kernels");
  const std::string recorder = instead +
                               "a dump of PyTorch's flight recorder, which holds the order of collectives "
                               "for finding hangs, and no times of "
                               "kernels";
  CHECK(refusal("fr.json", R"({"version": "2.4", "pg_config": {}, "entries": [{"seq_id": 1}]})") == recorder);
  CHECK(refusal("fr_0", "\x80\x02}q\x01(X\x07pg_configq\x02") == recorder);
  CHECK(refusal("r.nsys-rep", "anything") ==
        "/: expected its SQLite export (nsys export --type sqlite REPORT), got a report of Nsight Systems, "
        "whose "
        "format only its own tools read");
  CHECK(refusal("p.json", R"({"format": "fusewise.plan", "version": 1})") ==
        "/: expected a recording of another program, got a fusewise.plan file, which is no recording");
}

TEST_CASE("import: a trace without kernels, an unknown file, and a compressed log of NCCL's inspector") {
  const support::TemporaryFolder folder;
  const auto import = [&](const std::string& file) {
    return support::run_program({"import", file, "--json"});
  };
  const std::string cpu = folder.put(
      "cpu.json",
      R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::cudnn_convolution", "ts": 1, "dur": 2}]})");
  CHECK(import(cpu).err.find("expected kernels of a GPU, got none in 1 events") != std::string::npos);
  const std::string unknown = folder.put("x.txt", "hello\n");
  CHECK(import(unknown).err.find(
            "expected a trace of the PyTorch profiler (JSON, also gzip), a PyTorch execution "
            "trace, an SQLite export of Nsight Systems, or a log in one of the formats b-caffe") !=
        std::string::npos);
  const std::string line =
      R"({"header": {"id": "1", "rank": 0, "n_ranks": 2, "nnodes": 1}, "coll_perf": {"coll": "AllReduce", "coll_sn": 1,)"
      R"( "coll_msg_size_bytes": 1024, "coll_exec_time_us": 10}})"
      "\n";
  const std::string packed = folder / "rank0.jsonl.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(file, line.data(), static_cast<unsigned>(line.size())) == static_cast<int>(line.size()));
  REQUIRE(gzclose(file) == Z_OK);
  const support::Outcome outcome = support::run_program({"import", packed});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.find("[[1024.0, 10.0]]") != std::string::npos);
}

}  // namespace
}  // namespace ranks
