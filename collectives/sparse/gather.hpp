// All-gathers of messages of any length: on a ring, and in ceil(log2 P) rounds where all lengths are known.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace sparse {

/// What each rank gave, in the order of ranks. On a ring: P-1 messages, each rank receives exactly what the
/// others gave, no length or other control word. With encoded gradients as `own` this is the collective of
/// compressors whose sum has no code: each rank then decodes all.
std::vector<transport::Bytes> all_gather(transport::Transport& transport, transport::Bytes own);

/// How many messages may wait for a rank that is late; 0: any number. Beyond it a rank waits until the next
/// one has taken an earlier message, which it says by a message without content: of P-1 messages P-1-window
/// are answered so, in a phase "taken" of their own.
using Window = std::uint32_t;

/// The same on the same ring, but what arrives is given to `visit`, own first, then in the order of arrival,
/// and is passed on and forgotten: one message at a time is in memory.
void all_gather_each(transport::Transport& transport, transport::Bytes own,
                     const std::function<void(std::uint32_t rank, std::span<const std::byte>)>& visit,
                     Window window = 0);

/// The same in the order of ranks, for sums that must not depend on who sums. As many messages and words; but
/// as a rank passes on only what it has visited, the last block sets out when the first has come round: up to
/// twice the time of the others.
void all_gather_in_order(transport::Transport& transport, transport::Bytes own,
                         const std::function<void(std::span<const std::byte>)>& visit, Window window = 0);

/// Visited in the order of ranks: all gathered at once where P times `max_bytes` are at most `room`, else
/// one at a time, with two at most that wait. Both are the same on all ranks, and no rank gives more than
/// `max_bytes`.
void all_gather_within(transport::Transport& transport, transport::Bytes own, std::size_t max_bytes,
                       std::size_t room, const std::function<void(std::span<const std::byte>)>& visit);

/// The same in ceil(log2 P) messages of doubled length, for any P, by the algorithm of Bruck et al. (1997).
/// All ranks know how many bytes each gives; one that gives another number ends with std::invalid_argument.
std::vector<transport::Bytes> all_gather_known(transport::Transport& transport, transport::Bytes own,
                                               std::span<const std::size_t> sizes);

/// One number of each rank, in the order of ranks; P-1 words received.
std::vector<std::uint32_t> all_gather_word(transport::Transport& transport, std::uint32_t own);

}  // namespace sparse
