// Computes when each rank leaves a collective from when each enters it, if every link carries one message at
// a time. This recurrence gives the times of an event-driven run without events.

#pragma once

#include <cstdint>
#include <span>

#include "sim/cluster/links.hpp"
#include "sim/cluster/pattern.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/patterns/rings.hpp"
#include "sim/time.hpp"

namespace cluster {

/// `times`, indexed by rank: when it enters; replaced by when it leaves. `collective`: as in MessageKey. In
/// each round a rank sends as soon as it has entered and leaves when its message is sent, the message for it
/// has arrived and, where needed, is summed: t' = max(t + message, t of the sender + its message) + sum.
/// Chooses the fastest of several methods; all give the same picoseconds. With a `shift`, times count in
/// units of 2^-shift ps, and their low bits are carried along. Throws sim::TooLong.
void run_steps(const Collective& how, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);
void run_steps(const Pattern& pattern, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);

/// Also returns for each rank the rank that would have had to enter sooner for it to leave sooner (one of
/// them if there are several); Exchange::kNobody for all if times are too far apart to tell (16 minutes on
/// 2048 ranks).
void run_steps(const Collective& how, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, std::span<std::uint32_t> origins);

/// Returns the work of run_steps() without origins, in steps of about a nanosecond. It is counted from ranks
/// for rings without random factors, and otherwise from messages.
double steps_work(const Collective& how, const Links& links);

/// For any pattern, message by message.
void run_rounds(const Pattern& pattern, const Links& links, std::uint64_t collective,
                std::span<sim::Time> times, unsigned shift = 0);

/// For rings: all rounds at once without random factors, and otherwise several ranks at once.
void run_rings(const Rings& rings, const Links& links, std::uint64_t collective, std::span<sim::Time> times,
               unsigned shift = 0);

/// Also returns origins as Messages tracks them, which are the same unless two messages for a rank end at the
/// same time: then that of the higher rank counts as the last. Requires messages that take at least 1 ps.
void run_rings_in_event_order(const Rings& rings, const Links& links, std::uint64_t collective,
                              std::span<sim::Time> times, std::span<std::uint32_t> origins);

/// Bytes are streamed through the trees, so each rank has two times in each: when its first bytes have
/// arrived (head) and when all have (tail). Up: head = max(own start, children's heads + alpha), tail =
/// max(own start, children's tails + alpha, head + received bytes of both trees x beta + summed bytes x
/// gamma). Down from the root's tail: head = parent's head + alpha, tail = max(parent's tail + alpha, head +
/// received bytes of both trees x beta). A rank leaves when it and its children have both halves. The random
/// factor of a tree's message is that of round `tree` on the way up and of round 2 + `tree` on the way down,
/// both for the child. If ranks are alike and enter together and M is even, the last one leaves after 2 alpha
/// lg + (2 beta + gamma) M, lg = ceil(log2 ranks). Two ranks take (beta + gamma / 2) M less: each has the
/// other as its only child, in one tree, so only half of M passes its port, up and down.
void run_steps(const DoubleBinaryTree& trees, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);

}  // namespace cluster
