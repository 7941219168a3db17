// How many elements each gradient of a trace has: from its shape, from a list of the model's parameters, or
// from the buckets that were all-reduced.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/profile.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

struct Bucket {
  std::int64_t launched_ns = 0;
  std::int64_t elements = 0;
};

/// Returns the collectives that sum the gradients of each step, in the order of their launches: the
/// reduce-scatters, or the all-reduces of a trace that has none. Of several micro-batches they are those of
/// the last.
std::vector<std::vector<Bucket>> buckets_of(const Trace& trace, const Calls& calls);

/// Whether micro-batches before the last one sum their gradients, too, in a step whose last one alone is
/// kept.
bool sums_earlier_batches(const Trace& trace, const Calls& calls);

/// The type of most elements of gradients that all-reduces and reduce-scatters carry; float32 if no trace
/// shows it.
core::Dtype gradient_dtype(const Trace& trace, const Calls& calls);

/// Sets the elements of every gradient. `parameters` are the sizes of the model's parameters in the order of
/// the model; they may be empty. Returns what was assumed, for an origin; empty if the trace has all shapes.
/// Throws InputError if the sizes cannot be known.
std::string find_gradient_sizes(const Trace& trace, Calls& calls,
                                const std::vector<std::int64_t>& parameters);

/// Gives all-reduces whose sizes the trace does not hold the gradients that became ready since the one before
/// in their step. Returns whether there were such.
bool add_bucket_sizes(Trace& trace, const Calls& calls);

constexpr std::string_view kAssumedBuckets =
    "ASSUMED, as the trace does not hold the sizes of its all-reduces: each sends the gradients that became "
    "ready since the one before";

/// The same where the sizes of gradients are known by their shapes or by `parameters`; otherwise it leaves
/// the all-reduces as they are. Earlier micro-batches are left out of the calls.
bool add_bucket_sizes_if_known(Trace& trace, Calls& calls, const std::vector<std::int64_t>& parameters);

}  // namespace kineto
