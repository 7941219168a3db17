// Calibration: rows that a simulation made from known numbers give these numbers back within the stated
// intervals, and what rows cannot tell apart is refused.

#include "validate/measurements/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <Eigen/Dense>

#include "core/errors.hpp"
#include "planner/run/predict.hpp"
#include "tests/support/random.hpp"
#include "validate/measurements/calibrated_files.hpp"
#include "validate/measurements/calibration_text.hpp"
#include "validate/measurements/least_squares.hpp"

namespace {

using validate::Calibration;
using validate::FittedNumber;
using validate::FittedQuantity;
using validate::Measurement;
using validate::Predictor;

/// Uniform in [min, max).
double uniform(support::Random& random, double min, double max) {
  return min + (max - min) * (random.below(1U << 30U) / static_cast<double>(1U << 30U));
}

/// Roughly normal, of mean 0 and standard deviation 1.
double noise(support::Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += uniform(random, 0, 1);
  return sum - 6;
}

core::Profile random_profile(support::Random& random, const std::string& name) {
  core::Profile out = {.model = name,
                       .batch_size = 32,
                       .dtype = core::Dtype::float32,
                       .device = "none",
                       .origin = {.kind = core::OriginKind::estimated, .source = "made up"},
                       .layers = {}};
  for (int i = 0; i < 60; ++i) {
    const double us = uniform(random, 200, 1600);
    const std::string layer = fmt::format("{}{}", name, i);
    out.layers.push_back({.name = layer,
                          .kind = "k",
                          .forward_us = us,
                          .backward_us = 2 * us,
                          .tensors = {{.name = layer, .elements = random.between(1000, 300000)}}});
  }
  return out;
}

/// Ten Gb/s, with an Ethernet's startup.
core::Network network() {
  return {.name = "n",
          .origin = {.kind = core::OriginKind::published, .source = "made up"},
          .link = core::Link{.alpha_us = 20, .beta_us_per_byte = 0.0009},
          .line_rate_gbps = 10,
          .levels = {},
          .measured = {}};
}

validate::Setup random_setup(support::Random& random) {
  validate::Setup out;
  for (const char* name : {"a", "b"}) out.models[name].profile = random_profile(random, name);
  out.networks["n"] = network();
  return out;
}

std::vector<Measurement> unmeasured(const std::vector<std::string>& models,
                                    const std::vector<std::string>& schedules,
                                    const std::vector<std::int64_t>& workers) {
  std::vector<Measurement> out;
  for (const std::string& model : models)
    for (const std::string& schedule : schedules)
      for (const std::int64_t each : workers)
        out.push_back({.line = static_cast<std::int64_t>(out.size()) + 2,
                       .model = model,
                       .network = "n",
                       .schedule = schedule,
                       .workers = each});
  return out;
}

struct Truth {
  double compute[2] = {1, 1};
  double per_byte = 1;
  double startup = 1;
  double fixed_us = 0;
  double communication_slowdown = 0;
};

/// Gives rows the times that the true numbers make, times noise. planner::run() is the oracle: the
/// calibration uses other code, models of an iteration.
void measure(std::vector<Measurement>& rows, const validate::Setup& setup, const Truth& truth,
             support::Random& random, double deviation) {
  const validate::NetworkNumbers numbers = {
      .levels = {{.per_byte = truth.per_byte, .startup_per_hop = truth.startup}}, .overlap = {}};
  const core::Network calibrated = validate::calibrated(setup.networks.at("n"), numbers);
  for (Measurement& row : rows) {
    const core::Profile profile =
        validate::calibrated(setup.models.at(row.model).profile,
                             {.compute_factor = truth.compute[row.model == "a" ? 0 : 1], .odds_factor = 1});
    const core::Network longer =
        validate::with_fixed_startup(calibrated, row.workers, planner::Algorithm{}, truth.fixed_us);
    planner::Conditions conditions;
    conditions.overlap.communication_slowdown = truth.communication_slowdown;
    const planner::Setting setting(profile, longer, row.workers, {}, conditions);
    const planner::Schedule schedule = planner::preset_schedule(row.schedule);
    row.iteration_us =
        planner::run(setting, schedule).metrics.iteration_us * std::exp(deviation * noise(random));
  }
}

bool holds(const validate::Range& range, double value) {
  constexpr double kRounding = 1e-6;
  return value >= range.low * (1 - kRounding) && value <= range.high * (1 + kRounding);
}

double true_value(const Truth& truth, const FittedNumber& fitted) {
  switch (fitted.number.quantity) {
    case FittedQuantity::compute_factor: return truth.compute[fitted.number.owner == "a" ? 0 : 1];
    case FittedQuantity::per_byte: return truth.per_byte;
    case FittedQuantity::startup_per_hop: return truth.startup;
    case FittedQuantity::fixed_startup: return truth.fixed_us;
    case FittedQuantity::communication_slowdown: return truth.communication_slowdown;
    default: return 0;
  }
}

Truth random_truth(support::Random& random) {
  return {.compute = {uniform(random, 0.6, 1.8), uniform(random, 0.6, 1.8)},
          .per_byte = uniform(random, 0.95, 1.6),
          .startup = uniform(random, 0.4, 2.5),
          .fixed_us = uniform(random, 50, 500),
          .communication_slowdown = uniform(random, 0.05, 0.4)};
}

Calibration calibrated(const std::vector<Measurement>& rows, const Predictor& predictor,
                       const validate::CalibrateOptions& options = {}, std::size_t on = SIZE_MAX) {
  std::vector<bool> is_on;
  for (std::size_t i = 0; i < rows.size(); ++i) is_on.push_back(i < on);
  return validate::calibrate(rows, is_on, predictor, "m.csv", options);
}

TEST_CASE("calibrate: known numbers with noise of 1 % lie within the intervals that are stated") {
  int inside = 0;
  int all = 0;
  std::uint32_t refused = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(40); ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    const validate::Setup setup = random_setup(random);
    const Truth truth = random_truth(random);
    std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
    for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {2, 4, 8, 16, 32}))
      rows.push_back(row);
    measure(rows, setup, truth, random, 0.01);
    const Predictor predictor(rows, setup, "m.csv");
    std::optional<Calibration> result;
    try {
      result = calibrated(rows, predictor,
                          {.fit = {{FittedQuantity::startup_per_hop, FittedQuantity::fixed_startup,
                                    FittedQuantity::communication_slowdown}}});
    } catch (const core::InputError&) {  // these rows cannot tell two of them apart
      ++refused;
      continue;
    }
    CHECK(result->fitted.size() == 6);
    for (const FittedNumber& each : result->fitted) {
      ++all;
      inside += holds(each.interval, true_value(truth, each)) ? 1 : 0;
    }
  }
  CHECK(refused <= 1 + support::seeds(40) / 4);
  CHECK(inside >= 0.95 * all - 1);
}

TEST_CASE("calibrate: a method that was not calibrated on lies within its interval, and is close") {
  int inside = 0;
  int all = 0;
  double errors = 0;
  const std::uint32_t seeds = std::max(2U, support::seeds(12));  // one set of rows alone may be unlucky
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    support::Random random(1000 + seed);
    const validate::Setup setup = random_setup(random);
    std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
    for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {4, 8, 16})) rows.push_back(row);
    const std::size_t on = rows.size();
    for (const Measurement& row : unmeasured({"a", "b"}, {"ddp", "fusewise-dear"}, {8, 16, 32}))
      rows.push_back(row);
    measure(rows, setup, random_truth(random), random, 0.01);
    const Predictor predictor(rows, setup, "m.csv");
    const Calibration result = calibrated(rows, predictor, {}, on);
    CHECK(result.ours.rows == rows.size() - on);
    for (std::size_t i = on; i < rows.size(); ++i) {
      ++all;
      REQUIRE(result.rows[i].samples_per_s_interval.has_value());
      inside += holds(*result.rows[i].samples_per_s_interval, result.rows[i].measured_samples_per_s) ? 1 : 0;
    }
    errors += result.ours.mean;
  }
  CHECK(inside >= 0.93 * all - 1);
  CHECK(errors / seeds < 0.03);
}

TEST_CASE("calibrate: a quantity that was held is tried again where another one is left out") {
  int tried_again = 0;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    support::Random random(2000 + seed);
    const validate::Setup setup = random_setup(random);
    std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
    for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {4, 8})) rows.push_back(row);
    measure(rows, setup, random_truth(random), random, 0.01);
    const Calibration result = calibrated(rows, Predictor(rows, setup, "m.csv"));
    const std::vector<FittedQuantity>& first = result.tried.front().quantities;
    for (const validate::Tried& each : result.tried)
      tried_again += std::any_of(each.quantities.begin(), each.quantities.end(), [&](FittedQuantity one) {
        return std::find(first.begin(), first.end(), one) == first.end();
      });
  }
  CHECK(tried_again > 0);
}

TEST_CASE("calibrate: one row per model cannot tell compute from communication") {
  support::Random random(7);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"a"}, {"dense"}, {8});
  measure(rows, setup, {.compute = {1.3, 1}, .per_byte = 1.8}, random, 0);
  const Predictor predictor(rows, setup, "m.csv");
  CHECK_THROWS_WITH_AS(
      (void)calibrated(rows, predictor),
      "m.csv: /: expected rows that tell the time per byte of network 'n' from the compute factor "
      "of model 'a', got rows on which they have the same effect; what helps is a run of the "
      "model on one worker",
      core::InputError);
}

TEST_CASE("calibrate: optimal groups are those that are best without slow-downs") {
  support::Random random(11);
  const validate::Setup setup = random_setup(random);
  const std::vector<Measurement> rows = unmeasured({"a"}, {"fusewise"}, {8});
  const Predictor predictor(rows, setup, "m.csv");
  validate::Numbers numbers = predictor.known();
  numbers.networks.front().overlap = {.compute_slowdown = 0.3, .communication_slowdown = 0.8};
  const core::Profile& profile = setup.models.at("a").profile;
  const core::Network& network = setup.networks.at("n");
  const planner::Schedule schedule = planner::preset_schedule("fusewise");
  const planner::Setting alone(profile, network, 8, setup.all_reduce, {});
  planner::Setting slowed = alone;
  slowed.conditions.overlap = numbers.networks.front().overlap;
  const planner::Groups groups = schedule.fusion.fuse(planner::request_of(alone, schedule)).groups;
  CHECK(predictor.iteration_us(0, profile, network, numbers.networks.front()) ==
        planner::iteration_us(planner::request_of(slowed, schedule), groups));
}

TEST_CASE("calibrate: on one number of workers a fixed startup and one per hop are the same") {
  support::Random random(8);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
  for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {16})) rows.push_back(row);
  measure(rows, setup, {.startup = 2, .fixed_us = 200}, random, 0);
  const Predictor predictor(rows, setup, "m.csv");
  std::string refusal;
  try {
    (void)calibrated(rows, predictor,
                     {.fit = {{FittedQuantity::startup_per_hop, FittedQuantity::fixed_startup}}});
  } catch (const core::InputError& error) {
    refusal = error.what();
  }
  CHECK(refusal.find("startup per hop of network 'n'") != std::string::npos);
  CHECK(refusal.find("fixed startup of network 'n'") != std::string::npos);
  CHECK(refusal.find("what helps is runs without fusion on two numbers of workers") != std::string::npos);
  CHECK_NOTHROW((void)calibrated(rows, predictor));  // without being asked for both, it fits what it can
}

TEST_CASE("calibrate: no network becomes faster than its line rate") {
  support::Random random(9);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
  for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {4, 8})) rows.push_back(row);
  validate::Setup faster = setup;
  for (auto& [name, network] : faster.networks) network.line_rate_gbps.reset();
  measure(rows, faster, {.per_byte = 0.2}, random, 0);
  const Predictor predictor(rows, setup, "m.csv");
  const Calibration result = calibrated(rows, predictor);
  const auto found = std::find_if(result.fitted.begin(), result.fitted.end(), [](const FittedNumber& each) {
    return each.number.quantity == FittedQuantity::per_byte;
  });
  REQUIRE(found != result.fitted.end());
  CHECK(found->value == doctest::Approx(0.0008 / 0.0009));
  CHECK(found->at_bound);
  CHECK(validate::calibration_table(result, predictor).find("at the line rate") != std::string::npos);
}

TEST_CASE("calibrate: the line rate is that of the outermost level") {
  core::Network nodes = network();
  nodes.link.reset();
  nodes.levels = {{.name = "inside", .size = 4, .link = {.alpha_us = 5, .beta_us_per_byte = 0.0001}},
                  {.name = "between", .size = {}, .link = {.alpha_us = 20, .beta_us_per_byte = 0.0009}}};
  for (const std::size_t outermost : {std::size_t{0}, std::size_t{1}})
    for (const validate::Number& each : validate::numbers_of("n", nodes, outermost)) {
      if (each.quantity != FittedQuantity::per_byte) continue;
      CHECK(each.bounded_by_line_rate == (each.level == 1));
      CHECK(each.start == 0);
    }
}

TEST_CASE("calibrate: a slow-down that the profiles state is used, and none is fitted") {
  support::Random random(10);
  validate::Setup setup = random_setup(random);
  for (auto& [name, model] : setup.models)
    model.overlap = {.compute_slowdown = 0, .communication_slowdown = 0.3};
  std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
  for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {4, 8, 16})) rows.push_back(row);
  const Truth truth = {.per_byte = 1.4, .communication_slowdown = 0.3};
  measure(rows, setup, truth, random, 0);
  const Predictor predictor(rows, setup, "m.csv");
  const Calibration result = calibrated(rows, predictor);
  for (const FittedNumber& each : result.fitted)
    CHECK(each.number.quantity != FittedQuantity::communication_slowdown);
  for (const validate::CalibratedRow& row : result.rows) CHECK(row.error < 0.01);
}

TEST_CASE("calibrate: its profile and network, simulated, take as long as it predicts") {
  support::Random random(11);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
  for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {4, 8, 16})) rows.push_back(row);
  measure(rows, setup, random_truth(random), random, 0.005);
  const Predictor predictor(rows, setup, "m.csv");
  const Calibration result =
      calibrated(rows, predictor,
                 {.fit = {{FittedQuantity::startup_per_hop, FittedQuantity::fixed_startup,
                           FittedQuantity::communication_slowdown}}});
  const auto files = validate::calibrated_files(result, predictor, {6}, "m.csv");
  REQUIRE(files.size() == 3);
  CHECK(files[0].name == "n.network.json");
  CHECK(files[1].name == "a-on-n.profile.json");
  const core::Network written = core::read_network(core::Field::parse(files[0].text, files[0].name));
  const core::Field profile_file = core::Field::parse(files[1].text, files[1].name);
  const core::Profile profile = core::read_profile(profile_file);
  CHECK(written.origin.source.find("FITTED by fusewise calibrate to 14 rows of m.csv") == 0);
  CHECK(profile.origin.source.find("compute factor of model 'a'") != std::string::npos);
  planner::Conditions conditions;
  if (const auto overlap = core::read_profile_overlap(profile_file))
    conditions.overlap = {.compute_slowdown = overlap->compute_slowdown,
                          .communication_slowdown = overlap->communication_slowdown};
  for (const validate::CalibratedRow& row : result.rows) {
    if (row.measured.model != "a") continue;
    CAPTURE(row.measured.line);
    const planner::Setting setting(profile, written, row.measured.workers, {}, conditions);
    const double us =
        planner::run(setting, planner::preset_schedule(row.measured.schedule)).metrics.iteration_us;
    CHECK(us == doctest::Approx(row.iteration_us).epsilon(1e-5));
  }
  const planner::Setting more(profile, written, 6, {}, conditions);  // asked for
  CHECK(planner::run(more, planner::preset_schedule("wfbp")).metrics.iteration_us > 0);
}

TEST_CASE("calibrate: a network that is raised to its line rate can be read again") {
  support::Random random(12);
  validate::Setup setup = random_setup(random);
  core::Network& fast = setup.networks.at("n");
  fast.levels = {{.name = "inside", .size = 4, .link = {.alpha_us = 5, .beta_us_per_byte = 0.0001}},
                 {.name = "between", .size = {}, .link = {.alpha_us = 20, .beta_us_per_byte = 0.0005}}};
  fast.link.reset();
  std::vector<Measurement> rows = unmeasured({"a", "b"}, {"dense"}, {1});
  for (const Measurement& row : unmeasured({"a", "b"}, {"dense", "wfbp"}, {2, 4})) rows.push_back(row);
  measure(rows, setup, {.fixed_us = 100}, random, 0);
  const Predictor predictor(rows, setup, "m.csv");
  const Calibration result = calibrated(rows, predictor);
  const auto files = validate::calibrated_files(result, predictor, {8}, "m.csv");
  const core::Network written = core::read_network(core::Field::parse(files[0].text, files[0].name));
  // 8 workers span the level that nothing was measured on, whose link is beyond the line rate of 10 Gb/s
  CHECK(planner::Costs(written, 8, {}).of(core::CollectiveKind::all_reduce).time(100'000'000) >=
        sim::from_us(1.75 * 0.0008 * 1e8));
}

TEST_CASE("calibrate: plain predictions beside ours") {
  support::Random random(12);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"a"}, {"dense"}, {1, 4});
  for (const Measurement& row : unmeasured({"a"}, {"wfbp", "ddp"}, {4})) rows.push_back(row);
  // per worker: 100 alone, 60 and 80 on 4; ddp reaches 90
  const double rates[] = {100, 240, 320, 360};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].samples_per_s = rates[i];
  const Predictor predictor(rows, setup, "m.csv");
  const Calibration result = calibrated(rows, predictor, {}, 3);
  REQUIRE(result.nulls.size() == 3);
  CHECK(result.nulls[0].errors.mean == doctest::Approx(1.0 / 9));  // 320, the faster of both; or 400, linear
  CHECK(result.nulls[1].errors.mean == doctest::Approx(1.0 / 9));
  CHECK(result.nulls[2].errors.mean == doctest::Approx(1.0 / 3));  // 240, the first row on as many workers
}

TEST_CASE("calibrate: names that the set-up does not know") {
  support::Random random(13);
  const validate::Setup setup = random_setup(random);
  std::vector<Measurement> rows = unmeasured({"ab"}, {"dense"}, {1});
  rows[0].samples_per_s = 1;
  CHECK_THROWS_WITH_AS((void)Predictor(rows, setup, "m.csv"),
                       "m.csv:2: expected a model of the set-up, one of a, b, got 'ab', did you mean 'a'?",
                       core::InputError);
}

TEST_CASE("least squares: a curved valley, and a bound across it") {
  // Rosenbrock's function: 10 (y - x^2) and 1 - x vanish at (1, 1); with x at most 0.5 the rest is best at
  // 0.25
  validate::LeastSquares problem;
  problem.lower = Eigen::Vector2d(-5, -5);
  problem.upper = Eigen::Vector2d(5, 5);
  problem.residuals = [](const Eigen::VectorXd& at) {
    return Eigen::VectorXd(Eigen::Vector2d(10 * (at(1) - at(0) * at(0)), 1 - at(0)));
  };
  problem.jacobian = [](const Eigen::VectorXd& at, const Eigen::VectorXd& /*residuals*/) {
    Eigen::MatrixXd out(2, 2);
    out << -20 * at(0), 10, -1, 0;
    return out;
  };
  const validate::Minimum free = validate::minimize(problem, Eigen::Vector2d(-1.2, 1));
  CHECK(free.at(0) == doctest::Approx(1).epsilon(1e-4));
  CHECK(free.at(1) == doctest::Approx(1).epsilon(1e-4));
  problem.upper(0) = 0.5;
  const validate::Minimum held = validate::minimize(problem, Eigen::Vector2d(-1.2, 1));
  CHECK(held.at(0) == doctest::Approx(0.5));
  CHECK(held.at(1) == doctest::Approx(0.25).epsilon(1e-3));
}

}  // namespace
