// The parts of a PyTorch profiler (Kineto) trace that are kept: operators and ranges on the host, launches,
// and GPU work. Times are integer nanoseconds; each text is stored once.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/traces/kineto/device_time.hpp"

namespace kineto {

enum class TextId : std::uint32_t {};

/// Stores every different text once: a trace of a million events has a few thousand. TextId{} is empty.
class Texts {
 public:
  Texts() { id(""); }
  Texts(Texts&&) = default;
  Texts& operator=(Texts&&) = default;

  TextId id(const std::string& text) {
    const auto [found, is_new] = ids_.try_emplace(text, static_cast<std::uint32_t>(all_.size()));
    if (is_new) {
      all_.push_back(&found->first);
      bytes_ += text.size();
    }
    return TextId{found->second};
  }
  const std::string& operator[](TextId id) const { return *all_[static_cast<std::size_t>(id)]; }
  /// Returns the length of all texts.
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<const std::string*> all_;  // keys of the map, which stay where they are
  std::size_t bytes_ = 0;
};

enum class RangeKind : std::uint8_t {
  operation,   ///< of PyTorch, forward or backward
  annotation,  ///< by the user, the optimizer or the profiler's steps
  module       ///< a call of an nn.Module
};

/// An event with a duration on a host thread.
struct Range {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t sequence = -1;  ///< connects a forward operator with its backward; -1: none
  std::int64_t external = 0;   ///< the "External id" that its kernels have, too; 0: none
  TextId name{};
  TextId thread{};
  TextId shapes{};               ///< "[[512, 3], [4]]", or empty
  TextId dtype{};                ///< of the first input, or empty
  std::int32_t collective = -1;  ///< what it says of one: index into the trace's, or none
  RangeKind kind = RangeKind::operation;
};

/// A call that starts work on a GPU.
struct Launch {
  std::int64_t at_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = 0;
  TextId thread{};
};

/// A collective as a kernel, an operator or an annotation describes it; texts may be empty.
struct Collective {
  TextId name{};
  TextId dtype{};
  std::int64_t in_elements = 0;
  std::int64_t out_elements = 0;
  std::int64_t group_size = 0;
  TextId group_name{};
  TextId group_description{};
  TextId group_ranks{};  ///< "[0, 2]"
  std::int64_t rank_start = -1;
  std::int64_t rank_stride = 0;
  std::int64_t sequence = -1;
  TextId id{};  ///< the same on all ranks
  std::int64_t stream = -1;
};

/// An event on a GPU.
struct Kernel {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = 0;
  std::int64_t external = 0;     ///< of the operator that launched it; 0: not known
  std::int64_t bytes = 0;        ///< of a copy
  std::int32_t collective = -1;  ///< index into the trace's, or none for a kernel that does not communicate
  TextId name{};
};

struct Trace {
  std::string path;
  Texts texts;
  std::string device;           ///< of the first GPU in the trace, or empty
  std::int64_t world_size = 0;  ///< number of processes of the job, or 0
  std::int64_t rank = -1;       ///< of this one, or -1
  std::int64_t base_ns = 0;     ///< to be added to all times for those of the host's clock
  std::string groups_json;      ///< the process groups that it lists (pg_config), or empty
  std::vector<Range> ranges;
  std::vector<Launch> launches;
  std::vector<Kernel> kernels;
  std::vector<Collective> collectives;
  Spans blocked;                   ///< host threads waited for the GPU
  std::vector<std::int64_t> lost;  ///< the correlations of kernels that are left out, as they have no time
  std::int64_t broken = 0;         ///< events on the host that are left out, see clean()
  std::int64_t duplicates = 0;     ///< events that are left out
  std::int64_t repaired = 0;       ///< places of the file, see JsonRepair
  bool has_graphs = false;         ///< a CUDA graph was launched
  bool several_processes = false;  ///< more than one launched kernels, as if ranks were joined in one file
  bool is_cut_off = false;         ///< the file ends amid its events
  bool is_of_autograd = false;     ///< written by torch.autograd.profiler without Kineto
  std::int64_t events = 0;         ///< number of events in the file
};

}  // namespace kineto
