// What one rank of a job did, as far as comparing ranks needs it: its collectives, when it computed, and its
// steps. Times are integer nanoseconds on the rank's own clock, since its first event.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "profiler/traces/kineto/device_time.hpp"
#include "profiler/traces/kineto/process_groups.hpp"

namespace ranks {

using kineto::Span;
using kineto::Spans;

/// What an exchange between ranks does. `point_to_point` is a send, a receive, or a batch of both.
enum class Kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  gather,
  scatter,
  barrier,
  point_to_point,
  unknown
};

std::string_view name(Kind kind);

/// By the name of an operator or of a kernel, such as "_allgather_base" and
/// "ncclDevKernel_AllReduce_Sum_f32".
Kind kind_of(std::string_view name);

/// Whether a network has curves for it.
bool has_curve(Kind kind);
core::CollectiveKind collective_of(Kind kind);

/// A collective, or other communication, of one rank: one kernel on its GPU.
struct Exchange {
  Span ran;
  Kind kind = Kind::unknown;
  std::uint32_t group = 0;     ///< index into the rank's groups
  std::int64_t sequence = -1;  ///< number in the group that is the same on all ranks; -1: not known
  std::string id;              ///< identifies the collective on all ranks; mostly empty
  std::int64_t bytes = 0;      ///< the total for scattered and gathered data, see states_parts; 0: not known
  std::int64_t step = -1;      ///< index into the rank's steps; -1: none
  bool is_of_layer = false;    ///< what it carries is known to belong to a layer, and not to gradients
  bool is_in_pass = false;     ///< likewise, and a forward or backward pass launched it
};

/// An iteration that the trace marks, on the host.
struct Step {
  std::string label;  ///< the number that all ranks give it
  Span span;
  std::int64_t device_start_ns = -1;  ///< the first kernel that was launched in it; before `span`: none
};

struct RankTrace {
  std::string path;
  std::int64_t rank = -1;       ///< -1: neither the trace nor its name says
  std::int64_t world_size = 0;  ///< 0: not known
  std::string device;
  std::int64_t origin_ns = 0;                ///< the first event on the rank's own clock
  std::vector<kineto::ProcessGroup> groups;  ///< as this rank knows them
  bool states_parts = false;                 ///< sizes of scattered and gathered data are those of one member
  std::optional<std::uint32_t> gradient_group;  ///< the one that sums gradients, where the trace tells
  std::vector<Exchange> exchanges;              ///< in order of their starts
  Spans compute;  ///< disjoint and in order: some kernel that does not communicate ran, or a gap between two
  Spans copies;   ///< likewise, of copies
  /// Nothing computed because the host had not launched it, whatever else ran; disjoint, in order.
  Spans waits;
  /// Exchanges of passes run, or queue behind others of their group, for example buckets of gradients;
  /// disjoint, in order.
  Spans in_passes;
  std::vector<Step> steps;         ///< in order
  std::vector<std::string> notes;  ///< what the trace lacks
};

/// When a kernel that computes was launched and when it began.
struct Launched {
  std::int64_t at_ns = 0;
  std::int64_t start_ns = 0;
};

/// Brings a trace that has been read into the order described above: sorts, unites spans, finds the step of
/// each exchange by when the host launched it, and makes times relative to the first event. Throws InputError
/// for a trace that lasts more than 11 days.
void finish(RankTrace& trace, const std::vector<std::int64_t>& launched_ns,
            const std::vector<Launched>& compute = {});

/// So many exchanges, and times in which ranks compute, copy and wait, may all ranks of a job have, so that
/// comparing them stays within 2 GiB.
constexpr std::size_t kMaxExchanges = 2'500'000;
constexpr std::size_t kMaxSpans = 16'000'000;

/// Throws InputError if ranks have more, which names the last one.
void check_sizes(const std::vector<RankTrace>& ranks);

/// Replaces all times; `change` must keep their order.
void change_times(RankTrace& trace, const std::function<std::int64_t(std::int64_t)>& change);

}  // namespace ranks
