// All-gathers of messages of any length: on a ring, or in ceil(log2 P) rounds if all lengths are known.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace sparse {

/// Returns the messages of all ranks, in the order of ranks. On a ring: P-1 messages, each rank receives
/// exactly the other ranks' data, without control words. With encoded gradients as `own` this is the
/// collective for compressors whose encodings cannot be summed: each rank then decodes all. No rank may send
/// more than `max_bytes`.
std::vector<transport::Bytes> all_gather(transport::Transport& transport, transport::Bytes own,
                                         std::size_t max_bytes = transport::kAnySize);

/// How many messages may wait for a late rank; 0: any number. Beyond it a rank waits until the next one has
/// taken an earlier message, which that rank confirms by an empty message: P-1-window of the P-1 messages are
/// confirmed, in a phase "taken" of their own.
using Window = std::uint32_t;

/// As above, but passes each message to `visit`, the rank's own first, then in the order of arrival, then
/// forwards and frees it: one message at a time is in memory.
void all_gather_each(transport::Transport& transport, transport::Bytes own,
                     const std::function<void(std::uint32_t rank, std::span<const std::byte>)>& visit,
                     Window window = 0, std::size_t max_bytes = transport::kAnySize);

/// As above, but in the order of ranks, for sums that must not depend on the rank that sums. The number of
/// messages and words is the same; but as a rank forwards only what it has visited, the last block starts
/// when the first has gone round: up to twice the time of the others.
void all_gather_in_order(transport::Transport& transport, transport::Bytes own,
                         const std::function<void(std::span<const std::byte>)>& visit, Window window = 0,
                         std::size_t max_bytes = transport::kAnySize);

/// Visits messages in the order of ranks: all gathered at once if P times `max_bytes` is at most `room`,
/// otherwise one at a time, with at most two that wait. Both values are the same on all ranks, and no rank
/// sends more than `max_bytes`.
void all_gather_within(transport::Transport& transport, transport::Bytes own, std::size_t max_bytes,
                       std::size_t room, const std::function<void(std::span<const std::byte>)>& visit);

/// An all-gather in ceil(log2 P) messages of doubling length, for any P, by the algorithm of Bruck et al.
/// (1997). All ranks know how many bytes each sends; a rank that sends another number gets
/// std::invalid_argument.
std::vector<transport::Bytes> all_gather_known(transport::Transport& transport, transport::Bytes own,
                                               std::span<const std::size_t> sizes);

/// Gathers one number per rank, in the order of ranks; P-1 words received.
std::vector<std::uint32_t> all_gather_word(transport::Transport& transport, std::uint32_t own);

}  // namespace sparse
