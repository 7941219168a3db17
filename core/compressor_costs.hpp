// Measured times to encode and decode gradients on a machine: a curve over element counts for each compressor
// and density.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/network.hpp"
#include "core/origin.hpp"

namespace core {

/// Median and interquartile range of the samples of one size.
struct CodeTime {
  double us = 0;
  double spread_us = 0;
  bool operator==(const CodeTime&) const = default;
};

/// The times for gradients of one size, in float32 elements.
struct CodePoint {
  std::int64_t elements = 0;
  CodeTime encode;   ///< with error feedback
  CodeTime decode;   ///< of one contribution, added to the sum
  double bytes = 0;  ///< encoded size, mean over the samples
  bool operator==(const CodePoint&) const = default;
};

struct CodeCurve {
  std::optional<double> density;  ///< only for a compressor that keeps some of the elements
  std::vector<CodePoint> points;  ///< sorted by elements
  bool operator==(const CodeCurve&) const = default;
};

struct MeasuredCompressor {
  std::string name;
  CollectiveKind collective = CollectiveKind::all_gather;
  /// Sorted by density, all with the same sizes; or one curve without a density.
  std::vector<CodeCurve> curves;
  bool operator==(const MeasuredCompressor&) const = default;

  bool is_sparse() const { return curves.front().density.has_value(); }
};

struct CompressorCosts {
  std::string device;
  std::string command;  ///< the command that measured
  Origin origin;
  std::vector<MeasuredCompressor> compressors;
  bool operator==(const CompressorCosts&) const = default;
};

/// Reads and checks `fusewise.compressors`; throws InputError.
CompressorCosts read_compressor_costs(const core::Field& field);

std::string compressor_costs_text(const CompressorCosts& costs);

/// Returns nullptr if the compressor was not measured.
const MeasuredCompressor* find_compressor(const CompressorCosts& costs, std::string_view name);

/// The costs of a compressor at one density, interpolated linearly between measured densities.
struct CodeAt {
  CostCurve encode;  ///< over dense bytes, four per element
  CostCurve decode;
  double ratio = 1;  ///< encoded bytes per dense byte, over all sizes
};

/// Requires a density within the measured range if the compressor is sparse.
CodeAt at_density(const MeasuredCompressor& compressor, double density);

}  // namespace core
