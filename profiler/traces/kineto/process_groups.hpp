// The process groups of a trace.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

struct ProcessGroup {
  std::string name;  ///< empty: the trace names none
  std::string description;
  std::vector<std::int64_t> members;  ///< global ranks, ascending; empty: not known
  std::int64_t size = 0;              ///< 0: not known
  std::int64_t stream = -1;           ///< tells groups without a name apart: each has a stream of its own
};

/// Finds the group of each collective. Groups of the same name and other members are different groups.
class ProcessGroups {
 public:
  explicit ProcessGroups(const Trace& trace);

  std::uint32_t index_of(const Collective& collective);
  const std::vector<ProcessGroup>& found() const { return found_; }

 private:
  using Said = std::tuple<TextId, TextId, TextId, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  ProcessGroup group_of(const Collective& collective) const;
  std::uint32_t index_of(ProcessGroup group);
  [[noreturn]] void refuse_members(std::size_t most) const;

  const Trace& trace_;
  std::map<std::string, ProcessGroup> listed_;
  std::map<Said, std::uint32_t> known_;
  std::vector<ProcessGroup> found_;
  /// By name, stream and members.
  std::map<std::tuple<std::string, std::int64_t, std::vector<std::int64_t>>, std::uint32_t> places_;
  std::size_t members_ = 0;    ///< of all found groups
  std::size_t described_ = 0;  ///< members in all descriptions of groups
};

/// Returns "7 (mesh_dp)", or "stream 0" for the first group without a name.
std::string title(const std::vector<ProcessGroup>& groups, std::uint32_t group);

}  // namespace kineto
