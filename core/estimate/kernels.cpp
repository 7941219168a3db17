#include "core/estimate/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace core {
namespace {

constexpr double kFlopsPerTeraflopUs = 1e6;
/// Thread blocks compute tiles of 64 x 64 results at least, whatever part of them is wanted, and usually
/// twice that.
constexpr double kTileSide = 64;
constexpr double kTile = 2 * kTileSide * kTileSide;

/// Up to so many rows are multiplied as vectors, without tiles.
constexpr double kVectors = 8;

double filled_up(double side) { return side <= kVectors ? side : std::ceil(side / kTileSide) * kTileSide; }

}  // namespace

double Kernels::product_us(const Product& product) const {
  double results = product.count * filled_up(product.rows) * filled_up(product.columns);
  // Multiprocessors that are left without a tile in the last wave wait.
  const double wave = device_.multiprocessors * kTile;
  if (product.whole_sums) results = std::ceil(results / wave) * wave;
  const double tflops = product.on_tensor_cores
                            ? peak() * kShareOfTensorCorePeak
                            : (tensor_cores() ? device_.float32_tflops : peak()) * kShareOfPeak;
  return std::max(2 * results * product.inner / (tflops * product.speed * kFlopsPerTeraflopUs),
                  bytes_us(product.elements * element_bytes(), kShareOfBandwidth)) +
         kLaunchUs;
}

double Kernels::roofline_us(double flops, double elements, double launches) const {
  return std::max(flops / (peak() * share_of_peak() * kFlopsPerTeraflopUs),
                  bytes_us(elements * element_bytes(), kShareOfBandwidth)) +
         launches * kLaunchUs;
}

}  // namespace core
