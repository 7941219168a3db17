// Traces of training on CPUs: there the operators compute themselves, and threads of Gloo are the channel.

#pragma once

#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

/// Gives a trace without a GPU the kernels that the rest of the import reads. An outermost operator is a
/// kernel from its start to its end, without the time in which it waits for a collective; what DDP copies out
/// of buckets in it is a kernel of its own. A collective of Gloo is a kernel on the channel. The traces of
/// jobs that ran on a GPU, whose operators only launch, are left as they are.
void add_host_kernels(Trace& trace);

/// Whether it did.
bool computes_on_host(const Trace& trace);

}  // namespace kineto
