// Synthetic gradients for figures that are counted in runs of the sparse all-reduces between threads: small
// and sampled from a seed, so that a count is the same on every machine.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectives/sparse/gradients.hpp"
#include "collectives/transport/counted.hpp"
#include "validate/paper/request.hpp"

namespace validate {

/// The keys of every figure with synthetic gradients: `workers`, `elements`, `density`, `calls`, `gradients`.
struct SampledGradients {
  std::uint32_t ranks = 0;
  std::size_t elements = 0;
  std::size_t kept = 0;
  std::uint64_t calls = 1;
  sparse::GradientSource source;

  std::vector<float> gradient(std::uint32_t rank, std::uint64_t call) const;
};

/// Returns the keys above and `more`.
std::vector<std::string_view> sampled_keys(const std::vector<std::string_view>& more);

SampledGradients read_sampled(const Request& request);

}  // namespace validate
