// PyTorch execution traces (torch.profiler.ExecutionTraceObserver): which gradients became ready in which
// order, and which buckets DDP sent. They hold no times.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/traces/ranks/rank_trace.hpp"

namespace ranks {

struct ReadyGradient {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};

struct Bucket {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t gradients = 0;  ///< that it carries; 0: they do not add up to it
};

/// One iteration, in the order in which the host did things.
struct RecordedIteration {
  std::vector<ReadyGradient> gradients;
  std::vector<Bucket> buckets;
};

/// Another collective, or an all-reduce outside backward passes.
struct OtherExchange {
  Kind kind = Kind::unknown;
  std::int64_t elements = 0;
  std::int64_t count = 0;
};

/// What DDP's rule, "append, then close at >= cap", says about the cap that made these buckets: it is above
/// `from` and at most `to` bytes.
struct CapRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

struct ExecutionTrace {
  std::string path;
  std::string schema;
  std::int64_t nodes = 0;
  std::string group_name;
  std::string group_description;
  std::int64_t group_size = 0;                ///< 0: not known
  std::vector<RecordedIteration> iterations;  ///< those that have gradients or buckets
  std::vector<OtherExchange> others;          ///< by kind and size
};

/// Throws InputError for a file that is no execution trace.
ExecutionTrace read_execution_trace(const std::string& path);

/// The caps of the first and of the other buckets; nothing if no bucket but the last of an iteration tells.
std::optional<CapRange> first_cap(const ExecutionTrace& trace);
std::optional<CapRange> other_cap(const ExecutionTrace& trace);

std::string execution_text(const ExecutionTrace& trace);

/// `fusewise.buckets` (fusewise schema buckets).
std::string execution_json(const ExecutionTrace& trace);

}  // namespace ranks
