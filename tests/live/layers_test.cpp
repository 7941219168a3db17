// Layers that are timed, and the all-reduces before and beside them.

#include <filesystem>

#include <doctest/doctest.h>

#include "models/errors.hpp"
#include "models/field.hpp"
#include "tests/support/changing.hpp"
#include "tests/support/program.hpp"
#include "transport/in_process.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/parcel_engine.hpp"

namespace {

live::Wishes wishes() {
  const std::filesystem::path root = support::source_dir();
  live::Wishes out;
  out.layers = live::RealLayers{
      .model = models::read_model(models::Field::load(root / "validate/suites/models/small-cnn.json")),
      .computing = 1};
  return out;
}

/// Rank 0 computes; a byte of rank 1's message `number` of these sizes is changed.
live::LayerTimes timed(std::size_t least, std::size_t most, std::size_t number) {
  live::LayerTimes out;
  transport::run_ranks(3, [&](transport::Transport& end) {
    tests::Changing changing(end, end.rank() == 1 ? least : SIZE_MAX, most, number);
    live::ParcelEngine engine(changing, "ring", 1);
    live::LayerTimes own = live::measured_layers(changing, engine, wishes(), 2);
    if (end.rank() == 0) out = std::move(own);
  });
  return out;
}

TEST_CASE("layers: are timed on the rank that computes, and a changed byte of any all-reduce is found out") {
  // The last pieces of a third of 256 KiB, which go beside layers, four in an all-reduce.
  constexpr std::size_t kLeast = 21'800;
  constexpr std::size_t kMost = 21'900;
  const live::LayerTimes good = timed(kLeast, kMost, SIZE_MAX);
  for (const traces::ProfileLayer& layer : good.profile.layers) CHECK(layer.forward_us > 0);
  CHECK(good.overlap.compute_slowdown >= 0);
  for (const std::size_t number : {0U, 5U, 18U}) {
    CAPTURE(number);
    CHECK_THROWS_WITH_AS(timed(kLeast, kMost, number), doctest::Contains("a sum of zeros is not 0"),
                         models::WorldError);
  }
  // Whole pieces of 64 KiB: the first is of the all-reduce before layers.
  CHECK_THROWS_WITH_AS(timed(65'536, 65'536, 0), doctest::Contains("all-reduce before layers"),
                       models::WorldError);
}

}  // namespace
