// The network reader and its cost curves: valid files, invalid files and their error messages.

#include "core/network.hpp"

#include <limits>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/field.hpp"

namespace core {
namespace {

Network read(const std::string& text) { return read_network(core::Field::parse(text, "n.json")); }

/// Returns a network with the given keys after the head.
std::string with(const std::string& rest) {
  return R"({"format": "fusewise.network", "version": 1, "name": "n",)"
         R"( "origin": {"kind": "published", "source": "s"})" +
         (rest.empty() ? rest : ", " + rest) + "}";
}

std::string with_levels(const std::string& levels) { return with(R"("levels": )" + levels); }

/// One measurement whose curve, segments and so on are given.
std::string with_measured(const std::string& keys) {
  return with(R"("measured": [{"collective": "all_reduce", "workers": 4, )" + keys + "}]");
}

std::string with_curve(const std::string& curve) { return with_measured(R"("curve": )" + curve); }
std::string with_segments(const std::string& segments) { return with_measured(R"("segments": )" + segments); }

void check_refused(const std::string& text, const std::string& message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read(text), message.c_str(), core::InputError);
}

const std::string kFast = R"("link": {"alpha_us": 5, "beta_us_per_byte": 0.001})";

// ---- files

TEST_CASE("network: every field is read") {
  const Network network = read(with(R"(
    "link": {"alpha_us": 45.25, "beta_us_per_byte": 0.001, "gamma_us_per_byte": 0.5}, "line_rate_gbps": 10,
    "levels": [{"name": "nvlink", "size": 8, "link": {"alpha_us": 5, "beta_us_per_byte": 0.00002}},
               {"name": "25gbe", "link": {"alpha_us": 30, "beta_us_per_byte": 0.00034}, "shared": true}],
    "measured": [{"collective": "all_reduce", "algorithm": "ring", "workers": 8, "curve": [[8192, 410], [1048576, 2900]],
                  "fit": {"r2": 0.999, "mean_relative_error": 0.01, "max_relative_error": 0.06}},
                 {"collective": "all_gather", "workers": 2,
                  "segments": [{"from_bytes": 0, "to_bytes": 10, "startup_us": 1, "us_per_byte": 2}]},
                 {"collective": "reduce_scatter", "workers": 1, "curve": [[0, 0]]}])"));
  const Network expected = {
      .name = "n",
      .origin = {.kind = OriginKind::published, .source = "s"},
      .link = Link{.alpha_us = 45.25, .beta_us_per_byte = 0.001, .gamma_us_per_byte = 0.5},
      .line_rate_gbps = 10,
      .levels = {{.name = "nvlink", .size = 8, .link = {.alpha_us = 5, .beta_us_per_byte = 0.00002}},
                 {.name = "25gbe", .link = {.alpha_us = 30, .beta_us_per_byte = 0.00034}, .shared = true}},
      .measured = {{.collective = CollectiveKind::all_reduce,
                    .algorithm = "ring",
                    .workers = 8,
                    .curve = CostCurve::through({{8192, 410}, {1048576, 2900}}),
                    .fit = Fit{.r2 = 0.999, .mean_relative_error = 0.01, .max_relative_error = 0.06}},
                   {.collective = CollectiveKind::all_gather,
                    .workers = 2,
                    .curve = CostCurve::of_segments({{0, 10, 1, 2}})},
                   {.collective = CollectiveKind::reduce_scatter,
                    .workers = 1,
                    .curve = CostCurve::through({{0, 0}})}}};
  CHECK(network == expected);
  CHECK(read(network_text(network)) == network);
}

TEST_CASE("network: what is written reads back the same, to the last bit") {
  const double third = 1.0 / 3.0;
  const Network network = {
      .name = "n",
      .origin = {.kind = OriginKind::estimated, .source = "a \"b\"\n"},
      .measured = {{.workers = 1'000'000, .curve = CostCurve::through({{third, 0.1}, {8e15, 1e12}})},
                   {.workers = 3,
                    .curve = CostCurve::of_segments({{0, third, -5, third}, {third, 1e6, 1e12, -1e-9}}),
                    .fit = Fit{.r2 = -3.5, .mean_relative_error = third, .max_relative_error = 7}}}};
  CHECK(read(network_text(network)) == network);
}

TEST_CASE("network: gamma is 0 unless given, and links are not shared unless said") {
  CHECK(read(with(kFast)).link == Link{.alpha_us = 5, .beta_us_per_byte = 0.001, .gamma_us_per_byte = 0});
  const Network levels =
      read(with_levels(R"([{"name": "a", "link": {"alpha_us": 1, "beta_us_per_byte": 1}}])"));
  CHECK_FALSE(levels.levels[0].shared);
  CHECK_FALSE(levels.levels[0].size.has_value());
  CHECK_FALSE(levels.line_rate_gbps.has_value());
}

TEST_CASE("network: collectives have names") {
  CHECK(name(CollectiveKind::all_reduce) == "all_reduce");
  CHECK(name(CollectiveKind::reduce_scatter) == "reduce_scatter");
  CHECK(name(CollectiveKind::all_gather) == "all_gather");
}

TEST_CASE("network: at least one of link, levels, measured") {
  check_refused(with(""), "n.json: /: expected at least one of link, levels, measured, got none of them");
  check_refused(with(R"("levels": [], "measured": [])"),
                "n.json: /: expected at least one of link, levels, measured, got none of them");
  CHECK(read(with(kFast + R"(, "levels": [], "measured": [])")) == read(with(kFast)));
  check_refused(with(R"("line_rate_gbps": 10)"),
                "n.json: /: expected at least one of link, levels, measured, got none of them");
}

TEST_CASE("network: the head is required and unknown keys are refused") {
  check_refused("{}", "n.json: /format: expected fusewise.network, got nothing");
  check_refused(R"({"format": "fusewise.network"})", "n.json: /version: expected a value, got nothing");
  check_refused(R"({"format": "fusewise.network", "version": 1})",
                "n.json: /name: expected a value, got nothing");
  check_refused(R"({"format": "fusewise.network", "version": 1, "name": "n"})",
                "n.json: /origin: expected a value, got nothing");
  check_refused(R"({"format": "fusewise.network", "version": 1, "name": 7})",
                "n.json: /name: expected a non-empty string, got 7");
  check_refused(R"({"format": "fusewise.profile", "version": 1})",
                "n.json: /format: expected one of fusewise.network, got \"fusewise.profile\"");
  check_refused(
      with(kFast + R"(, "line_rate": 10)"),
      "n.json: /line_rate: expected a key among format, version, name, origin, link, line_rate_gbps, "
      "levels, measured, got 'line_rate', did you mean 'line_rate_gbps'?");
}

TEST_CASE("network: a link's numbers are there and not negative") {
  check_refused(with(R"("link": {"beta_us_per_byte": 1})"),
                "n.json: /link/alpha_us: expected a value, got nothing");
  check_refused(with(R"("link": {"alpha_us": 1})"),
                "n.json: /link/beta_us_per_byte: expected a value, got nothing");
  check_refused(with(R"("link": {"alpha_us": "fast", "beta_us_per_byte": 1})"),
                "n.json: /link/alpha_us: expected a number from 0 to 1000000000000, got \"fast\"");
  check_refused(with(R"("link": {"alpha_us": 1, "beta_us_per_byte": -1})"),
                "n.json: /link/beta_us_per_byte: expected a number from 0 to 1000000000000, got -1");
  check_refused(with(R"("link": {"alpha_us": 1, "beta_us_per_byte": 1, "gamma_us_per_byte": -1})"),
                "n.json: /link/gamma_us_per_byte: expected a number from 0 to 1000000000000, got -1");
  check_refused(
      with(R"("link": {"alpha_us": 1, "beta_us_per_byte": 1, "delta": 0})"),
      "n.json: /link/delta: expected a key among alpha_us, beta_us_per_byte, gamma_us_per_byte, got "
      "'delta'");
  check_refused(with(kFast + R"(, "line_rate_gbps": 0)"),
                "n.json: /line_rate_gbps: expected a rate above 0, got 0");
  check_refused(with(kFast + R"(, "line_rate_gbps": -1)"),
                "n.json: /line_rate_gbps: expected a number from 0 to 1000000000000, got -1");
}

TEST_CASE("network: every level but the last says its size, and the last does not") {
  const std::string link = R"("link": {"alpha_us": 1, "beta_us_per_byte": 1})";
  check_refused(with_levels(R"([{"name": "a", )" + link + R"(}, {"name": "b", )" + link + "}]"),
                "n.json: /levels/0/size: expected a value, got nothing");
  check_refused(
      with_levels(R"([{"name": "a", "size": 8, )" + link + "}]"),
      "n.json: /levels/0/size: expected no size: the last level takes what workers are left, got 8");
  check_refused(with_levels(R"([{"name": "a", "size": 0, )" + link + R"(}, {"name": "b", )" + link + "}]"),
                "n.json: /levels/0/size: expected an integer from 1 to 1000000, got 0");
  check_refused(with_levels(R"([{"name": "a", "size": 1000, )" + link + R"(}, {"name": "b", "size": 1001, )" +
                            link + R"(}, {"name": "c", )" + link + "}]"),
                "n.json: /levels/1/size: expected sizes that multiply to at most 1000000, got 1001");
  check_refused(with_levels(R"([{"name": "a"}])"), "n.json: /levels/0/link: expected a value, got nothing");
  check_refused(with_levels("[{" + link + "}]"), "n.json: /levels/0/name: expected a value, got nothing");
  check_refused(with_levels(R"([{"name": "a", "shared": 1, )" + link + "}]"),
                "n.json: /levels/0/shared: expected true or false, got 1");
  check_refused(with_levels(R"([{"name": "a", "speed": 1, )" + link + "}]"),
                "n.json: /levels/0/speed: expected a key among name, size, link, shared, got 'speed'");
}

TEST_CASE("network: a measurement says what was measured") {
  check_refused(with(R"("measured": [{"workers": 2, "curve": [[1, 1]]}])"),
                "n.json: /measured/0/collective: expected a value, got nothing");
  check_refused(with(R"("measured": [{"collective": "allreduce", "workers": 2, "curve": [[1, 1]]}])"),
                "n.json: /measured/0/collective: expected one of all_reduce, reduce_scatter, all_gather, got "
                "\"allreduce\", did you mean 'all_reduce'?");
  check_refused(with(R"("measured": [{"collective": "all_reduce", "curve": [[1, 1]]}])"),
                "n.json: /measured/0/workers: expected a value, got nothing");
  check_refused(with(R"("measured": [{"collective": "all_reduce", "workers": 1000001, "curve": [[1, 1]]}])"),
                "n.json: /measured/0/workers: expected an integer from 1 to 1000000, got 1000001");
  check_refused(with_measured(R"("algorithm": "", "curve": [[1, 1]])"),
                "n.json: /measured/0/algorithm: expected a non-empty string, got \"\"");
  check_refused(with_measured(R"("algorithm": "ring")"),
                "n.json: /measured/0/curve: expected a value, got nothing");
  check_refused(with_measured(R"("curve": [[1, 1]],
    "segments": [{"from_bytes": 0, "to_bytes": 10, "startup_us": 1, "us_per_byte": 2}])"),
                "n.json: /measured/0/curve: expected either a curve or segments, got both");
  check_refused(with_measured(R"("curve": [[1, 1]], "points": 3)"),
                "n.json: /measured/0/points: expected a key among collective, algorithm, workers, curve, "
                "segments, fit, spread_us, p99_us, got 'points'");
}

TEST_CASE("network: a curve is pairs of strictly growing bytes and times") {
  check_refused(with_curve("[]"),
                "n.json: /measured/0/curve: expected an array of at least 1 item, got an array of 0 items");
  check_refused(
      with_curve("[[1, 2, 3]]"),
      "n.json: /measured/0/curve/0: expected a pair [bytes, microseconds], got an array of 3 items");
  check_refused(with_curve("[7]"), "n.json: /measured/0/curve/0: expected an array, got 7");
  check_refused(with_curve("[[1, 1], [1, 2]]"),
                "n.json: /measured/0/curve/1/0: expected more bytes than the point before, 1, got 1");
  check_refused(with_curve("[[8, 1], [4, 2]]"),
                "n.json: /measured/0/curve/1/0: expected more bytes than the point before, 8, got 4");
  check_refused(with_curve("[[-1, 1]]"),
                "n.json: /measured/0/curve/0/0: expected a number from 0 to 8e+15, got -1");
  check_refused(with_curve("[[1, -1]]"),
                "n.json: /measured/0/curve/0/1: expected a number from 0 to 1000000000000, got -1");
}

TEST_CASE("network: segments follow each other without gaps") {
  const auto segment = [](const std::string& from, const std::string& to) {
    return R"({"from_bytes": )" + from + R"(, "to_bytes": )" + to + R"(, "startup_us": 1, "us_per_byte": 2})";
  };
  check_refused(
      with_segments("[]"),
      "n.json: /measured/0/segments: expected an array of at least 1 item, got an array of 0 items");
  check_refused(
      with_segments("[" + segment("0", "10") + ", " + segment("11", "20") + "]"),
      "n.json: /measured/0/segments/1/from_bytes: expected the end of the segment before, 10, got 11");
  check_refused(
      with_segments("[" + segment("0", "10") + ", " + segment("9", "20") + "]"),
      "n.json: /measured/0/segments/1/from_bytes: expected the end of the segment before, 10, got 9");
  check_refused(with_segments("[" + segment("5", "5") + "]"),
                "n.json: /measured/0/segments/0/to_bytes: expected more than from_bytes, 5, got 5");
  check_refused(with_segments(R"([{"from_bytes": 0, "to_bytes": 1, "startup_us": 1}])"),
                "n.json: /measured/0/segments/0/us_per_byte: expected a value, got nothing");
  check_refused(
      with_segments(R"([{"from_bytes": 0, "to_bytes": 1, "startup_us": 1, "us_per_byte": 1, "r2": 1}])"),
      "n.json: /measured/0/segments/0/r2: expected a key among from_bytes, to_bytes, startup_us, "
      "us_per_byte, got 'r2'");
}

TEST_CASE("network: a fit has three numbers") {
  check_refused(with_measured(R"("curve": [[1, 1]], "fit": {"r2": 0.5, "mean_relative_error": 0})"),
                "n.json: /measured/0/fit/max_relative_error: expected a value, got nothing");
  check_refused(
      with_measured(
          R"("curve": [[1, 1]], "fit": {"r2": 1.5, "mean_relative_error": 0, "max_relative_error": 0})"),
      "n.json: /measured/0/fit/r2: expected a number from -1000000000000 to 1, got 1.5");
  check_refused(
      with_measured(
          R"("curve": [[1, 1]], "fit": {"r2": 1, "mean_relative_error": -1, "max_relative_error": 0})"),
      "n.json: /measured/0/fit/mean_relative_error: expected a number from 0 to 1000000000000, got -1");
}

// ---- curves

TEST_CASE("network: a curve's spread and 99th percentile are a number for each point, and written back") {
  const std::string curve = R"("curve": [[1, 2], [10, 20]], )";
  const std::string text = with_measured(curve + R"("spread_us": [0, 3.5], "p99_us": [2, 30])");
  const Network network = read(text);
  CHECK(network.measured.at(0).spread_us == std::vector<double>{0, 3.5});
  CHECK(network.measured.at(0).p99_us == std::vector<double>{2, 30});
  CHECK(read(network_text(network)) == network);
  CHECK(read(with_curve("[[1, 2]]")).measured.at(0).spread_us.empty());

  check_refused(
      with_measured(curve + R"("spread_us": [1])"),
      "n.json: /measured/0/spread_us: expected a number for each of the curve's 2 points, got an array of 1 "
      "item");
  check_refused(with_measured(curve + R"("spread_us": [1, -1])"),
                "n.json: /measured/0/spread_us/1: expected a number from 0 to 1000000000000, got -1");
  check_refused(with_measured(curve + R"("p99_us": [2, 19])"),
                "n.json: /measured/0/p99_us/1: expected a number from 20 to 1000000000000, got 19");
  check_refused(with_measured(curve + R"("p99_us": 30)"),
                "n.json: /measured/0/p99_us: expected an array, got 30");
  check_refused(
      with_measured(
          R"("segments": [{"from_bytes": 0, "to_bytes": 8, "startup_us": 1, "us_per_byte": 1}], "spread_us": [1])"),
      "n.json: /measured/0/spread_us: expected a curve beside it, got segments");
}

TEST_CASE("curve: straight lines between the points, the first value below, the last line continued above") {
  const CostCurve curve = CostCurve::through({{10, 100}, {20, 120}, {40, 200}});
  CHECK(curve.us(0) == 100);
  CHECK(curve.us(9) == 100);
  CHECK(curve.us(10) == 100);
  CHECK(curve.us(15) == 110);
  CHECK(curve.us(20) == 120);
  CHECK(curve.us(30) == 160);
  CHECK(curve.us(40) == 200);
  CHECK(curve.us(50) == 240);
  CHECK(curve.startup_us() == 100);
  CHECK(curve.is_monotone());
  CHECK(curve.measured_up_to_bytes() == 40);
}

TEST_CASE("curve: a falling last line stops at 0") {
  const CostCurve curve = CostCurve::through({{0, 10}, {10, 5}});
  CHECK(curve.us(5) == 7.5);
  CHECK(curve.us(20) == 0);
  CHECK(curve.us(1e15) == 0);
  CHECK_FALSE(curve.is_monotone());
}

TEST_CASE("curve: one point is a constant") {
  const CostCurve curve = CostCurve::through({{100, 7}});
  CHECK(curve.us(0) == 7);
  CHECK(curve.us(100) == 7);
  CHECK(curve.us(1e12) == 7);
  CHECK(curve.is_monotone());
  CHECK(curve.measured_up_to_bytes() == 100);
}

TEST_CASE("curve: a closed form is one line from 0 bytes on, and nothing is beyond it") {
  const CostCurve curve = CostCurve::affine(5, 0.5);
  CHECK(curve.us(0) == 5);
  CHECK(curve.us(8) == 9);
  CHECK(curve.startup_us() == 5);
  CHECK(curve.measured_up_to_bytes() == std::numeric_limits<double>::infinity());
  CHECK(CostCurve().us(1e9) == 0);
}

TEST_CASE("curve: a segment holds from its first byte up to, not including, its end, and the last goes on") {
  // startup + bytes * slope, not counted from the segment's start
  const CostCurve curve = CostCurve::of_segments({{10, 20, 1, 2}, {20, 30, 100, 1}});
  CHECK(curve.us(0) == 21);  // the first value below the first segment
  CHECK(curve.us(10) == 21);
  CHECK(curve.us(19) == 39);
  CHECK(curve.us(20) == 120);
  CHECK(curve.us(29) == 129);
  CHECK(curve.us(40) == 140);
  CHECK(curve.startup_us() == 21);
  CHECK(curve.is_monotone());
  CHECK(curve.measured_up_to_bytes() < 30);
  CHECK(curve.measured_up_to_bytes() == doctest::Approx(30));
}

TEST_CASE("curve: segments that step down or go below 0 cost no less than nothing and are not monotone") {
  const CostCurve steps_down = CostCurve::of_segments({{0, 10, 100, 0}, {10, 20, 50, 0}});
  CHECK(steps_down.us(9) == 100);
  CHECK(steps_down.us(10) == 50);
  CHECK_FALSE(steps_down.is_monotone());
  const CostCurve negative = CostCurve::of_segments({{0, 10, -5, 1}});
  CHECK(negative.us(2) == 0);
  CHECK(negative.us(7) == 2);
  CHECK(negative.startup_us() == 0);
}

}  // namespace
}  // namespace core
