// The list of benchmarks; each prints its lines.

#pragma once

namespace bench {

/// Simulation of given plans and of task graphs.
void simulation();
/// The exact planner, and its most frequent operation: the value of a grouping.
void plans();
/// The exact planner compared with Algorithm 1 of the Cupcake paper.
void cupcake();
/// Points of sweeps.
void sweeps();
/// Collectives by the recurrence over ranks.
void steps();
/// Collectives message by message.
void messages();
/// Selection of the elements of largest magnitude, and compressors.
void selections();

}  // namespace bench
