// What is run live and what is recorded: plain structs that calibrate(), predict(), run() and compare() hand
// to each other. Measured and predicted pieces of an iteration are the same struct.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/model.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/graph/lowered.hpp"
#include "planner/job/conditions.hpp"
#include "planner/run/predict.hpp"
#include "planner/schedule/schedule.hpp"

namespace live {

// ---- what to run

/// Layers that are computed for real, where they are not waited for.
struct RealLayers {
  core::Model model;
  std::string backend = "cpu";    ///< of profiler::backends()
  std::int64_t batch_size = 1;    ///< samples per worker
  std::uint32_t computing = ~0U;  ///< ranks below it compute; the others wait as long as layers were measured

  bool are_run_by(std::uint32_t rank) const { return rank < computing; }
};

/// Spoils one value after a collective, so that tests see the check fail.
struct WrongValue {
  std::uint32_t rank = 0;
  std::uint32_t iteration = 0;  ///< counted from 0, warm-up included
  std::uint32_t group = 0;
};

/// One plan on one number of workers; the same on all ranks.
struct RunSpec {
  std::string name;  ///< of the plan, in tables and files
  /// What a worker computes: layers are waited for as long as it says. With `layers` calibrate() replaces
  /// its times by measured ones; its layers and tensors must be those of the model.
  core::Profile profile;
  planner::Schedule schedule;      ///< pipeline, grouping, compression
  planner::Algorithm all_reduce;   ///< where the schedule has none of its own
  planner::Conditions conditions;  ///< stragglers, accumulation_steps and update are run; jitter is not
  std::optional<RealLayers> layers;
  std::uint32_t workers = 4;           ///< as many as the place has
  std::uint32_t workers_per_node = 1;  ///< of two_level and hitopk
  std::uint32_t iterations = 20;       ///< that are recorded
  std::uint32_t warm_up = 3;           ///< that are run before them
  std::uint64_t seed = 1;              ///< of the gradients
  /// Whether what encodings and selections leave out is added to the next iteration's gradient; with
  /// efsignsgd it always is.
  bool error_feedback = false;
  std::optional<WrongValue> wrong = {};
};

/// The way of the schedule, and those of the choices that it offers.
std::vector<planner::Transfer> transfers_of(const RunSpec& spec);

/// Where the workers are, and what carries dense groups between them.
struct Place {
  std::uint32_t workers = 4;
  std::string backend = "tcp";  ///< of measure::collective_backends()
  bool share_gpu = false;       ///< with a backend that has GPUs: several workers may have the same
  bool computes = false;        ///< likewise: layers run there, so each worker has to see its GPU first
  std::optional<double> bits_per_second = {};  ///< of each worker's link, in both directions; none: loopback
  double delay_us = 0;                         ///< of each packet; needs network namespaces
  /// So many workers share a link of this rate to the others; 0: none does. Needs network namespaces.
  std::uint32_t workers_per_node = 0;
  double between_bits_per_second = 0;
  bool paced = false;       ///< on loopback, each process holding itself to the rate, never in namespaces
  std::string netlab = {};  ///< in the netlab of this name, which is up, instead of one of their own
  double deadline_s = 60;   ///< that a worker waits for another one
  double limit_s = 3600;    ///< of a calibration or a run as a whole; workers that still run are killed
};

// ---- what was measured before

/// A compressor as wishes have it.
struct Asked {
  planner::Compressor compressor;
  bool error_feedback = false;
  bool operator==(const Asked&) const = default;
};

/// Network and profile under the conditions of the run.
struct Calibration {
  core::Network network;  ///< curves of isolated collectives, and the link
  core::Profile profile;  ///< the wishes', or with `layers` the measured one
  /// Of real layers and all-reduces beside them; where layers are waited for nothing slows down.
  planner::Overlap overlap;
  /// Of the schedules' compressors, and of their choices': names, ratios and costs as measured.
  std::vector<planner::Compressor> compressors;
  std::vector<Asked> asked = {};  ///< for each of them: the same name may be asked for at several densities
  std::string where;              ///< "4 processes, network namespaces, each link held to 1 Gb/s"
};

// ---- what is predicted and what was recorded

/// A task of the graph as it was simulated or as it ran: a layer's pass, a group's encoding, a collective,
/// ...
struct Piece {
  planner::TaskLabel::Kind kind = planner::TaskLabel::Kind::forward;
  std::uint32_t item = 0;  ///< as in planner::TaskLabel
  double ready_us = 0;     ///< when this worker issued a collective; for other tasks the same as start_us
  double start_us = 0;     ///< all times count from the iteration's begin
  double end_us = 0;

  bool is_collective() const;
};

/// One iteration of one worker, between two of planner::Lowered::marks. It begins on all workers at once.
struct Iteration {
  double length_us = 0;
  std::vector<Piece> pieces;  ///< in the order in which they ended

  double total_us(planner::TaskLabel::Kind kind) const;  ///< of all pieces of that kind
  double forward_us() const;                             ///< compute alone, micro-batches included
  double backward_us() const;
  double code_us() const;  ///< reading, encoding, decoding and update
  /// What is left of the iteration: compute waited for the channel.
  double exposed_us() const { return length_us - forward_us() - backward_us() - code_us(); }
};

struct WorkerRecord {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::vector<Iteration> iterations;  ///< without those of the warm-up
  std::vector<double> loop_us;        ///< of rank 0, before each of them: profiler::time_fixed_loop_us()
};

struct Record {
  std::vector<WorkerRecord> workers;  ///< by rank
  /// Of all processors' time during the recorded iterations, the part that was spent on neither worker nor
  /// idling; none where the system does not say, or workers are on several hosts.
  std::optional<double> busy_elsewhere;
  std::string where;
};

/// What the simulator says to the wishes under the calibration.
struct Prediction {
  planner::Groups groups;                    ///< that are run, in communication order
  std::vector<planner::Transfer> transfers;  ///< that the groups name, with measured costs
  std::vector<bool> is_encoded;              ///< by group: selective compression decides before the run
  std::vector<std::int64_t> bytes;           ///< by group, dense
  planner::Lowered lowered;                  ///< the task graph that every worker runs, warm-up included
  double iteration_us = 0;                   ///< mean, as planner::Metrics has it
  std::vector<Iteration> iterations;         ///< by worker: a steady one
  std::vector<std::string> warnings;
};

// ---- how far apart they are

/// One quantity, of one worker or over all.
struct Compared {
  std::string quantity;  ///< "iteration", "forward", "exposed communication", "all-reduce 3 start", ...
  std::optional<std::uint32_t> worker;  ///< none: the iteration of the slowest worker, by iteration
  double predicted_us = 0;
  double measured_us = 0;  ///< median over iterations
  double min_us = 0;       ///< 95 % interval of the median
  double max_us = 0;
  /// (predicted - measured) over the measured iteration's length, for starts and ends, too, whose own
  /// lengths may be 0; of the iteration this is its relative error.
  double error = 0;
};

struct Comparison {
  std::string name;
  Compared iteration;
  std::vector<Compared> others;  ///< by worker: forward, backward, exposed, start and end of every collective
};

}  // namespace live
