// The importers, on excerpts of the logs that they read.

#include "profiler/traces/import.hpp"
#include "tests/support/listed.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"

namespace traces {
namespace {

const std::string kBCaffe =
    "I0219 13:29:26.100000 66221 solver.cpp:60] Solving GoogleNet [phase 1]\n"
    "I0219 13:29:27.119763 66221 distributed.cpp:112] [0, 9408, 0, 0, 0]\n"
    "I0219 13:29:27.119791 66221 distributed.cpp:112] [1, 64, 0, 0, 0]\n"
    "I0219 13:29:27.119799 66221 distributed.cpp:112] [2, 4096, 0, 0, 0]\n"
    "I0219 13:29:27.119807 66221 distributed.cpp:112] [3, 64, 0, 0, 0]\n"
    "I0219 13:29:33.119763 66221 distributed.cpp:112] [0, 9408, 15143.7, 1169, 0]\n"
    "I0219 13:29:33.119791 66221 distributed.cpp:112] [1, 64, 15143.7, 0, 0]\n"
    "I0219 13:29:33.119799 66221 distributed.cpp:112] [2, 4096, 3825.38, 1071, 0]\n"
    "I0219 13:29:33.119807 66221 distributed.cpp:112] [3, 64, 3825.38, 0, 0]\n";

const std::string kOsu2 =
    "\n# OSU MPI Allreduce Latency Test v5.4.0\n# Size       Avg Latency(us)\n"
    "2,4                      31.92\n2,8                      32.20\n2,1048576              1839.14\n";
const std::string kOsu4 =
    "# OSU MPI Allreduce Latency Test v5.4.0\n# Size       Avg Latency(us)\n"
    "4                      54.50\n8                      50.36\n1048576              2251.96\n";

const std::string kEspresso =
    "idx_backward_order,tensor,numel,gap_us_since_previous_tensor_ready\n"
    "0,fc.bias,1000,0\n1,fc.weight,2048000,72\n2,layer4.bn.weight,2048,167\n3,layer4.bn.bias,2048,5\n"
    "4,layer4.conv.weight,1048576,10720\n";

const std::string kVtrain =
    "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n"
    "1048576,262144,float,51400,30.60,52740,29.82\n2097152,524288,float,55740,56.44,55940,56.23\n";

const std::string kTrace =
    "OperatorID,OperatorName,Operator_input,Operator_output,Operator_cudatime,Operator_cudatimenooverlap,"
    "InputSize,OutputSize,gpuid,stage,tpflag\r\n"
    "1,aten::conv2d,[4; 6],[13],1278,1273,[19267584; 9408],[102760448],0,forward,1\r\n"
    "2,aten::add_,[15; 17],[15],2,2,[1; 1],[1],0,forward,0\r\n"
    "3,aten::batch_norm,[13; 20; 22; 24; 26],[33],962,962,[102760448; 64; 64; 64; "
    "64],[102760448],0,forward,0\r\n"
    "4,aten::relu_,[33],[33],268,268,[102760448],[102760448],0,forward,0\r\n"
    "5,aten::add_,[161; 199],[161],398,398,[102760448; 102760448],[102760448],0,forward,0\r\n"
    "6,aten::relu_,[161],[161],270,270,[102760448],[102760448],0,forward,0\r\n"
    "7,aten::linear,[2160; 2161; 2163],[2171],59,51,[262144; 2048000; 1000],[128000],0,forward,1\r\n"
    "8,aten::cross_entropy_loss,[2171; 2173; 9],[2187],617,7,[128000; 128; 0],[1],0,forward,0\r\n"
    "9,aten::ones_like,[2187],[2192],1,1,[1],[1],0,forward,0\r\n"
    "10,autograd::engine::evaluate_function: NllLossBackward0,[2192; 9],[2199],80,3,[1; "
    "0],[128000],0,backward,0\r\n"
    "11,autograd::engine::evaluate_function: "
    "AddmmBackward0,[2169],[2214],236,41,[2048000],[2048000],0,backward,1\r\n"
    "12,autograd::engine::evaluate_function: "
    "ReluBackward0,[2263],[2269],53,53,[12845056],[12845056],0,backward,0\r\n"
    "13,autograd::engine::evaluate_function: "
    "ReluBackward0,[2264],[2270],54,54,[12845056],[12845056],0,backward,0\r\n"
    "14,autograd::engine::evaluate_function: CudnnBatchNormBackward0,[13; 4375; 20; 24],[4380],2151,2151,"
    "[102760448; 102760448; 64; 64],[102760448],0,backward,0\r\n"
    "15,autograd::engine::evaluate_function: ConvolutionBackward0,[4380; 4; 6],[9; 4386; 9],1110,1100,"
    "[102760448; 19267584; 9408],[0; 9408; 0],0,backward,1\r\n"
    "16,aten::_foreach_add_,[7913; 7916],[],101,98,[9408; 64],[],0,optimizer,0\r\n";

const std::string kTensors =
    "Index,TensorID,TensorShape,TensorNumElement,TensorEachByte,TensorType,TensorStorgeid,gpuid\r\n"
    "0,4,\"[128, 3, 224, 224]\",19267584,4,input,5,0\r\n"
    "1,6,\"[64, 3, 7, 7]\",9408,4,weight,7,0\r\n"
    "2,13,\"[128, 64, 112, 112]\",102760448,4,output,14,0\r\n"
    "3,15,[],1,8,input,16,0\r\n"
    "4,20,[64],64,4,weight,21,0\r\n"
    "5,22,[64],64,4,bias,23,0\r\n"
    "6,24,[64],64,4,running_mean,25,0\r\n"
    "7,2161,\"[1000, 2048]\",2048000,4,weight,2162,0\r\n"
    "8,2163,[1000],1000,4,bias=None,2164,0\r\n"
    "9,9,[],0,4,weight,9,0\r\n"
    "10,6,\"[64, 3, 7, 7]\",9408,4,input,7,0\r\n";

/// A line of NCCL's inspector; `more` follows in coll_perf.
std::string inspected_line(int rank, const std::string& collective, int number, std::int64_t bytes, double us,
                           const std::string& more = "") {
  return fmt::format(
             R"({{"header": {{"id": "0x7f", "rank": {}, "n_ranks": 4, "nnodes": 1}}, )"
             R"("metadata": {{"inspector_output_format_version": "v4.0", "hostname": "h", "pid": 5}}, )"
             R"("coll_perf": {{"coll": "{}", "coll_sn": {}, "coll_msg_size_bytes": {}, "coll_exec_time_us": {}{}}}}})",
             rank, collective, number, bytes, us, more) +
         "\n";
}

/// The log of a rank: two all-reduces of a megabyte, one of two, an all-gather and a broadcast. Rank 0 waits
/// in the first all-reduce, rank 1 in the others.
std::string inspected(int rank) {
  const bool waits = rank == 1;
  return inspected_line(rank, "AllReduce", 1, 1'000'000, waits ? 100 : 900) +
         inspected_line(rank, "AllReduce", 2, 1'000'000, waits ? 700 : 120) +
         inspected_line(rank, "AllReduce", 3, 2'000'000, waits ? 700 : 210) +
         inspected_line(rank, "AllGather", 1, 250'000, waits ? 300 : 60) +
         inspected_line(rank, "Broadcast", 1, 1'000'000, 50);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

ImportOptions with_batch(std::int64_t batch_size = 64) { return {.batch_size = batch_size}; }

core::Profile profile_of(const std::vector<LogFile>& logs, const ImportOptions& options) {
  return std::get<core::Profile>(import_logs(logs, options).value);
}
core::Profile profile_of(const std::string& text, const ImportOptions& options = with_batch()) {
  return profile_of(std::vector<LogFile>{{"logs/x.log", text}}, options);
}
core::Network network_of(const std::vector<LogFile>& logs, const ImportOptions& options = {}) {
  return std::get<core::Network>(import_logs(logs, options).value);
}

void check_refused(const std::vector<LogFile>& logs, const std::string& message,
                   const ImportOptions& options = with_batch()) {
  CHECK_THROWS_WITH_AS(import_logs(logs, options), message.c_str(), core::InputError);
}
void check_refused(const std::string& text, const std::string& message,
                   const ImportOptions& options = with_batch()) {
  CAPTURE(text);
  check_refused(std::vector<LogFile>{{"x.log", text}}, message, options);
}

/// Adds a byte order mark, DOS line ends, blanks before them, and blank lines.
std::string disguised(const std::string& text) {
  std::string out = "\xEF\xBB\xBF";
  for (const char c : text) out += c == '\n' ? std::string(" \r\n\r\n") : std::string(1, c);
  return out;
}

// ---- all formats

TEST_CASE("import: the formats have names and say what they are") {
  std::string names;
  for (const ImportFormat& format : import_formats()) {
    names += std::string(format.name) + " ";
    CHECK_FALSE(format.summary.empty());
  }
  CHECK(names ==
        "b-caffe b-caffe-all-reduce csv espresso nccl-inspector nccl-table nccl-tests osu triosim vtrain ");
}

TEST_CASE("import: each format is recognised from its text, and only it") {
  const std::pair<std::string, std::string> samples[] = {
      {"b-caffe", kBCaffe}, {"osu", kOsu2},        {"espresso", kEspresso},         {"vtrain", kVtrain},
      {"triosim", kTrace},  {"triosim", kTensors}, {"nccl-inspector", inspected(0)}};
  for (const auto& sample : samples)
    for (const ImportFormat& format : import_formats()) {
      CAPTURE(sample.first);
      CAPTURE(format.name);
      CHECK(format.recognises(sample.second, "x") == (format.name == sample.first));
      CHECK(format.recognises(disguised(sample.second), "x") == (format.name == sample.first));
    }
}

const std::string kKinds =
    "expected a trace of the PyTorch profiler (JSON, also gzip), a PyTorch execution trace, an SQLite export "
    "of "
    "Nsight Systems, or a log in one of the formats ";

TEST_CASE("import: what is no log, several kinds of logs, or none is refused") {
  check_refused("hello\n",
                "x.log: /: " + kKinds + support::listed(traces::import_formats()) + ", got none of them");
  check_refused(
      R"({"format": "fusewise.scenario", "version": 1})",
      "x.log: /: " + kKinds + support::listed(traces::import_formats()) + ", got a fusewise.scenario file");
  check_refused("", "x.log: /: " + kKinds + support::listed(traces::import_formats()) + ", got none of them");
  check_refused({{"a.log", kOsu2}, {"b.log", kVtrain}},
                "b.log: /: expected the format osu, as in a.log, got vtrain");
  check_refused(std::vector<LogFile>{}, "import: expected at least one log, got none");
  check_refused({{"a.log", kEspresso}, {"b.log", kEspresso}},
                "b.log: /: expected one log at a time in this format, got a second one");
  check_refused(kOsu2,
                "--format: expected one of " + support::listed(traces::import_formats()) +
                    ", got 'oso', did you mean 'osu'?",
                {.format = "oso"});
  check_refused(kOsu2, "x.log: /: expected rows `[index, elements, backward_us, ...]`, got none",
                {.format = "b-caffe"});
  check_refused(kOsu2, "x.log: /: expected the header of idx,tensor,numel,gap_us, got no such line",
                {.format = "espresso"});
  check_refused(
      {{"a\nb.log", "hello"}},
      "a\\u000ab.log: /: " + kKinds + support::listed(traces::import_formats()) + ", got none of them");
}

TEST_CASE("import: options out of range are refused") {
  check_refused(kBCaffe, "--forward-ratio: expected a number from 0 to 1000000, got -0.5",
                {.batch_size = 1, .forward_ratio = -0.5});
  check_refused(kBCaffe, "--forward-ratio: expected a number from 0 to 1000000, got nan",
                {.batch_size = 1, .forward_ratio = std::numeric_limits<double>::quiet_NaN()});
  check_refused(kBCaffe, "--batch: expected a number from 0 to 1000000000000, got -3", {.batch_size = -3});
  check_refused(kOsu4, "--workers: expected a number from 0 to 1000000, got 1000001", {.workers = 1000001});
  check_refused(kOsu4, "--line-rate-gbps: expected a number from 0 to 1000000000000, got -1",
                {.line_rate_gbps = -1});
}

TEST_CASE("import: a violation that only the whole shows is found by reading the result back") {
  check_refused(
      replaced(replaced(kEspresso, "10720", "1e12"), "fc.weight,2048000,72", "fc.weight,2048000,1e12"),
      "x.log: /layers/0/forward_us: expected a number from 0 to 1000000000000, got 2000000000000.0",
      {.batch_size = 1, .forward_ratio = 2});
  check_refused("[0, 5, 0, 0]\n[1, 5, 0, 0]\n",
                "x.log: /layers: expected layers with a total time above 0, got 0 us in all");
}

// ---- b-caffe

TEST_CASE("b-caffe: the last run, with a layer's backward time counted once") {
  const core::Profile profile = profile_of(
      kBCaffe, {.model = "googlenet", .batch_size = 64, .device = "K80", .tensors = Grouping::layer});
  const core::Profile expected = {
      .model = "googlenet",
      .batch_size = 64,
      .dtype = core::Dtype::float32,
      .device = "K80",
      .origin = {.kind = core::OriginKind::measured,
                 .source =
                     "B-Caffe layer log x.log, run 2 of 2; backward is measured; ASSUMED, as the log holds "
                     "neither: forward takes 0.5 of backward, layer by layer, and the batch size is 64"},
      .layers = {{.name = "layer1",
                  .kind = "unknown",
                  .forward_us = 15143.7 / 2,
                  .backward_us = 15143.7,
                  .tensors = {{.name = "layer1", .elements = 9472}}},
                 {.name = "layer2",
                  .kind = "unknown",
                  .forward_us = 3825.38 / 2,
                  .backward_us = 3825.38,
                  .tensors = {{.name = "layer2", .elements = 4160}}}}};
  CHECK(profile == expected);
}

TEST_CASE("b-caffe-all-reduce: the last run's own times, a bias without one travelled with its weight") {
  // two layers of 12 elements, one whose bias travels alone, and one all-reduce that took no time
  const std::string log =
      "[0, 10, 5, 100]\n[1, 2, 5, 0]\n[2, 10, 5, 300]\n[3, 2, 5, 0]\n[4, 20, 5, 400]\n[5, 2, 5, 50]\n"
      "[6, 7, 5, 0]\n[7, 1, 5, 0]\n";
  const auto series =
      traces::read_measurements({{"x.log", log}}, {.format = "b-caffe-all-reduce", .workers = 8}).series;
  REQUIRE(series.size() == 1);
  CHECK(series[0].workers == 8);
  CHECK(series[0].points == std::vector<std::pair<double, double>>{{8, 50}, {48, 200}, {80, 400}});
  check_refused("[0, 10, 5, 0]\n[1, 2, 5, 0]\n", "x.log: /: expected all-reduce times above 0, got none",
                {.format = "b-caffe-all-reduce", .workers = 8});
}

TEST_CASE("b-caffe: weight and bias stay apart if wanted, and are ready together") {
  const core::Profile profile = profile_of(kBCaffe);
  CHECK(profile.model == "x");
  CHECK(profile.device == "unknown");
  CHECK(profile.layers[1].tensors ==
        std::vector<core::ProfileTensor>{{.name = "layer2.weight", .elements = 4096},
                                         {.name = "layer2.bias", .elements = 64}});
  CHECK(core::backward_us(profile) == doctest::Approx(15143.7 + 3825.38));
}

TEST_CASE("b-caffe: a last run that was cut off is passed over") {
  const std::string cut =
      kBCaffe + "I0219 13:29:39.119763 66221 distributed.cpp:112] [0, 9408, 7, 1169, 0]\n";
  CHECK(profile_of(cut).layers == profile_of(kBCaffe).layers);
  CHECK(profile_of(cut).origin.source.find("run 2 of 3") != std::string::npos);
}

TEST_CASE("b-caffe: rows of four numbers, without a prefix, and in disguise") {
  const std::string plain = "[0, 10, 5, 0]\n[1, 2, 5, 0]\n";
  CHECK(core::backward_us(profile_of(plain)) == 5);
  CHECK(profile_of(disguised(kBCaffe)) == profile_of(kBCaffe));
  CHECK(profile_of("[INFO] starting\n" + plain + "[12 files]\nbye [1] [2]\n").layers ==
        profile_of(plain).layers);
}

TEST_CASE("b-caffe: layers are numbered with as many digits as the last needs") {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "[" + std::to_string(i) + ", 5, " + std::to_string(i / 2 + 1) + ", 0]\n";
  const core::Profile profile = profile_of(text);
  CHECK(profile.layers.front().name == "layer01");
  CHECK(profile.layers.back().name == "layer10");
}

TEST_CASE("b-caffe: what is wrong with a row is said with its line") {
  check_refused(replaced(kBCaffe, "15143.7", "15143,7"),
                "x.log:6: expected a backward time in us, a number from 0 to 1000000000000, got '15143,7'");
  check_refused("[0, 10, 5,5, 0]\n[1, 2, 5,5, 0]\n",
                "x.log:1: expected a backward time in us, a number from 0 to 1000000000000, got '5,5'");
  check_refused(replaced(kBCaffe, "[3, 64, 0, 0, 0]", "[4, 64, 0, 0, 0]"),
                "x.log:5: expected index 3, or 0 for a new run, got '4'");
  check_refused(replaced(kBCaffe, "[0, 9408, 0, 0, 0]", "[1, 9408, 0, 0, 0]"),
                "x.log:2: expected index 0, got '1'");
  check_refused(
      replaced(kBCaffe, "[3, 64, 3825.38", "[3, 64, 3825.39"),
      "x.log:9: expected the backward time of the row above, 3825.38, as weight and bias share it, got "
      "3825.39");
  check_refused("[0, 10, 5, 0]\n", "x.log:1: expected a row for the bias after this one, got none");
  check_refused("[0, 10, 5, 0]\n[1, 2, 5, 0",
                "x.log:2: expected a row that ends with ']', got '[1, 2, 5, 0'");
  check_refused("[0, 10, 5, 0]\n[1, 2, 5, 0, 0]\n",
                "x.log:2: expected 4 numbers, as in the rows above, got '[1, 2, 5, 0, 0]'");
  check_refused(
      "[0, 10, 5]\n",
      "x.log:1: expected [index, elements, backward_us, allreduce_us] or one number more, got '[0, 10, "
      "5]'");
  check_refused("[0, 0, 5, 0]\n[1, 2, 5, 0]\n",
                "x.log:1: expected elements, an integer from 1 to 1000000000000, got '0'");
  check_refused("[0, 10, -5, 0]\n",
                "x.log:1: expected a backward time in us, a number from 0 to 1000000000000, got '-5'");
  check_refused("[0, 10, nan, 0]\n",
                "x.log:1: expected a backward time in us, a number from 0 to 1000000000000, got 'nan'");
  check_refused("[0, 10, 5, inf]\n",
                "x.log:1: expected an all-reduce time in us, a number from 0 to 1000000000000, got 'inf'");
  check_refused("[0, 9.5, 5, 0]\n",
                "x.log:1: expected elements, an integer from 1 to 1000000000000, got '9.5'");
  check_refused(kBCaffe,
                "x.log: /: expected a batch size (--batch N), which this log does not hold, got none", {});
}

// ---- osu

TEST_CASE("osu: several logs are one network, ordered by workers") {
  const core::Network network = network_of({{"logs/allreduce4.log", kOsu4}, {"logs/allreduce2.log", kOsu2}},
                                           {.network_name = "n", .line_rate_gbps = 10});
  CHECK(network.name == "n");
  CHECK(network.line_rate_gbps == 10.0);
  CHECK(network.origin.source ==
        "OSU MPI all-reduce latency, average of all ranks: allreduce2.log (2 workers), allreduce4.log (4 "
        "workers)");
  REQUIRE(network.measured.size() == 2);
  CHECK(network.measured[0].workers == 2);
  CHECK(network.measured[0].curve == core::CostCurve::through({{4, 31.92}, {8, 32.2}, {1048576, 1839.14}}));
  CHECK(network.measured[1].workers == 4);
  CHECK(network.measured[1].curve == core::CostCurve::through({{4, 54.5}, {8, 50.36}, {1048576, 2251.96}}));
  CHECK(network.measured[1].collective == core::CollectiveKind::all_reduce);
  CHECK_FALSE(network.measured[1].algorithm.has_value());
  REQUIRE(network.measured[1].fit.has_value());
  CHECK(network.measured[1].fit->max_relative_error < 0.05);
}

TEST_CASE("osu: the line that is continued beyond the measured sizes spans a quarter of them") {
  // 1000 and 1001 bytes differ by noise; the line through both would fall to nothing.
  const core::Network network = network_of(
      {{"allreduce2.log", "# OSU MPI Allreduce Latency Test\n100 1\n750 6\n751 9\n1000 9\n1001 8\n"}}, {});
  CHECK(network.measured[0].curve == core::CostCurve::through({{100, 1}, {750, 6}, {1001, 8}}));
}

TEST_CASE("osu: the number of workers comes from a column, an option or the file's name") {
  CHECK(network_of({{"x.log", kOsu2}}).measured[0].workers == 2);
  CHECK(network_of({{"x.log", kOsu2}}, {.workers = 2}).measured[0].workers == 2);
  CHECK(network_of({{"run7/allreduce.4.log", kOsu4}}).measured[0].workers == 4);
  CHECK(network_of({{"allreduce4.log", kOsu4}}, {.workers = 16}).measured[0].workers == 16);
  CHECK(network_of({{"allreduce4.log", kOsu4}}).name == "allreduce4");
  check_refused(kOsu2, "x.log:4: expected 3 nodes, as --workers says, got '2'", {.workers = 3});
  check_refused(
      kOsu4,
      "x.log: /: expected the number of workers, 1 to 1000000, as --workers N or as the one number in the "
      "file's name, got neither");
  check_refused(
      {{"osu5-4.log", kOsu4}},
      "osu5-4.log: /: expected the number of workers, 1 to 1000000, as --workers N or as the one number in "
      "the file's name, got a name without such a number");
  check_refused(
      {{"a9999999.log", kOsu4}},
      "a9999999.log: /: expected the number of workers, 1 to 1000000, as --workers N or as the one number "
      "in the file's name, got 9999999");
  check_refused({{"a4.log", kOsu4}, {"b4.log", kOsu4}},
                "b4.log: /: expected one table of all_reduce for each number of workers: keep one of the "
                "tables, got a second one for 4, after a4.log");
}

TEST_CASE("osu: full reports, disguises, and a single size without a fit") {
  const std::string full =
      "# OSU MPI Allreduce Latency Test v7.0\n# Size  Avg Latency(us)  Min  Max  Iterations\n"
      "4   54.50  50.00  60.00  1000\n8   50.36  50.00  60.00  1000\n";
  CHECK(network_of({{"a4.log", full}}).measured[0].curve ==
        core::CostCurve::through({{4, 54.5}, {8, 50.36}}));
  CHECK(network_of({{"x", "mpirun: 2 warnings\n" + disguised(kOsu2) + "bye\n"}}).measured ==
        network_of({{"x", kOsu2}}).measured);
  const core::Network one = network_of({{"a4", "# OSU MPI Allreduce Latency Test\n4 54.5\n"}});
  CHECK(one.measured[0].curve.us(1e6) == 54.5);
  CHECK_FALSE(one.measured[0].fit.has_value());
}

TEST_CASE("osu: what is wrong with a row is said with its line") {
  check_refused(replaced(kOsu2, "31.92", "31,92"),
                "x.log:4: expected a time, a number from 1e-06 to 1000000000000, got '31,92'");
  check_refused(
      replaced(kOsu2, "2,8 ", "2,8,0 "),
      "x.log:5: expected bytes and an average latency in us, got '2,8,0                      32.20'");
  check_refused(replaced(kOsu2, "2,8 ", "3,8 "),
                "x.log:5: expected the nodes of the first row in every row, got '3'");
  check_refused(replaced(kOsu2, "2,8 ", "8 "),
                "x.log:5: expected the nodes of the first row in every row, got ''");
  check_refused(replaced(kOsu2, "2,8 ", "2,4 "),
                "x.log:5: expected more bytes than in the row above, 4, got '4'");
  check_refused(replaced(kOsu2, "32.20", ""),
                "x.log:5: expected bytes and an average latency in us, got '2,8'");
  check_refused(replaced(kOsu2, "32.20", "0"),
                "x.log:5: expected a time, a number from 1e-06 to 1000000000000, got '0'");
  check_refused(replaced(kOsu2, "2,8 ", "x,8 "),
                "x.log:5: expected a row of bytes and an average latency in us, as there are more below, got "
                "'x,8                      32.20'");
  check_refused(replaced(kOsu2, "Allreduce", "Bcast"),
                "x.log:2: expected OSU's Allreduce Latency Test, got '# OSU MPI Bcast Latency Test v5.4.0'");
  check_refused("# OSU MPI Allreduce Latency Test v5.4.0\n",
                "x.log: /: expected rows of bytes and an average latency in us, got none");
  check_refused(replaced(kOsu2, "2,4 ", "0,4 "),
                "x.log:4: expected nodes, an integer from 1 to 1000000, got '0'");
}

// ---- espresso

TEST_CASE("espresso: raw gaps, turned round into forward order, a layer per module") {
  const core::Profile profile = profile_of(kEspresso, {.batch_size = 32, .forward_ratio = 0.25});
  CHECK(profile.batch_size == 32);
  CHECK(profile.layers == std::vector<core::ProfileLayer>{
                              {.name = "layer4.conv",
                               .kind = "unknown",
                               .forward_us = 2680,
                               .backward_us = 10720,
                               .tensors = {{"layer4.conv.weight", 1048576, 10720}}},
                              {.name = "layer4.bn",
                               .kind = "unknown",
                               .forward_us = 43,
                               .backward_us = 172,
                               .tensors = {{"layer4.bn.bias", 2048, 5}, {"layer4.bn.weight", 2048, 167}}},
                              {.name = "fc",
                               .kind = "unknown",
                               .forward_us = 18,
                               .backward_us = 72,
                               .tensors = {{"fc.weight", 2048000, 72}, {"fc.bias", 1000, 0}}}});
  CHECK(
      profile.origin.source ==
      "Espresso gradient-ready trace x.log; backward is the raw gaps between gradients becoming ready on the "
      "host of a running job, from the first one on; ASSUMED, as the log holds neither: forward takes 0.25 "
      "of "
      "backward, layer by layer, and the batch size is 32");
  CHECK(profile_of(disguised(kEspresso)) == profile_of(kEspresso));
  CHECK(profile_of("# made by hand\n" + kEspresso + "total\n") == profile_of(kEspresso));
}

TEST_CASE("espresso: layers whose tensors merge lose the parts") {
  const core::Profile profile = profile_of(kEspresso, {.batch_size = 1, .tensors = Grouping::layer});
  CHECK(profile.layers[1].tensors ==
        std::vector<core::ProfileTensor>{{.name = "layer4.bn", .elements = 4096}});
  CHECK(profile.layers[1].backward_us == 172);
}

TEST_CASE("espresso: a module that comes again gets a name of its own") {
  const core::Profile profile = profile_of(
      "idx,tensor,numel,gap_us\n0,a.x,1,1\n1,b#2.x,1,1\n2,b.x,1,1\n3,a.y,1,1\n4,b.y,1,1\n5,a.z,1,1\n6,plain,"
      "1,1\n");
  std::string names;
  for (const core::ProfileLayer& layer : profile.layers) names += layer.name + " ";
  CHECK(names == "plain a b a#2 b#2 b#2#2 a#3 ");
}

TEST_CASE("espresso: a name in quotes may hold a comma and a quote") {
  const core::Profile profile = profile_of("idx,tensor,numel,gap_us\n0,\"a,\"\"b\"\".w\",1,1\n");
  CHECK(profile.layers[0].name == "a,\"b\"");
  CHECK(profile.layers[0].tensors[0].name == "a,\"b\".w");
}

TEST_CASE("espresso: what is wrong with a row is said with its line") {
  check_refused(replaced(kEspresso, "1,fc.weight", "2,fc.weight"), "x.log:3: expected index 1, got '2'");
  check_refused(replaced(kEspresso, "fc.weight", "fc.bias"),
                "x.log:3: expected a tensor that no row above names, got 'fc.bias'");
  check_refused(replaced(kEspresso, "fc.weight", ""), "x.log:3: expected a tensor's name, got ''");
  check_refused(replaced(kEspresso, "2048000", "0"),
                "x.log:3: expected elements, an integer from 1 to 1000000000000, got '0'");
  check_refused(replaced(kEspresso, ",72", ",-72"),
                "x.log:3: expected a gap in us, a number from 0 to 1000000000000, got '-72'");
  check_refused(replaced(kEspresso, ",72", ",7,2"), "x.log:3: expected 4 fields, got 5");
  check_refused(replaced(kEspresso, "fc.weight", "\"fc.weight"),
                "x.log:3: expected a closing '\"', got '1,\"fc.weight,2048000,72'");
  check_refused(replaced(kEspresso, "fc.weight", "\"fc\".weight"),
                "x.log:3: expected a comma after a quoted field, got '.weight,2048000,72'");
  check_refused(
      "idx,tensor,numel,gap_us,more\n0,a,1,1,1\n",
      "x.log:1: expected the 4 columns idx,tensor,numel,gap_us, got 'idx,tensor,numel,gap_us,more'");
  check_refused("idx,tensor,numel,gap_us\n", "x.log: /: expected rows of idx,tensor,numel,gap_us, got none");
  check_refused(kEspresso,
                "x.log: /: expected a batch size (--batch N), which this log does not hold, got none", {});
}

// ---- nccl-table

TEST_CASE("nccl-table: curves of a machine, in bytes and microseconds, of the preferred element type") {
  const LogFile table = {.path = "h100.csv",
                         .text =
                             "collective,dtype,gpus,elements,ms\n"
                             "all_reduce,int8,2,256,0.5\n"
                             "all_reduce,half,2,256,0.00618\n"
                             "all_reduce,half,2,512,0.007\n"
                             "alltoall,half,2,256,0.1\n"
                             "all_gather,half,4,256,0.01\n"};
  const core::Network network = network_of({table});
  REQUIRE(network.measured.size() == 2);
  CHECK(network.measured[0].workers == 2);
  CHECK(network.measured[0].curve.points() == std::vector<std::pair<double, double>>{{512, 6.18}, {1024, 7}});
  CHECK(network.measured[1].collective == core::CollectiveKind::all_gather);
  CHECK(network.measured[1].workers == 4);
  const std::string header = "collective,dtype,gpus,elements,ms\n";
  check_refused(header + "all_reduce,double,2,256,1\n",
                "x.log:2: expected an element type: half, bfloat16, float or int8, got 'double'");
  check_refused(header + "alltoall,half,2,256,1\n",
                "x.log: /: expected rows of all_reduce, reduce_scatter or all_gather, got none");
}

// ---- vtrain

TEST_CASE("vtrain: out-of-place nanoseconds, workers from the file's name") {
  const core::Network network =
      network_of({{"A100_AR_GPU4_1M_1024M_LUT", kVtrain}}, {.network_name = "a100x4"});
  CHECK(network.name == "a100x4");
  CHECK(network.origin.source ==
        "vTrain NCCL all-reduce, out-of-place time: A100_AR_GPU4_1M_1024M_LUT (4 workers)");
  REQUIRE(network.measured.size() == 1);
  CHECK(network.measured[0].workers == 4);
  CHECK(network.measured[0].curve == core::CostCurve::through({{1048576, 51.4}, {2097152, 55.74}}));
  CHECK(network_of({{"x_GPU4", disguised(kVtrain)}}).measured == network.measured);
  CHECK(network_of({{"x", kVtrain}}, {.workers = 4}).measured == network.measured);
}

TEST_CASE("vtrain: bus bandwidths give away a wrong number of workers") {
  check_refused({{"A100_AR_GPU8_1M", kVtrain}},
                "A100_AR_GPU8_1M:2: expected a bus bandwidth of 35.70 GB/s on 8 workers, got '30.60'");
  check_refused(
      kVtrain,
      "x.log: /: expected the number of workers, 1 to 1000000, as --workers N or as the one number after "
      "GPU in the file's name, got neither");
}

TEST_CASE("vtrain: what is wrong with a row is said with its line") {
  const auto refused = [](const std::string& from, const std::string& to, const std::string& message) {
    check_refused({{"GPU4", replaced(kVtrain, from, to)}}, message);
  };
  refused("51400", "51,4", "GPU4:2: expected 7 fields, got 8");
  refused("51400", "0", "GPU4:2: expected a time, a number from 0.001 to 1e+15, got '0'");
  refused("1048576", "1 MiB", "GPU4:2: expected bytes, an integer from 0 to 8000000000000000, got '1 MiB'");
  refused("2097152", "1048576", "GPU4:3: expected more bytes than in the row above, 1048576, got '1048576'");
  refused("56.44", "-",
          "GPU4:3: expected a bus bandwidth in GB/s, a number from 0 to 1000000000000, got '-'");
}

// ---- triosim

TEST_CASE("triosim: forward operators are layers, backward operators go to theirs") {
  const core::Profile profile =
      profile_of({{"t/trace.csv", kTrace}, {"t/tensor.csv", kTensors}}, {.model = "resnet"});
  CHECK(profile.batch_size == 128);
  CHECK(
      profile.layers ==
      std::vector<core::ProfileLayer>{
          {.name = "conv2d_1",
           .kind = "conv2d",
           .forward_us = 1273,
           .backward_us = 1100,
           .tensors = {{.name = "conv2d_1.weight", .elements = 9408}}},
          {.name = "batch_norm_1",
           .kind = "batch_norm",
           .forward_us = 964,  // with the counter before it
           .backward_us = 2151,
           .tensors = {{.name = "batch_norm_1.weight", .elements = 64},
                       {.name = "batch_norm_1.bias", .elements = 64}}},
          {.name = "relu_1", .kind = "relu", .forward_us = 268, .backward_us = 54},
          {.name = "add_1", .kind = "add", .forward_us = 398},
          {.name = "relu_2", .kind = "relu", .forward_us = 270, .backward_us = 53},
          {.name = "linear_1",
           .kind = "linear",
           .forward_us = 51,
           .backward_us = 41,
           .tensors = {{.name = "linear_1.weight", .elements = 2048000},
                       {.name = "linear_1.bias", .elements = 1000}}},
          {.name = "cross_entropy_loss_1", .kind = "cross_entropy_loss", .forward_us = 7, .backward_us = 4}});
  CHECK(
      profile.origin.source ==
      "TrioSim operator trace trace.csv with tensor table tensor.csv; times are sums of kernels; spans from "
      "an "
      "operator's first kernel to its last, in which the GPU also waits for the traced host, add up to 3855 "
      "us "
      "forward and 3684 us backward; optimizer 98 us, not part of the layers; backward operators that belong "
      "to no layer: none");
}

TEST_CASE("triosim: the two files in either order, and both are needed") {
  const core::Profile profile = profile_of({{"a", kTrace}, {"b", kTensors}}, {});
  CHECK(profile_of({{"b", kTensors}, {"a", kTrace}}, {}) == profile);
  CHECK(profile_of({{"a", disguised(kTrace)}, {"b", disguised(kTensors)}}, {}) == profile);
  CHECK(profile_of({{"a", kTrace}, {"b", kTensors}}, with_batch(7)).batch_size == 7);
  check_refused(kTrace, "x.log: /: expected a tensor table beside this operator trace, got none");
  check_refused(kTensors, "x.log: /: expected an operator trace beside this tensor table, got none");
  check_refused({{"a", kTrace}, {"b", kTrace}},
                "b: /: expected one operator trace and one tensor table, got a second one");
}

TEST_CASE("triosim: convolutions and batch norms are matched by weight, others from the last one back") {
  // The second convolution's backward comes first here, as it names the second weight.
  const std::string trace =
      "OperatorID,OperatorName,Operator_input,Operator_cudatime,Operator_cudatimenooverlap,InputSize,gpuid,"
      "stage\n"
      "1,aten::conv2d,[1; 2],9,1,[8; 5],0,forward\n2,aten::conv2d,[3; 4],9,2,[8; 6],0,forward\n"
      "3,x: ConvolutionBackward0,[7; 4],9,10,[8; 6],0,backward\n"
      "4,evaluate_function: ConvolutionBackward0,[7; 2],9,20,[8; 5],0,backward\n"
      "5,evaluate_function: ConvolutionBackward0,[7; 4],9,30,[8; 6],0,backward\n"
      "6,evaluate_function: ConvolutionBackward0,[7; 4],9,40,[8; 6],0,backward\n"
      "7,evaluate_function: ReluBackward0,[7],9,50,[8],0,backward\n";
  const std::string tensors =
      "Index,TensorID,TensorShape,TensorNumElement,TensorType\n"
      "0,2,[5],5,weight\n1,4,[6],6,weight\n";
  const core::Profile profile = profile_of({{"a", trace}, {"b", tensors}}, with_batch());
  CHECK(profile.layers[0].backward_us == 20);
  CHECK(profile.layers[1].backward_us == 30);
  // Time that belongs to no layer is left out and reported: an unknown name, a second backward of one weight,
  // no relu.
  CHECK(profile.origin.source.find("belong to no layer: 3, 100 us in all, among them evaluate_function: "
                                   "ConvolutionBackward0") != std::string::npos);
}

TEST_CASE("triosim: a shared weight is one tensor, of its first use, and a layer without backward is told") {
  const std::string trace =
      "OperatorID,OperatorName,Operator_input,Operator_cudatime,Operator_cudatimenooverlap,InputSize,gpuid,"
      "stage\n"
      "1,aten::embedding,[2; 1],9,1,[8; 5],0,forward\n2,aten::linear,[3; 2],9,2,[8; 6],0,forward\n";
  const std::string tensors = "Index,TensorID,TensorShape,TensorNumElement,TensorType\n0,2,[5],5,weight\n";
  const core::Profile profile = profile_of({{"a", trace}, {"b", tensors}}, with_batch());
  CHECK(profile.layers[0].tensors ==
        std::vector<core::ProfileTensor>{{.name = "embedding_1.weight", .elements = 5}});
  CHECK(profile.layers[1].tensors.empty());
  CHECK(profile.origin.source.find("layers with tensors but without a backward operator: 1") !=
        std::string::npos);
}

TEST_CASE("triosim: what is wrong with a row is said with its file and line") {
  const auto trace_refused = [](const std::string& from, const std::string& to, const std::string& message) {
    check_refused({{"a", replaced(kTrace, from, to)}, {"b", kTensors}}, message);
  };
  const auto table_refused = [](const std::string& from, const std::string& to, const std::string& message) {
    check_refused({{"a", kTrace}, {"b", replaced(kTensors, from, to)}}, message);
  };
  trace_refused("1278,1273", "1278,-1",
                "a:2: expected a time in us, a number from 0 to 1000000000000, got '-1'");
  trace_refused("1278,1273", "1278,1273,5", "a:2: expected 11 fields, got 12");
  trace_refused("0,forward,1", "0,sideways,1",
                "a:2: expected stage forward, backward or optimizer, got 'sideways'");
  trace_refused("0,forward,0", "1,forward,0", "a:3: expected one GPU, 0 as above, got '1'");
  trace_refused("[4; 6]", "[4; x]",
                "a:2: expected a number in a list, an integer from 0 to 8000000000000000, got 'x'");
  trace_refused("[4; 6]", "4; 6", "a:2: expected a list [a; b; ...], got '4; 6'");
  trace_refused(
      ",stage", ",phase",
      "a:1: expected a column stage, got 'OperatorID,OperatorName,Operator_input,Operator_output,Opera...'");
  table_refused("9408", "many", "b:3: expected elements, an integer from 0 to 1000000000000, got 'many'");
  table_refused("\"[64, 3, 7, 7]\"", "[64, 3, 7, 7]", "b:3: expected 8 fields, got 11");
  table_refused("9,9,[],0", "9,6,[],8", "b:11: expected 9408 elements, as tensor 6 had above, got '8'");
  const std::string no_batch =
      "a: /: expected a batch size (--batch N), which this log does not hold, got none";
  check_refused({{"a", kTrace}, {"b", replaced(kTensors, "\"[128, 3, 224, 224]\"", "[]")}}, no_batch, {});
  check_refused({{"a", replaced(kTrace, "[4; 6]", "[6; 4]")}, {"b", kTensors}}, no_batch, {});
}

// ---- any text at all

/// Imports or throws InputError; anything else fails the test.
void import_or_refuse(const std::vector<LogFile>& logs) {
  try {
    (void)import_logs(logs, {.batch_size = 1, .workers = 4});
  } catch (const core::InputError& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
}

TEST_CASE("nccl-inspector: the shortest time of all ranks counts, then the median of collectives of a size") {
  const core::Network network = network_of({{"r0.jsonl", inspected(0)}, {"r1.jsonl", inspected(1)}});
  REQUIRE(network.measured.size() == 2);
  CHECK(network.measured[0].collective == core::CollectiveKind::all_reduce);
  CHECK(network.measured[0].workers == 4);
  CHECK_FALSE(network.measured[0].algorithm.has_value());
  CHECK(network.measured[0].curve.points() == std::vector<std::pair<double, double>>{{1e6, 110}, {2e6, 210}});
  CHECK(network.measured[1].collective == core::CollectiveKind::all_gather);
  CHECK(network.measured[1].curve.points() == std::vector<std::pair<double, double>>{{1e6, 60}});  // 4 shares
}

TEST_CASE("nccl-inspector: format v4.2 names the algorithm, and curves of each stay apart") {
  const std::string log =
      inspected_line(0, "AllReduce", 1, 1000, 7, R"(, "coll_algo": "RING", "coll_proto": "LL")") +
      inspected_line(0, "AllReduce", 2, 1000, 5, R"(, "coll_algo": "TREE", "coll_proto": "LL")");
  const core::Network network = network_of({{"r0.jsonl", log}});
  REQUIRE(network.measured.size() == 2);
  CHECK(network.measured[0].algorithm == "double_binary_tree");
  CHECK(network.measured[1].algorithm == "ring");
}

TEST_CASE("nccl-inspector: a wrong line is refused with its place") {
  check_refused(replaced(inspected(0), "\"n_ranks\": 4", "\"n_ranks\": 0"),
                "x.log:1: /header/n_ranks: expected an integer from 1 to 1000000, got 0");
  check_refused(inspected(0) + "broken\n",
                "x.log:6: expected a JSON object of NCCL's inspector, got 'broken'");
  check_refused(
      inspected_line(0, "Broadcast", 1, 1000, 7),
      "x.log: /: expected all-reduces, reduce-scatters or all-gathers of two ranks or more, got none");
}

TEST_CASE("import: a log cut off anywhere, or with a byte changed, is read or refused in one line") {
  const std::string samples[] = {kBCaffe, kOsu4, kEspresso, kVtrain, inspected(1)};
  for (const std::string& sample : samples)
    for (std::size_t size = 0; size <= sample.size(); ++size)
      import_or_refuse({{"x", sample.substr(0, size)}});
  for (unsigned seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (const std::string& sample : samples) {
      std::string changed = sample;
      changed[random() % changed.size()] = static_cast<char>(random() % 256);
      import_or_refuse({{"x", changed}});
    }
    std::string trace = kTrace;
    std::string tensors = kTensors;
    trace[random() % trace.size()] = static_cast<char>(random() % 256);
    tensors[random() % tensors.size()] = static_cast<char>(random() % 256);
    import_or_refuse({{"x", trace}, {"y", kTensors}});
    import_or_refuse({{"x", kTrace}, {"y", tensors}});
  }
}

}  // namespace
}  // namespace traces
