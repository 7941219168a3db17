#include "planner/run/executable.hpp"

#include <algorithm>

namespace planner {

using Kind = TaskLabel::Kind;

std::size_t first_counted(const Lowered& lowered) { return lowered.marks.size() > 2 ? 1 : 0; }

std::int64_t counted(const Lowered& lowered) {
  return static_cast<std::int64_t>(lowered.marks.size() - 1 - first_counted(lowered));
}

std::size_t first_counted(const Executable& executable, Kind kind) {
  const auto& ops = executable.program.ops;
  const bool carries =
      std::ranges::any_of(ops, [](const Op& op) { return op.delivers == Delivers::own_layers; });
  const bool ends_one =
      carries && (kind == Kind::forward || kind == Kind::decode || kind == Kind::group_update);
  return first_counted(executable.lowered) + (ends_one ? 1 : 0);
}

}  // namespace planner
