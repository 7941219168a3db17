// When each rank leaves a collective, given when each enters it, where every link is taken by one message at
// a time: the recurrence over the ranks' times that an event-by-event run would go through, without events.

#pragma once

#include <cstdint>
#include <span>

#include "sim/cluster/links.hpp"
#include "sim/cluster/pattern.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/patterns/rings.hpp"
#include "sim/time.hpp"

namespace cluster {

/// `times`: by rank, when it enters; becomes when it leaves. `collective`: as in MessageKey. Round by round a
/// rank sends as soon as it has entered, and leaves when its message is out, the one for it is in and, where
/// it is to be, summed up: t' = max(t + message, t of the sender + its message) + sum. Takes the quicker way
/// where there is one; none changes a picosecond.
/// With a `shift` times count in 2^-shift ps, and what stands in their low bits goes where they go.
void run_steps(const Collective& how, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);
void run_steps(const Pattern& pattern, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);

/// Also says for each rank who would have had to enter sooner for it to leave sooner, one of them if there
/// are several; Exchange::kNobody for all where times are too far apart to be told (51 days on 2048 ranks).
void run_steps(const Collective& how, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, std::span<std::uint32_t> origins);

/// For any pattern, message by message.
void run_rounds(const Pattern& pattern, const Links& links, std::uint64_t collective,
                std::span<sim::Time> times, unsigned shift = 0);

/// For rings: without a call per message, several ranks at once.
void run_rings(const Rings& rings, const Links& links, std::uint64_t collective, std::span<sim::Time> times,
               unsigned shift = 0);

/// Bytes stream through the trees, so that each rank has two times in each: when its first bytes are there
/// (head) and when all are (tail). Up: head = max(own start, children's heads + alpha), tail = max(own start,
/// children's tails + alpha, head + what comes in through either tree x beta + what is summed x gamma).
/// Down from the root's tail: head = parent's head + alpha, tail = max(parent's tail + alpha, head + what
/// comes in through either tree x beta). A rank leaves when it and its children have both halves. A tree's
/// message up is drawn as of round `tree`, down as of round 2 + `tree`, both as from the child.
/// Where ranks are alike and enter together and M is even the last leaves after 2 alpha lg + (2 beta + gamma)
/// M, lg = ceil(log2 ranks). Two ranks take (beta + gamma / 2) M less: each has the other as its only child,
/// in one tree, so that only half of M comes in through its port, up and down.
void run_steps(const DoubleBinaryTree& trees, const Links& links, std::uint64_t collective,
               std::span<sim::Time> times, unsigned shift = 0);

}  // namespace cluster
