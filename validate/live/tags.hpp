// Tags of the messages of a live run.

#pragma once

#include <cstdint>

namespace live {

/// Tags of messages outside the collectives of collectives/sparse, whose tags are lower.
enum class Tag : std::uint32_t { barrier = 50, clock, start, order, record, dense = 100 };
constexpr std::uint32_t tag_of(Tag tag) { return static_cast<std::uint32_t>(tag); }

}  // namespace live
