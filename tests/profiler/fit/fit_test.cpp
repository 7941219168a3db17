// Fits of measured collectives: on curves made by hand with a known answer, and on logs of other programs.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/report/report.hpp"
#include "profiler/fit/report.hpp"
#include "tests/support/program.hpp"

namespace fit {
namespace {

using core::CollectiveKind;
using traces::Series;

std::vector<double> sizes(double from, double to, double step) {
  std::vector<double> out;
  for (double size = from; size <= to; size += step) out.push_back(size);
  return out;
}

template <typename Us>
Series series_of(std::int64_t workers, const std::vector<double>& bytes, Us us, double noise = 0) {
  std::mt19937_64 bits(static_cast<std::uint64_t>(workers));
  Series out = {.path = "x.log", .workers = workers};
  for (const double size : bytes) {
    const double draw = static_cast<double>(bits() >> 11U) * 0x1p-53 - 0.5;
    out.points.emplace_back(size, us(size) * (1 + noise * draw));
  }
  return out;
}

traces::LogFile log_of(const std::string& path) {
  return {.path = path, .text = core::read_file(support::source_dir() / "tests" / "data" / path)};
}

Report report_of(const std::vector<std::string>& paths, const Options& options = {.name = "n"}) {
  std::vector<traces::LogFile> logs;
  for (const std::string& path : paths) logs.push_back(log_of(path));
  return fit(traces::read_measurements(logs, {}), options);
}

std::vector<double> borders(const CurveFit& curve) {
  std::vector<double> out;
  for (std::size_t i = 1; i < curve.segments.size(); ++i) out.push_back(curve.segments[i].from_bytes);
  return out;
}

bool has(const std::vector<double>& all, double one) { return std::ranges::find(all, one) != all.end(); }

const ModelFit& model(const CurveFit& curve, const std::string& name) {
  for (const ModelFit& one : curve.models)
    if (one.name == name) return one;
  FAIL("no such model: " << name);
  return curve.models.front();
}

// ---- curves

TEST_CASE("fit: a straight line is one segment, with noise or without") {
  const auto line = [](double bytes) { return 20 + 0.001 * bytes; };
  for (const double noise : {0.0, 0.02, 0.1}) {
    CAPTURE(noise);
    const CurveFit fitted =
        fit_curve(series_of(4, sizes(1024, 1 << 20, 4096), line, noise), Test::by_turns, {});
    REQUIRE(fitted.segments.size() == 1);
    CHECK(fitted.segments[0].line.alpha_us == doctest::Approx(20).epsilon(1e-9 + noise / 2));
    CHECK(fitted.segments[0].line.beta_us_per_byte == doctest::Approx(0.001).epsilon(1e-9 + noise / 20));
    CHECK(fitted.segments[0].from_bytes == 1024);
    CHECK(fitted.segments[0].to_bytes == 1024 + 4096.0 * 255 + 1);
  }
}

TEST_CASE("fit: jumps are found where they are, and each side has its own line") {
  const auto jump = [](double bytes) { return bytes < 65536 ? 10 + 0.002 * bytes : 90 + 0.001 * bytes; };
  const CurveFit fitted = fit_curve(series_of(4, sizes(4096, 1 << 20, 4096), jump, 0.02), Test::by_turns, {});
  CHECK(borders(fitted) == std::vector<double>{65536});
  CHECK(fitted.segments[0].line.beta_us_per_byte == doctest::Approx(0.002).epsilon(0.03));
  CHECK(fitted.segments[1].line.alpha_us == doctest::Approx(90).epsilon(0.03));
  CHECK(model(fitted, "segments").in_sample->max_relative_error < 0.02);
  CHECK(model(fitted, "line").in_sample->max_relative_error > 0.1);
}

TEST_CASE("fit: a segment never falls, a single size and a repeated fall do not break it") {
  const Series falling = series_of(2, {4, 8, 16, 32}, [](double bytes) { return 100 - bytes; });
  const CurveFit fitted = fit_curve(falling, Test::by_turns, {});
  for (const Segment& segment : fitted.segments) CHECK(segment.line.beta_us_per_byte >= 0);
  CHECK_THROWS_WITH_AS(fit_curve(series_of(2, {4}, [](double) { return 1; }), Test::by_turns, {}),
                       "x.log: /: expected 2 to 10000 sizes of all_reduce on 2 workers, got 1",
                       core::InputError);
  const CurveFit two =
      fit_curve(series_of(2, {0, 4}, [](double bytes) { return 1 + bytes; }), Test::by_turns, {});
  CHECK(two.segments.size() == 1);
  CHECK_FALSE(two.models.front().out_of_sample.has_value());
}

TEST_CASE("fit: random curves of straight pieces keep their error, whatever the seed") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 bits(seed);
    const auto draw = [&] { return static_cast<double>(bits() >> 11U) * 0x1p-53; };
    const double border = 4096 * std::floor(40 + 150 * draw());
    const double startup = 5 + 50 * draw();
    const double slope = 1e-4 + 1e-3 * draw();
    const double up = 1.5 + draw();
    const auto us = [&](double bytes) { return (startup + slope * bytes) * (bytes < border ? 1 : up); };
    const CurveFit fitted = fit_curve(series_of(4, sizes(4096, 1 << 20, 4096), us, 0.02), Test::by_turns, {});
    CHECK(has(borders(fitted), border));
    CHECK(model(fitted, "segments").out_of_sample->mean_relative_error < 0.02);
  }
}

// ---- what others measured

TEST_CASE("fit: NCCL tables fitted on powers of two are predicted in between") {
  struct Table {
    const char* file;
    double max;
  };
  const Table tables[] = {{"vtrain/A100_AR_GPU4_1M_1024M_LUT", 0.006},
                          {"vtrain/A100_AR_GPU8_1M_1024M_LUT", 0.011},
                          {"vtrain/V100_AR_GPU8_1M_1024M_LUT", 0.0035}};
  for (const Table& table : tables) {
    CAPTURE(table.file);
    const Report report = report_of({table.file}, {.name = "n", .test = Test::powers_of_two});
    const CurveFit& curve = report.curves.front();
    CHECK(curve.fitted_sizes == 11);
    CHECK(curve.tested_sizes == 1013);
    CHECK(model(curve, "curve").out_of_sample->mean_relative_error <= table.max);
    CHECK(model(curve, "curve").out_of_sample->mean_relative_error <
          model(curve, "line").out_of_sample->mean_relative_error);
    CHECK(report_table(report).find("worst points of the curve: ") != std::string::npos);
  }
}

TEST_CASE("fit: the jumps of OSU's logs are borders of segments") {
  const Report report =
      report_of({"b-caffe/allreduce8.log", "b-caffe/allreduce2.log", "b-caffe/allreduce4.log"});
  REQUIRE(report.curves.size() == 3);
  for (const CurveFit& curve : report.curves) {
    CAPTURE(curve.series.workers);
    CHECK(has(borders(curve), 12 * 1024));  // the size after 8 KiB: the jump is at or under 12
    CHECK(model(curve, "segments").in_sample->mean_relative_error < 0.015);
    CHECK(model(curve, "segments").out_of_sample->mean_relative_error < 0.05);
  }
  CHECK(report.curves[2].series.workers == 8);
  CHECK(has(borders(report.curves[2]), 512 * 1024));
}

// ---- what lies under them

double ring(double p, double bytes) { return 2 * (p - 1) * 3 + 2 * (p - 1) / p * 0.0008 * bytes; }

TEST_CASE("fit: alpha and beta come back from rings on several numbers of workers, and predict another") {
  std::vector<Series> all;
  for (const std::int64_t workers : {2, 4, 8})
    all.push_back(series_of(
        workers, sizes(1024, 1 << 20, 16384),
        [&](double bytes) { return ring(static_cast<double>(workers), bytes); }, 0.02));
  const LinkFit found = fit_link(all, "", {});
  CHECK(found.algorithm == "ring");
  CHECK(found.link.line.alpha_us == doctest::Approx(3).epsilon(0.02));
  CHECK(found.link.line.beta_us_per_byte == doctest::Approx(0.0008).epsilon(0.01));
  REQUIRE(found.link.error.has_value());
  CHECK(found.link.error->alpha_us < 0.1);
  CHECK(std::abs(found.link.line.alpha_us - 3) < 4 * found.link.error->alpha_us);
  CHECK(found.us(64, 1 << 18) == doctest::Approx(ring(64, 1 << 18)).epsilon(0.02));
  REQUIRE(found.left_out.has_value());
  CHECK(found.left_out->min > 0.97);
  CHECK(found.left_out->max < 1.03);
  CHECK(curve_of(found, 16).us(1 << 18) == doctest::Approx(found.us(16, 1 << 18)).epsilon(1e-9));
}

TEST_CASE("fit: where one fit for each number of workers takes too long, several are left out at once") {
  // A fit of one algorithm counts as sizes^2 + 10 rows, and 1e8 are done: 2,000 sizes on 60 numbers of
  // workers make 4e6 + 1.2e6, so that there are 19 fits. The first leaves out the 1st, 20th, 39th and 58th
  // number.
  const auto parts = [](std::int64_t numbers, double sizes_of_each) {
    std::vector<Series> all;
    for (std::int64_t workers = 2; workers < 2 + numbers; ++workers)
      all.push_back(series_of(workers, sizes(1024, 1024 * sizes_of_each, 1024),
                              [&](double bytes) { return ring(static_cast<double>(workers), bytes); }));
    const LinkFit found = fit_link(all, "ring", {});
    REQUIRE(found.left_out.has_value());
    CHECK(found.left_out->max < 1.001);
    return found.left_out->parts;
  };
  CHECK(parts(60, 10) == 60);
  CHECK(parts(60, 2000) == 19);
}

TEST_CASE(
    "fit: what was measured of several algorithms has a link each, by the algorithm that the log says") {
  traces::Measurements all;
  const auto tree = [](double p, double bytes) { return 2 * std::log2(p) * (5 + 0.002 * bytes); };
  for (const std::string algorithm : {"binary_tree", "ring"})
    for (const std::int64_t workers : {2, 4}) {
      const auto p = static_cast<double>(workers);
      all.series.push_back(series_of(workers, sizes(1024, 1 << 18, 4096), [&](double bytes) {
        return algorithm == "ring" ? ring(p, bytes) : tree(p, bytes);
      }));
      all.series.back().algorithm = algorithm;
    }
  const Report report = fit(all, {.name = "n", .predict = {8}});
  REQUIRE(report.links.size() == 2);
  CHECK(report.links[0].algorithm == "binary_tree");
  CHECK(report.links[0].link.line.alpha_us == doctest::Approx(5));
  CHECK(report.links[1].algorithm == "ring");
  CHECK(report.links[1].link.line.alpha_us == doctest::Approx(3));
  REQUIRE(report.network.link.has_value());
  CHECK(report.network.link->alpha_us == doctest::Approx(5));  // of the first
  REQUIRE(report.network.measured.size() == 6);
  CHECK(report.network.measured[4].algorithm == "binary_tree");
  CHECK(report.network.measured[5].algorithm == "ring");
  CHECK(report.network.measured[5].curve.us(1 << 18) == doctest::Approx(ring(8, 1 << 18)).epsilon(1e-6));
}

TEST_CASE("fit: each range of sizes has the algorithm that describes it") {
  std::vector<Series> all;
  for (const std::int64_t workers : {4, 8, 16})
    all.push_back(series_of(workers, sizes(1024, 1 << 18, 2048), [&](double bytes) {
      const auto p = static_cast<double>(workers);
      return bytes < 65536 ? std::log2(p) * (5 + 0.002 * bytes) : ring(p, bytes);
    }));
  const LinkFit found = fit_link(all, "", {});
  REQUIRE(found.ranges.size() == 2);
  CHECK(found.ranges[0].algorithm == "recursive_doubling");
  CHECK(found.ranges[1].algorithm == "ring");
  CHECK(found.ranges[1].from_bytes == 1024 + 2048 * 32);
  CHECK(found.us(32, 4096) == doctest::Approx(5 * (5 + 0.002 * 4096)).epsilon(1e-6));
  CHECK(found.us(32, 1 << 17) == doctest::Approx(ring(32, 1 << 17)).epsilon(1e-6));
}

TEST_CASE("fit: halves of all-reduce share its link") {
  std::vector<Series> all;
  for (const std::int64_t workers : {2, 4}) {
    all.push_back(series_of(workers, sizes(1024, 65536, 1024),
                            [&](double bytes) { return ring(static_cast<double>(workers), bytes) / 2; }));
    all.back().collective = CollectiveKind::all_gather;
  }
  const LinkFit found = fit_link(all, "double_binary_tree", {});
  CHECK(found.algorithm == "ring");
  CHECK(found.link.line.alpha_us == doctest::Approx(3));
  CHECK(found.link.line.beta_us_per_byte == doctest::Approx(0.0008));
}

// ---- the whole

traces::Measurements rings(const std::vector<std::int64_t>& workers) {
  traces::Measurements out = {.source = "by hand", .series = {}};
  for (const std::int64_t count : workers)
    out.series.push_back(series_of(count, sizes(1024, 1 << 20, 16384),
                                   [&](double bytes) { return ring(static_cast<double>(count), bytes); }));
  return out;
}

TEST_CASE("fit: the network holds the link, what was measured and, where asked for, what was predicted") {
  const Report report = fit(rings({2, 4}), {.name = "n", .predict = {16, 4, 16}, .write_segments = true});
  REQUIRE(report.network.link.has_value());
  CHECK(report.network.link->alpha_us == doctest::Approx(3));
  REQUIRE(report.network.measured.size() == 3);
  CHECK(report.network.measured[0].curve.segments().size() == 1);
  CHECK(report.network.measured[2].workers == 16);
  CHECK(report.network.origin.source.find(
            "PREDICTED, not measured: all_reduce on 16 workers from the fitted link") != std::string::npos);
  const std::string text = network_text(report.network);
  CHECK(network_text(core::read_network(core::Field::parse(text, "n.json"))) == text);
  CHECK_FALSE(fit(rings({4}), {.name = "n"}).network.link.has_value());
}

TEST_CASE("fit: a prediction from few numbers of workers has a range, also where they agree exactly") {
  const Report report = fit(rings({2, 4}), {.name = "n", .predict = {8}});
  REQUIRE(report.predictions.size() == 1);
  for (const PredictedTime& time : report.predictions.front().times) {
    REQUIRE(time.between_us.has_value());
    CHECK(time.between_us->first ==
          doctest::Approx(time.us * std::pow(0.7, std::sqrt(1.0 / 3))).epsilon(1e-3));
    CHECK(time.between_us->second ==
          doctest::Approx(time.us * std::pow(1.6, std::sqrt(1.0 / 3))).epsilon(1e-3));
  }
}

TEST_CASE("fit: where a curve falls with size, a prediction warns and its range holds the longer time") {
  traces::Measurements all = {.source = "by hand", .series = {}};
  all.series.push_back({.path = "x.log",
                        .workers = 8,
                        .points = {{4096, 40}, {65536, 90}, {262144, 900}, {1 << 20, 150}, {1 << 24, 1500}}});
  const Report report = fit(all, {.name = "n", .predict = {16}});
  for (const PredictedTime& time : report.predictions.front().times)
    if (time.bytes == 262144) CHECK(time.between_us->second > 900);
  CHECK(std::ranges::any_of(report.warnings, [](const std::string& warning) {
    return warning.starts_with("all_reduce on 16 workers: from 65536 to 1048576 bytes the curves");
  }));
}

TEST_CASE("fit: two numbers of workers do not tell by which algorithm, so their link predicts no third one") {
  // A chain, whose times on 4 and 8 workers are nearly those of recursive doubling.
  traces::Measurements all = {.source = "by hand", .series = {}};
  for (const std::int64_t count : {4, 8})
    all.series.push_back(series_of(count, sizes(512, 65536, 2048), [&](double bytes) {
      const double noise = (count == 8) == (std::fmod(bytes, 4096) < 2048) ? 1.03 : 0.97;
      return noise * (9.1 + 2 * static_cast<double>(count - 1) + 1e-5 * bytes);
    }));
  const Report report = fit(all, {.name = "n", .predict = {2}});
  REQUIRE(report.links.front().algorithm != "ring");
  CHECK(report.network.origin.source.find("on 2 workers from 4 and 8 workers") != std::string::npos);
  CHECK(report.network.measured.back().curve.us(512) == doctest::Approx(11.1).epsilon(0.12));
}

TEST_CASE(
    "fit: the curve that is written is judged, with the points that it leaves out, and keeps its spread") {
  // the last quarter of the sizes, 80 and 90 of 100, is left out
  Series series = {.path = "x.log", .workers = 4};
  for (const double bytes : {10.0, 20.0, 30.0, 80.0, 90.0, 100.0}) {
    series.points.emplace_back(bytes, bytes == 80 ? 100 : 10 + bytes);
    series.spread_us.push_back(bytes / 10);
    series.p99_us.push_back(bytes * 2);
  }
  const Report report = fit({.source = "by hand", .series = {series}}, {.name = "n"});
  const ModelFit& curve = model(report.curves[0], "curve");
  CHECK(curve.pieces == 3);
  REQUIRE(curve.in_sample.has_value());
  CHECK(curve.in_sample->max_relative_error == doctest::Approx(0.1));  // 90 instead of 100
  CHECK(curve.in_sample->mean_relative_error == doctest::Approx(0.1 / 6));
  const core::Measured& written = report.network.measured[0];
  REQUIRE(written.curve.points().size() == 4);
  for (const auto& [bytes, us] : series.points) {
    const double predicted = written.curve.us(bytes);
    CHECK(std::abs(predicted / us - 1) <= curve.in_sample->max_relative_error * (1 + 1e-9));
  }
  CHECK(written.spread_us == std::vector<double>{1, 2, 3, 10});
  CHECK(written.p99_us == std::vector<double>{20, 40, 60, 200});
  const Report pieces = fit({.source = "by hand", .series = {series}}, {.name = "n", .write_segments = true});
  CHECK(pieces.network.measured[0].spread_us.empty());
}

bool warns(const Report& report, const std::string& words) {
  return std::ranges::any_of(
      report.warnings, [&](const std::string& warning) { return warning.find(words) != std::string::npos; });
}

TEST_CASE(
    "fit: warns of slopes under the physical bound, of an R^2 that hides small sizes, of extrapolation") {
  // 0.0008 us per byte is 10 Gb/s.
  CHECK_FALSE(warns(fit(rings({2, 4}), {.name = "n", .line_rate_gbps = 10.01}), "physical"));
  CHECK(warns(fit(rings({2, 4}), {.name = "n", .line_rate_gbps = 9.9}), "under the physical bound"));

  traces::Measurements bent = {.source = "by hand", .series = {}};
  std::vector<double> powers;
  for (double size = 4; size <= 1 << 30; size *= 2) powers.push_back(size);
  bent.series.push_back(series_of(2, powers, [](double bytes) {
    const double startup = bytes >= 4096 ? 40 : std::fmod(std::log2(bytes), 2) == 0 ? 30 : 60;
    return startup + 0.001 * bytes;
  }));
  CHECK(warns(fit(bent, {.name = "n"}), "R^2 of one line is "));
  CHECK_FALSE(warns(fit(rings({2, 4}), {.name = "n"}), "R^2"));

  CHECK(warns(fit(rings({2, 4}), {.name = "n", .predict = {8}}), "is extrapolated: measured on 2, 4"));
  CHECK_FALSE(warns(fit(rings({2, 8}), {.name = "n", .predict = {4}}), "extrapolated"));
  CHECK(warns(fit(rings({4}), {.name = "n", .predict = {8}}), "nothing says how far it can be trusted"));
}

TEST_CASE("fit: the page of several logs names each beside its chart, and none in the title") {
  traces::Measurements two = rings({2, 4});
  two.series[0].path = "logs/first.log";
  two.series[1].path = "logs/second.log";
  const auto page_of = [&] {
    return report::of_fit(core::Field::parse(report_json(fit(two, {.name = "first"})), "fit.json"));
  };
  const report::Report several = page_of();
  CHECK(several.title == "Fit of 2 logs");
  REQUIRE(several.data.at("fit").size() == 2);
  CHECK(several.data.at("fit")[0].at("title") == "all_reduce on 2 workers, first.log");
  CHECK(several.data.at("fit")[1].at("title") == "all_reduce on 4 workers, second.log");

  two.series[1].path = two.series[0].path;
  const report::Report one = page_of();
  CHECK(one.title == "Fit of first");
  CHECK(one.data.at("fit")[1].at("title") == "all_reduce on 4 workers");
}

TEST_CASE("fit: the page has the error of every measured size, once by each model") {
  const traces::Measurements measured = rings({4});
  const Report report = fit(measured, {.name = "n"});
  const auto page = report::of_fit(core::Field::parse(report_json(report), "fit.json"));
  const auto& models = page.data.at("fit")[0].at("models");
  REQUIRE(models[0].at("model") == "line");
  const auto& residuals = models[0].at("in_sample").at("residuals");
  const Points& points = measured.series[0].points;
  REQUIRE(residuals.size() == points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    CAPTURE(i);
    CHECK(residuals[i][0] == points[i].first);
    CHECK(residuals[i][1] == points[i].second);
    CHECK(residuals[i][2].get<double>() ==
          doctest::Approx(report.curves[0].line.startup_us +
                          report.curves[0].line.us_per_byte * points[i].first));
  }
}

}  // namespace
}  // namespace fit
