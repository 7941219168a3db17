// The parts of live runs: gradients, fusion buffers, calibration sizes, medians, and predictions written as
// text.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "tests/validate/live/live.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/compare.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/gradients.hpp"

namespace {

using live::Gradients;
using live::Spread;

TEST_CASE("live gradients: sums are what all ranks have, and differ by iteration") {
  for (const Spread spread : {Spread::narrow, Spread::wide})
    for (const std::uint32_t ranks : {2U, 5U}) {
      const Gradients gradients(7, ranks);
      constexpr std::size_t kCount = 20'000;  // more than two periods
      constexpr std::size_t kFirst = 8'000;
      std::vector<float> sum(kCount);
      std::vector<float> own(kCount);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        gradients.fill(spread, rank, 3, kFirst, own);
        for (std::size_t i = 0; i < kCount; ++i) sum[i] += own[i];
      }
      CHECK(gradients.fault_of_sums(spread, 3, kFirst, sum).empty());
      CHECK_FALSE(gradients.fault_of_sums(spread, 2, kFirst, sum).empty());
      CHECK_FALSE(gradients.fault_of_sums(spread, 3, kFirst + 1, sum).empty());
      const float right = std::exchange(sum[kCount - 1], 1e6F);
      CHECK(gradients.fault_of_sums(spread, 3, kFirst, sum) == "value " + std::to_string(kCount - 1) +
                                                                   " is 1000000, expected " +
                                                                   std::to_string(static_cast<int>(right)));
    }
}

TEST_CASE("live gradients: a part of them is the part of the whole") {
  const Gradients gradients(1, 2);
  std::vector<float> whole(10'000);
  std::vector<float> part(500);
  gradients.fill(Spread::wide, 1, 4, 0, whole);
  gradients.fill(Spread::wide, 1, 4, 8'000, part);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 8'000));
}

TEST_CASE("live: what has costs but no code is refused") {
  planner::Transfer transfer;
  transfer.compressor.name = "own-invention";
  transfer.compressor.ratio = 0.1;
  CHECK_THROWS_WITH_AS(live::method_of(transfer, true, 1),
                       "compression: expected a compressor that can be run, got 'own-invention'",
                       core::InputError);
  CHECK(live::method_of(transfer, false, 1).is_dense());
  transfer.all_reduce.name = "parameter_server";
  CHECK_THROWS_AS(live::method_of(transfer, false, 1), core::InputError);
}

TEST_CASE("live: hitopk in nodes sums what its own run between threads does") {
  planner::Transfer transfer;
  transfer.compressor = planner::sparse_compressor("hitopk", 0.1);
  const live::Method method = live::method_of(transfer, true, 2);
  const Gradients gradients(3, 4);
  std::vector<std::vector<float>> values(4, std::vector<float>(300));
  std::vector<std::string> faults(4, "not checked");
  transport::run_ranks(4, [&](transport::Transport& transport) {
    std::vector<float>& own = values[transport.rank()];
    live::FusionBuffer fusion_buffer(method, own, 4, 1);
    live::Expected expected(method, gradients, 50, own.size(), 1);
    gradients.fill(method.spread(), transport.rank(), 0, 50, own);
    fusion_buffer.encode();
    fusion_buffer.carry(transport, core::CollectiveKind::all_reduce);
    fusion_buffer.decode();
    faults[transport.rank()] = expected.fault(0, own);
  });
  for (const std::string& fault : faults) CHECK(fault.empty());
}

TEST_CASE("live calibration: sizes grow, and no run of neighbouring tensors has as many bytes") {
  const core::Profile profile = live_tests::small_profile();
  std::vector<std::int64_t> tensors;
  for (const core::ProfileLayer& layer : profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) tensors.push_back(4 * tensor.elements);
  const std::vector<std::int64_t> sizes =
      live::calibration_sizes(profile, {.sizes = 40, .min_bytes = 28, .max_bytes = 4000});
  CHECK(sizes.size() == 40);
  CHECK(std::ranges::adjacent_find(sizes, std::greater_equal<>()) == sizes.end());
  for (const std::int64_t size : sizes) {
    CHECK(size % 4 == 0);
    for (std::size_t begin = 0; begin < tensors.size(); ++begin)
      for (std::size_t end = begin + 1; end <= tensors.size(); ++end) {
        const auto at = [&](std::size_t i) { return tensors.begin() + static_cast<std::ptrdiff_t>(i); };
        CHECK(std::accumulate(at(begin), at(end), std::int64_t{0}) != size);
      }
  }
}

TEST_CASE("live: the interval of a median is by order statistics") {
  std::vector<double> values(20);
  std::iota(values.begin(), values.end(), 1);  // the 6th and the 15th: 95.9 %; one further in: 88.5 %
  std::ranges::reverse(values);
  const live::Median median = live::median_of(values);
  CHECK(median.value == 10.5);
  CHECK(median.min == 6);
  CHECK(median.max == 15);
  values.resize(30);
  std::iota(values.begin(), values.end(), 1);
  CHECK(live::median_of(values).min == 10);  // 95.7 %; the 11th leaves 4.9 % on each side
  CHECK(live::median_of({3}).min == 3);
  CHECK(live::median_of({5, 1, 3}).value == 3);
  CHECK(live::median_of({5, 1, 3}).min == 1);
  CHECK(live::median_of({5, 1, 3}).max == 5);
}

TEST_CASE("live: errors are shares of the measured iteration") {
  const live::RunSpec spec = live_tests::spec_for(R"("wfbp")", 2);
  const live::Calibration calibration = live_tests::made_up(spec);
  live::Prediction prediction = live::predict(spec, calibration);
  live::Record record;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    live::Iteration iteration = prediction.iterations[rank];
    iteration.length_us = rank == 0 ? 100 : 200;
    iteration.pieces.back().end_us += 10;
    record.workers.push_back({.rank = rank, .host = "h", .pid = 1, .iterations = {iteration}});
  }
  prediction.iteration_us = 150;
  const live::Comparison found = live::compare(spec, spec.profile, prediction, record);
  CHECK(found.iteration.measured_us == 200);
  CHECK(found.iteration.error == doctest::Approx(-0.25));
  CHECK(live::error_of(found) == doctest::Approx(0.25));
  const auto ends_later = std::ranges::count_if(found.others, [](const live::Compared& each) {
    return each.quantity.ends_with(" end") && each.error < 0;
  });
  CHECK(ends_later == 2);
  for (const live::Compared& each : found.others)
    if (each.quantity.ends_with(" end") && each.error < 0) CHECK(each.error == doctest::Approx(-10.0 / 200));
}

TEST_CASE("live: a frozen prediction and a calibration are JSON that reads back") {
  const live::RunSpec spec =
      live_tests::spec_for(R"({"pipeline": "wfbp", "compression": "dgc", "fusion": "all"})", 2);
  live::Calibration calibration = live_tests::made_up(spec);
  calibration.where = "here";
  calibration.compressors = {planner::built_in_compressor("dgc")};
  calibration.requested = {{.compressor = planner::built_in_compressor("dgc"), .error_feedback = true}};
  const live::Prediction prediction = live::predict(spec, calibration);
  const auto prediction_file = nlohmann::json::parse(live::prediction_text(spec, prediction));
  CHECK(prediction_file.at("iteration_us") == prediction.iteration_us);
  CHECK(prediction_file.at("groups").size() == 1);
  CHECK(prediction_file.at("workers").size() == 2);
  const live::Calibration back =
      live::read_calibration(core::Field::parse(live::calibration_text(calibration), "c"));
  CHECK(back.network == calibration.network);
  CHECK(back.profile == calibration.profile);
  CHECK(back.compressors == calibration.compressors);
  CHECK(back.requested == calibration.requested);
  CHECK(back.where == "here");
}

}  // namespace
