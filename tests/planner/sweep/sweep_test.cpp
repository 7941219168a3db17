// Sweeps: the axes, the order of points, the effect of each axis, and every error message verbatim.

#include "planner/sweep/sweep.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/sweep/point.hpp"

namespace sweep {
namespace {

using core::Field;
using nlohmann::json;

/// A scenario with two or four workers and two schedules, changed by a merge patch (RFC 7386).
json scenario(const std::string& patch) {
  json out = json::parse(R"({"format": "fusewise.scenario", "version": 1, "workers": [2, 4],
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 8, "dtype": "float32",
                "device": "d", "origin": {"kind": "measured", "source": "s"},
                "layers": [{"name": "l", "kind": "k", "forward_us": 2, "backward_us": 6,
                            "tensors": [{"name": "t", "elements": 1000}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "line_rate_gbps": 10,
                "origin": {"kind": "measured", "source": "s"},
                "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}},
    "schedules": ["wfbp", {"name": "grace", "compression": "dgc"}]})");
  out.merge_patch(json::parse(patch));
  return out;
}

Sweep read(const std::string& patch) { return read_sweep(Field::parse(scenario(patch).dump(), "s.json")); }

/// The row of a point as JSON.
json row(const Sweep& sweep, std::size_t point) {
  return json::parse(Computer(sweep, Rows::json_lines).compute(point).row);
}

TEST_CASE(
    "sweep: points are numbered as digits count: schedules, then workers, then the axes from the last") {
  const Sweep sweep =
      read(R"({"sweep": {"seed": [7, 8, 9], "sigma": [0, 0.5], "bandwidth_factor": [1, 4]}})");
  CHECK(sweep.points == 2 * 2 * 3 * 2 * 2);
  CHECK(size_text(sweep) == "48 points (2 bandwidth_factor x 2 sigma x 3 seed x 2 workers x 2 schedules)");
  Computer computer(sweep, Rows::json_lines);
  std::size_t point = 0;
  for (const double bandwidth : {1.0, 4.0})
    for (const double sigma : {0.0, 0.5})
      for (const int seed : {7, 8, 9})
        for (const int workers : {2, 4})
          for (const char* schedule : {"wfbp", "grace dgc"}) {
            CAPTURE(point);
            const json got = json::parse(computer.compute(point).row);
            CHECK(got.at("point") == point++);
            CHECK(got.at("bandwidth_factor") == bandwidth);
            CHECK(got.at("sigma") == sigma);
            CHECK(got.at("seed") == seed);
            CHECK(got.at("workers") == workers);
            CHECK(got.at("schedule") == schedule);
          }
}

TEST_CASE("sweep: a point is the same in whichever order points are computed") {
  const Sweep sweep = read(R"({"sweep": {"density": [0.01, 0.1], "batch_size": [4, 8]}})");
  Computer forwards(sweep, Rows::csv);
  Computer backwards(sweep, Rows::csv);
  std::vector<Record> there;
  for (std::size_t point = 0; point < sweep.points; ++point) there.push_back(forwards.compute(point));
  for (std::size_t point = sweep.points; point-- > 0;) CHECK(backwards.compute(point) == there[point]);
}

TEST_CASE("sweep: without other axes the rows are those of simulate, after the point's number") {
  const Sweep sweep = read(R"({"sweep": {"workers": [4, 2]}})");
  CHECK(header(sweep, Rows::csv).substr(0, 40) == "point,workers,schedule,pipeline,fusion,c");
  CHECK(header(sweep, Rows::json_lines).empty());
  CHECK(Computer(sweep, Rows::csv).compute(2).row.substr(0, 25) == "2,2,wfbp,wfbp,none,none,1");
}

// One layer of 8 us, 4000 bytes; ring on 2 workers: 2 alpha + bytes beta = 2 + 4 us, entirely after backward.
TEST_CASE("sweep: a row has as many columns as the header, also with memory") {
  const auto columns = [](const std::string& line) { return std::ranges::count(line, ','); };
  for (const char* patch : {R"({"sweep": {"seed": [1], "sigma": [0.1]}})",
                            R"({"sweep": {"batch_size": [4]}, "memory": {"optimizer": "adam"}})"}) {
    const Sweep sweep = read(patch);
    CHECK(columns(header(sweep, Rows::csv)) == columns(Computer(sweep, Rows::csv).compute(0).row));
  }
}

TEST_CASE("sweep: what each axis changes") {
  SUBCASE("bandwidth_factor: the time per byte alone") {
    const Sweep sweep = read(R"({"sweep": {"bandwidth_factor": [1, 4, 0.5]}})");
    CHECK(row(sweep, 0).at("iteration_us") == 8 + 2 + 4);
    CHECK(row(sweep, 4).at("iteration_us") == 8 + 2 + 1);
    CHECK(row(sweep, 8).at("iteration_us") == 8 + 2 + 8);
  }
  SUBCASE("line_rate_gbps: likewise, against the network's own") {
    const Sweep sweep = read(R"({"sweep": {"line_rate_gbps": [40, 10]}})");
    CHECK(row(sweep, 0).at("iteration_us") == 8 + 2 + 1);
    CHECK(row(sweep, 4).at("iteration_us") == 8 + 2 + 4);
  }
  SUBCASE("startup_factor: the startup alone") {
    const Sweep sweep = read(R"({"sweep": {"startup_factor": [3, 0]}})");
    CHECK(row(sweep, 0).at("iteration_us") == 8 + 6 + 4);
    CHECK(row(sweep, 4).at("iteration_us") == 8 + 0 + 4);
  }
  SUBCASE("those of the network: a topology's links, too") {
    const Sweep sweep =
        read(R"({"sweep": {"bandwidth_factor": [1, 2], "startup_factor": [1, 3], "workers": [2]},
      "schedules": ["wfbp"], "fidelity": "messages",
      "topology": {"kind": "flat", "startup_us": 1, "nic": {"bandwidth_gbps": 8}}})");
    CHECK(row(sweep, 0).at("iteration_us") == 8 + 2 * (1 + 2));
    CHECK(row(sweep, 1).at("iteration_us") == 8 + 2 * (3 + 2));
    CHECK(row(sweep, 2).at("iteration_us") == 8 + 2 * (1 + 1));
  }
  SUBCASE("batch_size: compute and what is counted as throughput") {
    const Sweep sweep = read(R"({"sweep": {"batch_size": [16]}})");
    CHECK(row(sweep, 0).at("iteration_us") == 16 + 2 + 4);
    CHECK(row(sweep, 0).at("throughput_samples_per_s") == doctest::Approx(2 * 16 / 22e-6));
  }
  SUBCASE("density: an index and a value for each element kept, of sparse compressors alone") {
    const Sweep sweep = read(R"({"sweep": {"density": [0.25], "workers": [2]},
      "schedules": ["wfbp", {"compression": "dgc"}, {"compression": "fp16"}, {"compression": "onebit"},
                    {"compression": {"name": "mine", "ratio": 0.125}}]})");
    const std::vector<double> sent = {4000, 2000, 2000, 125, 2000};
    for (std::size_t i = 0; i < sent.size(); ++i) CHECK(row(sweep, i).at("bytes_sent_per_worker") == sent[i]);
  }
  SUBCASE("sigma and seed: the jitter's") {
    const Sweep sweep = read(R"({"sweep": {"sigma": [0, 0.5], "seed": [1, 2], "workers": [2]}})");
    CHECK(row(sweep, 0).at("iteration_us") == 14);
    CHECK(row(sweep, 2).at("iteration_us") == 14);
    CHECK(row(sweep, 4).at("iteration_us") != 14);
    CHECK(row(sweep, 4).at("iteration_us") != row(sweep, 6).at("iteration_us"));
    const Sweep alone =
        read(R"({"sweep": {"seed": [2], "workers": [2]}, "jitter": {"sigma": 0.5, "seed": 1}})");
    CHECK(row(alone, 0).at("iteration_us") == row(sweep, 6).at("iteration_us"));
  }
}

/// Four layers of 1 us forward and 2 us backward, in stages.
std::string stages(const std::string& sweep,
                   const std::string& stages = R"({"schedule": "1f1b", "micro_batches": 4})",
                   const std::string& more = "") {
  json layers = json::array();
  for (const char* name : {"a", "b", "c", "d"})
    layers.push_back({{"name", name},
                      {"kind", "k"},
                      {"forward_us", 1},
                      {"backward_us", 2},
                      {"tensors", {{{"name", std::string(name) + ".w"}, {"elements", 1000}}}}});
  return R"({"workers": [4], "schedules": ["wfbp"], "profile": {"layers": )" + layers.dump() +
         R"(}, "parallel": {"pipeline": 2, "stages": )" + stages + more + R"(}, "sweep": )" + sweep + "}";
}

// m micro-batches through p stages of 4/p layers: (m + p - 1) passes of 3 * 4/p us; then each stage but the
// first has sent most of its gradients, and the first one sends its last tensor: on n workers of a data group
// an all-reduce of 4,000 bytes takes 2 (n-1) (1 + 4/n) us.
TEST_CASE("sweep: stages and micro-batches are axes where a job has stages") {
  const Sweep sweep = read(stages(R"({"pipeline_stages": [1, 2, 4], "micro_batches": [4, 8]})"));
  CHECK(sweep.points == 6);
  Computer computer(sweep, Rows::json_lines);
  for (std::size_t point = 0; point < 6; ++point) {
    CAPTURE(point);
    const json got = json::parse(computer.compute(point).row);
    const int pipeline = 1 << (point / 2);
    const int batches = point % 2 == 0 ? 4 : 8;
    CHECK(got.at("pipeline_stages") == pipeline);
    CHECK(got.at("micro_batches") == batches);
    CHECK(got.at("stages").size() == static_cast<std::size_t>(pipeline));
    const double passes = (batches + pipeline - 1) * 12.0 / pipeline;
    CHECK(got.at("iteration_us").get<double>() - got.at("exposed_communication_us").get<double>() == passes);
  }
  const Sweep slower =
      read(stages(R"({"batch_size": [8, 16]})",
                  R"({"schedule": "1f1b", "micro_batches": 4, "forward_us": 3, "backward_us": 5})"));
  const auto passes = [&](std::size_t point) {
    const json got = row(slower, point);
    return got.at("iteration_us").get<double>() - got.at("exposed_communication_us").get<double>();
  };
  CHECK(passes(0) == 5 * 8);
  CHECK(passes(1) == 5 * 16);
}

TEST_CASE("sweep: stages that no reader of scenarios takes are refused before anything runs") {
  const auto refused = [](const std::string& patch, const char* message) {
    CHECK_THROWS_WITH_AS(read(patch), message, core::InputError);
  };
  refused(R"({"sweep": {"pipeline_stages": [2]}})",
          "s.json: /sweep/pipeline_stages: expected a scenario with the key parallel and its stages, got one "
          "without");
  refused(
      stages(R"({"pipeline_stages": [2]})", R"({"schedule": "1f1b", "micro_batches": 4, "layers": [2, 2]})"),
      "s.json: /sweep/pipeline_stages: expected stages without layers, forward_us and backward_us, which "
      "hold for one number of stages, got some");
  const std::string interleaved = R"({"schedule": "interleaved", "micro_batches": 4, "virtual_stages": 2})";
  refused(stages(R"({"micro_batches": [4, 5]})", interleaved),
          "s.json: /sweep/micro_batches: expected micro-batches that are a multiple of the stages, as "
          "interleaved needs, got 5 for 2 stages");
  refused(stages(R"({"pipeline_stages": [1, 2]})", interleaved),
          "s.json: /sweep/pipeline_stages: expected 2 stages or more for interleaved, got 1");
  refused(stages(R"({"pipeline_stages": [1, 2]})", R"({"schedule": "1f1b", "micro_batches": 4})",
                 R"(, "tied_tensors": [{"tensor": "a.w", "layer": "d"}])"),
          "s.json: /sweep/pipeline_stages: expected 2 stages or more beside tied_tensors, got 1");
  refused(
      stages(R"({"pipeline_stages": [1, 3, 4]})"),
      "s.json: /sweep/pipeline_stages: expected a multiple of 3 workers, tensor 1 times pipeline 3, got 4");
  refused(stages(R"({"pipeline_stages": [1, 6, 2]})"),
          "s.json: /sweep/pipeline_stages: expected a model of at least 6 layers, one for each part, got 4");
  refused(stages(R"({"sigma": [0.1]})"),
          "s.json: /sweep/sigma: expected no sigma beside the key parallel, got an array of 1 item");
}

TEST_CASE("sweep: what is measured is drawn from each seed, without any sigma") {
  const Sweep sweep = read(R"({"sweep": {"seed": [1, 2], "workers": [2]},
    "jitter": {"distribution": "measured"}, "profile": {"layers": [{"name": "l", "kind": "k", "forward_us": 2,
      "backward_us": 6, "backward_spread_us": 1, "tensors": [{"name": "t", "elements": 1000}]}]}})");
  CHECK(row(sweep, 0).at("iteration_us") != row(sweep, 2).at("iteration_us"));
}

TEST_CASE("sweep: as many workers as in a scenario can be simulated each by itself") {
  CHECK(read(R"({"sweep": {"sigma": [1], "workers": [1000000]}, "iterations": 1400})").points == 2);
  CHECK(read(R"({"sweep": {"workers": [129099]}, "fidelity": "messages"})").points == 2);
  CHECK(read(R"({"sweep": {"workers": [1000000]}})").points == 2);
}

TEST_CASE("sweep: stragglers are warned about by the sweep's own numbers of workers") {
  const std::string straggler = R"("stragglers": [{"worker": 4, "slowdown": 2}])";
  CHECK(read("{" + straggler + R"(, "sweep": {"workers": [8]}})").base.warnings.empty());
  CHECK(read("{" + straggler + R"(, "sweep": {"batch_size": [8]}})").base.warnings.size() == 1);
}

TEST_CASE("sweep: what is refused before anything runs, word for word") {
  struct Refusal {
    std::string patch;
    std::string message;
  };
  const Refusal refusals[] = {
      {"{}",
       R"(s.json: /: expected a key "sweep" with what varies, such as {"workers": [4, 8], "line_rate_gbps": [10, 25]}, )"
       "got a scenario without"},
      {R"({"sweep": []})", "s.json: /sweep: expected an object, got an array of 0 items"},
      {R"({"sweep": {}})",
       "s.json: /sweep: expected an object of at least 1 axis, got an object with 0 keys"},
      {R"({"sweep": {"batchsize": [1]}})",
       "s.json: /sweep/batchsize: expected a key among bandwidth_factor, line_rate_gbps, startup_factor, "
       "batch_size, density, sigma, seed, pipeline_stages, micro_batches, workers, got 'batchsize', did you "
       "mean 'batch_size'?"},
      {R"({"sweep": {"batch_size": 8}})",
       "s.json: /sweep/batch_size: expected an array of at least 1 item, got 8"},
      {R"({"sweep": {"batch_size": []}})",
       "s.json: /sweep/batch_size: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"sweep": {"batch_size": [8, 0.5]}})",
       "s.json: /sweep/batch_size/1: expected an integer from 1 to 1000000000, got 0.5"},
      {R"({"sweep": {"bandwidth_factor": [0]}})",
       "s.json: /sweep/bandwidth_factor/0: expected a number from 1e-06 to 1000000, got 0"},
      {R"({"sweep": {"seed": [1, 2, 1]}})",
       "s.json: /sweep/seed/2: expected a value that is listed once, got 1"},
      {R"({"sweep": {"bandwidth_factor": [1], "line_rate_gbps": [10]}})",
       "s.json: /sweep: expected bandwidth_factor or line_rate_gbps, got both"},
      {R"({"sweep": {"line_rate_gbps": [10]}, "network": {"line_rate_gbps": null}})",
       "s.json: /sweep/line_rate_gbps: expected a network with a line_rate_gbps, or bandwidth_factor in "
       "place of this, got one without"},
      {R"({"sweep": {"seed": [1, 2]}})",
       "s.json: /sweep/seed: expected a sigma above 0, in the sweep or in jitter, got none"},
      {R"({"sweep": {"seed": [1, 2], "sigma": [0]}, "jitter": {"sigma": 1}})",
       "s.json: /sweep/seed: expected a sigma above 0, in the sweep or in jitter, got none"},
      {R"({"sweep": {"density": [0.1]}, "schedules": ["wfbp", {"compression": "fp16"}]})",
       "s.json: /sweep/density: expected a schedule with a compressor that sends indices and values, "
       "got none"},
      {R"({"sweep": {"workers": [1, 3]}, "schedules": [{"collectives": {"all_reduce": "two_level"}}],
           "network": {"link": null, "levels": [{"name": "a", "size": 2, "link": {"alpha_us": 1, "beta_us_per_byte": 1}},
                                                {"name": "b", "link": {"alpha_us": 1, "beta_us_per_byte": 1}}]}})",
       "s.json: /sweep/workers/1: expected for two_level a multiple of the 2 workers in a node, got 3 "
       "(schedule 'two_level')"},
      {R"({"sweep": {"batch_size": [1]}, "collectives": {"all_reduce": "two_level"}})",
       "s.json: /network: expected a network with levels, as two_level needs, got network 'n' without "
       "(schedule 'wfbp')"},
      // 7 tasks per iteration; the limit is 10^10
      {R"({"sweep": {"sigma": [0, 1], "workers": [8, 1000000]}, "iterations": 10000})",
       "s.json: /sweep/workers/1: expected at most 142857 workers each by itself with this fidelity, a "
       "profile of this size and 10000 iterations, got 1000000"},
      {R"({"sweep": {"workers": [8, 1000000]}, "iterations": 10000,
           "failures": [{"worker": 0, "at_us": 1, "down_us": 1}]})",
       "s.json: /sweep/workers/1: expected at most 142857 workers each by itself with this fidelity, a "
       "profile of this size and 10000 iterations, got 1000000"},
      // the limit is 10^11 messages, 10^12 where they are drawn in steps; a ring of one tensor sends two per
      // pair of workers and iteration
      {R"({"sweep": {"workers": [8, 129100]}, "fidelity": "messages"})",
       "s.json: /sweep/workers/1: expected at most 129099 workers each by itself with this fidelity, a "
       "profile of this size and 3 iterations, got 129100"},
      {R"({"sweep": {"workers": [8, 408249]}, "fidelity": "steps", "links": {"sigma": 0.1}})",
       "s.json: /sweep/workers/1: expected at most 408248 workers each by itself with this fidelity, a "
       "profile of this size and 3 iterations, got 408249"},
      {R"({"sweep": {"workers": [2, 4]}, "workers": 2, "fidelity": "messages", "topology": {"kind": "custom",
           "links": [{"name": "a", "from": "x", "to": "y", "bandwidth_gbps": 1, "bidirectional": true}],
           "workers_at": ["x", "y", "y"]}})",
       "s.json: /sweep/workers/1: expected at most the 3 workers that the topology places, got 4"},
      {R"({"sweep": {"sigma": [0.3, 0.31]}, "jitter": {"distribution": "normal"}})",
       "s.json: /sweep/sigma/1: expected a number from 0 to 0.3, got 0.31"},
      {R"({"sweep": {"sigma": [2.1]}})", "s.json: /sweep/sigma/0: expected a number from 0 to 2, got 2.1"},
      {R"({"sweep": {"batch_size": [8, 1000000000]}, "iterations": 10000})",
       "s.json: /workers/0: expected times that add up to at most 9000000000000 us over all iterations, got "
       "1.0001e+13 (schedule 'wfbp')"},
  };
  for (const Refusal& each : refusals) {
    CAPTURE(each.patch);
    CHECK_THROWS_WITH_AS(read(each.patch), each.message.c_str(), core::InputError);
  }
}

TEST_CASE("sweep: the size of the product is bounded, and said") {
  json whole = scenario(R"({"sweep": {}})");
  for (int i = 0; i < 1001; ++i) {
    whole["sweep"]["batch_size"].push_back(i + 1);
    if (i < 250) whole["sweep"]["bandwidth_factor"].push_back(i + 1);
  }
  CHECK_THROWS_WITH_AS(read_sweep(Field::parse(whole.dump(), "s.json")),
                       "s.json: /sweep: expected a product of at most 1000000 points, got 250 "
                       "bandwidth_factor x 1001 batch_size x 2 workers x 2 schedules = 1001000",
                       core::InputError);
  whole["sweep"]["batch_size"].erase(0);
  CHECK(read_sweep(Field::parse(whole.dump(), "s.json")).points == 1'000'000);
}

TEST_CASE("sweep: what can only be found while it runs names the point") {
  const Sweep sweep = read(R"({"sweep": {"batch_size": [8, 16]}, "iterations": 10000,
    "schedules": ["wfbp", {"fusion": {"kind": "threshold", "cap_bytes": 1000000, "cycle_us": 1000000000000}}]})");
  Computer computer(sweep, Rows::csv);
  (void)computer.compute(4);
  try {
    (void)computer.compute(7);
    FAIL("nothing was refused");
  } catch (const core::InputError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.find("s.json: /workers/1: expected times that add up to at most") == 0);
    CHECK(message.find("(point 7 of the sweep)") != std::string::npos);
  }
}

TEST_CASE("sweep: the fingerprint tells what differs, and is the same on every machine") {
  CHECK(fingerprint("") == "cbf29ce484222325");
  CHECK(fingerprint("foobar") == "85944171f73967e8");  // from the reference implementation of FNV
  const Sweep sweep = read(R"({"sweep": {"batch_size": [8]}})");
  const Sweep faster = read(R"({"sweep": {"batch_size": [8]}, "network": {"line_rate_gbps": 11}})");
  CHECK(inputs(sweep, "a")[0] != inputs(sweep, "b")[0]);
  CHECK(inputs(sweep, "a")[1] == inputs(faster, "a")[1]);
  CHECK(inputs(sweep, "a")[2] != inputs(faster, "a")[2]);
}

}  // namespace
}  // namespace sweep
