// The axes of a sweep, from the key "sweep" of a scenario.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"

namespace sweep {

/// The quantity that an axis varies, in the order of the product: the first varies slowest.
enum class Quantity {
  bandwidth_factor,  ///< factor on the network's bytes per second
  line_rate_gbps,    ///< factor on the network's bytes per second, given as the resulting line rate
  startup_factor,    ///< factor on the network's startup times
  batch_size,        ///< samples per worker and micro-batch; compute is proportional
  density,           ///< share of the elements that sparse compressors keep
  sigma,             ///< sigma of the jitter
  seed,              ///< seed of the jitter
  pipeline_stages,   ///< of the key `parallel`
  micro_batches,     ///< of an iteration through the stages
  workers,
};

std::string_view name(Quantity quantity);

struct Axis {
  Quantity quantity = Quantity::workers;
  std::vector<double> values;  ///< integers up to 2^53 if is_whole()
};

bool is_whole(Quantity quantity);

/// The value as text: the shortest form that reads back the same, in every output format.
std::string text(const Axis& axis, std::size_t index);

/// Reads the axes of a `sweep` object, in the order of the product regardless of the order of keys. Throws
/// InputError, also if two axes set the same quantity.
std::vector<Axis> read_axes(const core::Field& sweep);

}  // namespace sweep
