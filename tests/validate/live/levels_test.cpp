// Links inside and between nodes: the levels for a number of workers, and whether workers share a link.

#include <vector>

#include <doctest/doctest.h>

#include "tests/validate/live/live.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/execute.hpp"
#include "validate/live/levels.hpp"

namespace {

using core::Link;

TEST_CASE("live levels: a link is shared where all at once take more than halfway to as many times as long") {
  const Link alone = {.alpha_us = 10, .beta_us_per_byte = 0.01};
  const auto of = [&](double beta, std::uint32_t workers) {
    return live::shared_link(alone, {.alpha_us = 12, .beta_us_per_byte = beta}, workers);
  };
  CHECK_FALSE(of(0.0149, 2).shared);
  CHECK(of(0.0149, 2).link == Link{.alpha_us = 12, .beta_us_per_byte = 0.0149});
  CHECK(of(0.0151, 2).shared);
  CHECK(of(0.02, 2).link == Link{.alpha_us = 12, .beta_us_per_byte = 0.01});
  CHECK_FALSE(of(0.024, 4).shared);
  CHECK(of(0.036, 4).shared);
  CHECK(of(0.036, 4).link.beta_us_per_byte == doctest::Approx(0.009));
}

std::vector<core::Level> levels(std::uint32_t workers, std::uint32_t per_node) {
  std::vector<core::Level> out;
  transport::run_ranks(workers, [&](transport::Transport& transport) {
    const std::vector<core::Level> own =
        live::measured_levels(transport, per_node, {4'000, 40'000, 400'000}, 2);
    if (transport.rank() == 0)
      out = own;
    else
      CHECK(own.empty());
  });
  return out;
}

TEST_CASE("live levels: inside nodes where they have several workers, between where there are several") {
  const std::vector<core::Level> both = levels(4, 2);
  REQUIRE(both.size() == 2);
  CHECK(both[0].size == 2);
  CHECK_FALSE(both[1].size);
  for (const core::Level& level : both) {
    CHECK(level.link.alpha_us >= 0);
    CHECK(level.link.alpha_us + level.link.beta_us_per_byte > 0);
  }
  const std::vector<core::Level> flat = levels(3, 1);
  REQUIRE(flat.size() == 2);
  CHECK(flat[0].size == 1);
  CHECK_FALSE(flat[1].shared);
  CHECK(flat[0].link == flat[1].link);
  const std::vector<core::Level> one = levels(3, 3);
  REQUIRE(one.size() == 1);
  CHECK_FALSE(one[0].size);
}

TEST_CASE("live: hitopk and compression between nodes are calibrated, predicted and run as processes") {
  live::WorkerGroup worker_group({.workers = 4, .deadline_s = 20});
  std::vector<live::RunSpec> all;
  for (const char* text : {R"({"name": "hitopk", "density": 0.05})", R"({"name": "hitopk", "density": 0.2})",
                           R"({"pipeline": "wfbp", "fusion": {"kind": "groups", "count": 2},
            "compression": {"name": "dgc", "between_nodes": true}})"}) {
    all.push_back(live_tests::spec_for(text, 4));
    all.back().workers_per_node = 2;
    all.back().all_reduce.name = "two_level";
    all.back().error_feedback = all.size() > 1;
  }
  const live::Calibration calibration =
      live::calibrate(worker_group, all, {.repetitions = 2, .warm_up = 1, .sizes = 3});
  REQUIRE(calibration.network.levels.size() == 2);
  CHECK(calibration.network.levels[0].size == 2);
  REQUIRE(calibration.compressors.size() == 3);
  REQUIRE(calibration.requested.size() == 3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    CHECK(calibration.requested[i].compressor == all[i].schedule.compressor);
    const live::Prediction prediction = live::predict(all[i], calibration);
    CHECK(prediction.transfers.front().compressor == calibration.compressors[i]);  // with its own density
    CHECK(prediction.iteration_us > 0);
    const live::Record record = live::execute(worker_group, all[i], calibration, prediction);
    for (const live::WorkerRecord& worker : record.workers) CHECK(worker.iterations.size() == 2);
  }
}

}  // namespace
