// What there is to run; each prints its lines.

#pragma once

namespace bench {

/// Of given plans, and of task graphs.
void simulation();
/// The exact planner, and what it asks for most: the value of a grouping.
void plans();
/// The exact planner beside Algorithm 1 of the Cupcake paper.
void cupcake();
/// Collectives by the recurrence over ranks.
void steps();
/// Collectives message by message.
void messages();
/// Of the elements of greatest magnitude, and what compressors take.
void selections();

}  // namespace bench
