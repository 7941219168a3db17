// What encoding and decoding gradients was measured to take on a machine: curves by elements, for each
// compressor and density.

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

/// Of gradients of so many float32 elements.
struct CodePoint {
  std::int64_t elements = 0;
  CodeTime encode;   ///< with error feedback
  CodeTime decode;   ///< of one contribution, added to the sum
  double bytes = 0;  ///< written, mean over the samples
  bool operator==(const CodePoint&) const = default;
};

struct CodeCurve {
  std::optional<double> density;  ///< of a compressor that keeps some elements
  std::vector<CodePoint> points;  ///< elements growing
  bool operator==(const CodeCurve&) const = default;
};

struct MeasuredCompressor {
  std::string name;
  CollectiveKind collective = CollectiveKind::all_gather;
  std::vector<CodeCurve> curves;  ///< densities growing, all of the same elements; one without a density
  bool operator==(const MeasuredCompressor&) const = default;

  bool is_sparse() const { return curves.front().density.has_value(); }
};

struct CompressorCosts {
  std::string device;
  std::string command;  ///< that measured
  Origin origin;
  std::vector<MeasuredCompressor> compressors;
  bool operator==(const CompressorCosts&) const = default;
};

/// Reads and checks `fusewise.compressors`; throws InputError.
CompressorCosts read_compressor_costs(const core::Field& field);

std::string compressor_costs_text(const CompressorCosts& costs);

/// nullptr: it has not been measured.
const MeasuredCompressor* find_compressor(const CompressorCosts& costs, std::string_view name);

/// A compressor at one density: straight lines between measured densities.
struct CodeAt {
  CostCurve encode;  ///< by dense bytes, four an element
  CostCurve decode;
  double ratio = 1;  ///< bytes written for a dense one, over all sizes
};

/// Asks for a density from the least to the greatest measured, where it is sparse.
CodeAt at_density(const MeasuredCompressor& compressor, double density);

}  // namespace core
