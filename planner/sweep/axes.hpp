// The axes of a sweep: what the key "sweep" of a scenario varies.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"

namespace sweep {

/// What an axis varies. The order is that of the product: the first varies slowest.
enum class Quantity {
  bandwidth_factor,  ///< of the network: so many times as many bytes per second
  line_rate_gbps,    ///< likewise, as the line rate that this gives
  startup_factor,    ///< of the network: so many times as long before the first byte
  batch_size,        ///< samples per worker and micro-batch; compute grows in proportion
  density,           ///< share of the elements that sparse compressors keep
  sigma,             ///< of the jitter
  seed,              ///< of the jitter
  workers,
};

std::string_view name(Quantity quantity);

struct Axis {
  Quantity quantity = Quantity::workers;
  std::vector<double> values;  ///< whole numbers where is_whole(), up to 2^53
};

bool is_whole(Quantity quantity);

/// A value as every format writes it: the shortest form that reads back the same.
std::string text(const Axis& axis, std::size_t index);

/// The axes of a `sweep` object in the order of the product, whatever the order of its keys. Throws
/// InputError, for two axes that set the same too.
std::vector<Axis> read_axes(const core::Field& sweep);

}  // namespace sweep
