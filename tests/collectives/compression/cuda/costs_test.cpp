// The costs that a GPU's benchmark writes, with its kernels run on the host.

#include "bench/cuda/costs.hpp"

#include <doctest/doctest.h>

#include "tests/collectives/compression/cuda/host_lanes.hpp"

namespace {

TEST_CASE("gpu costs: every compressor is measured, and what is written is read") {
  compression::cuda::Device device(support::host_engine(1));
  const core::CompressorCosts costs =
      bench::costs_on(device, {.elements = {100, 5000}, .densities = {0.01, 0.1}, .repetitions = 2}, "test");
  const std::string text = core::compressor_costs_text(costs);
  CHECK(core::read_compressor_costs(core::Field::parse(text, "costs.json")) == costs);
  CHECK(costs.device == "host");
  REQUIRE(costs.compressors.size() == compression::compressors().size());
  for (const compression::Compressor& compressor : compression::compressors()) {
    CAPTURE(compressor.name);
    const core::MeasuredCompressor* measured = find_compressor(costs, compressor.name);
    REQUIRE(measured != nullptr);
    CHECK(measured->curves.size() == (measured->is_sparse() ? 2 : 1));
    CHECK((measured->collective == core::CollectiveKind::all_reduce) == compressor.sums());
    for (const core::CodeCurve& curve : measured->curves)
      for (const core::CodePoint& point : curve.points) {
        CAPTURE(point.elements);
        const compression::WireSize size =
            compressor.wire_bytes(static_cast<std::size_t>(point.elements), curve.density.value_or(1));
        CHECK(point.bytes >= static_cast<double>(size.min));
        CHECK(point.bytes <= static_cast<double>(size.max));
      }
  }
}

}  // namespace
