// All-gathers of messages of any length: on a ring, and in ceil(log2 P) rounds where all lengths are known.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/transport.hpp"

namespace sparse {

/// What each rank gave, in the order of ranks. On a ring: P-1 messages, each rank receives exactly what the
/// others gave, no length or other control word. With encoded gradients as `own` this is the collective of
/// compressors whose sum has no code: each rank then decodes all.
std::vector<transport::Bytes> all_gather(transport::Transport& transport, transport::Bytes own);

/// The same in ceil(log2 P) messages of doubled length, for any P, by the algorithm of Bruck et al. (1997).
/// All ranks know how many bytes each gives; one that gives another number ends with std::invalid_argument.
std::vector<transport::Bytes> all_gather_known(transport::Transport& transport, transport::Bytes own,
                                               std::span<const std::size_t> sizes);

/// One number of each rank, in the order of ranks; P-1 words received.
std::vector<std::uint32_t> all_gather_word(transport::Transport& transport, std::uint32_t own);

}  // namespace sparse
