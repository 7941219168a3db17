// What the passes over a layer take: the kernels that a framework runs for its kind.

#pragma once

#include <cstdint>
#include <vector>

#include "core/estimate/kernels.hpp"
#include "core/model/model.hpp"

namespace core {

struct LayerTimes {
  double forward_us = 0;
  double backward_us = 0;
};

/// One for each layer of the model, views included. Layers of whose inputs nothing is trained compute no
/// gradients of these.
std::vector<LayerTimes> layer_times(const Model& model, const Kernels& kernels, std::int64_t batch_size);

}  // namespace core
