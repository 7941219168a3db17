// The data of live runs: plain structs that calibrate(), predict(), run() and compare() exchange. Measured
// and predicted pieces of an iteration are the same struct.

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

/// Layers that are computed instead of being simulated by waiting.
struct RealLayers {
  core::Model model;
  std::string backend = "cpu";    ///< name of one of profiler::backends()
  std::int64_t batch_size = 1;    ///< samples per worker
  std::uint32_t computing = ~0U;  ///< ranks below it compute; the others wait for the measured layer times

  bool are_run_by(std::uint32_t rank) const { return rank < computing; }
};

/// Corrupts one value after a collective, so that tests see the check fail.
struct WrongValue {
  std::uint32_t rank = 0;
  std::uint32_t iteration = 0;  ///< counted from 0, including warm-up
  std::uint32_t group = 0;
};

/// One plan on one number of workers; the same on all ranks.
struct RunSpec {
  std::string name;  ///< name of the plan in tables and files
  /// The compute of a worker: it waits for the layers' times. With `layers`, calibrate() replaces the times
  /// by measured ones; layers and tensors must be those of the model.
  core::Profile profile;
  planner::Schedule schedule;      ///< pipeline, grouping, compression
  planner::Algorithm all_reduce;   ///< used if the schedule has none of its own
  planner::Conditions conditions;  ///< stragglers, accumulation_steps and update are executed; jitter is not
  std::optional<RealLayers> layers;
  std::uint32_t workers = 4;           ///< equal to the number of workers in the place
  std::uint32_t workers_per_node = 1;  ///< for two_level and hitopk
  std::uint32_t iterations = 20;       ///< recorded iterations
  std::uint32_t warm_up = 3;           ///< iterations before the recorded ones
  std::uint64_t seed = 1;              ///< seed of the gradients
  /// Whether the residual of encodings and selections is added to the next iteration's gradient; always the
  /// case with efsignsgd.
  bool error_feedback = false;
  std::optional<WrongValue> wrong = {};
};

/// The schedule's transfer, and those of the choices that it offers.
std::vector<planner::Transfer> transfers_of(const RunSpec& spec);

/// The placement of the workers, and the backend that transfers dense groups between them.
struct Place {
  std::uint32_t workers = 4;
  std::string backend = "tcp";  ///< name of one of measure::collective_backends()
  bool share_gpu = false;       ///< with a GPU backend: several workers may use the same GPU
  bool computes = false;        ///< with a GPU backend: layers run on it, so each worker must see its GPU
                                ///< first
  std::optional<double> bits_per_second = {};  ///< rate of each worker's link, in both directions; absent for
                                               ///< plain loopback
  double delay_us = 0;                         ///< delay of each packet; needs network namespaces
  /// The number of workers that share a link of this rate to the others; 0 if none do. Needs network
  /// namespaces.
  std::uint32_t workers_per_node = 0;
  double between_bits_per_second = 0;
  bool paced = false;       ///< on loopback, where each process limits itself to the rate; never in
                            ///< namespaces
  std::string netlab = {};  ///< an existing netlab with this name, used instead of new namespaces
  double deadline_s = 60;   ///< maximum time that a worker waits for another one
  double limit_s = 3600;    ///< maximum time of a calibration or run; workers still running are killed
};

// ---- what was measured before

/// A compressor as requested in the spec.
struct RequestedCompressor {
  planner::Compressor compressor;
  bool error_feedback = false;
  bool operator==(const RequestedCompressor&) const = default;
};

/// Network and profile under the conditions of the run.
struct Calibration {
  core::Network network;  ///< curves of isolated collectives, and the link
  core::Profile profile;  ///< the spec's profile, or with `layers` the measured one
  /// Slow-down of real layers and concurrent all-reduces; none if layers are waited for.
  planner::Overlap overlap;
  /// Compressors of the schedules and of their choices: names, ratios and measured costs.
  std::vector<planner::Compressor> compressors;
  /// One per compressor: the same name may be requested at several densities.
  std::vector<RequestedCompressor> requested = {};
  std::string where;  ///< "4 processes, network namespaces, each link held to 1 Gb/s"
};

// ---- what is predicted and what was recorded

/// A task of the graph as simulated or as executed: a layer's pass, a group's encoding, a collective, ...
struct Piece {
  planner::TaskLabel::Kind kind = planner::TaskLabel::Kind::forward;
  std::uint32_t item = 0;  ///< same meaning as in planner::TaskLabel
  double ready_us = 0;     ///< when this worker issued a collective; equal to start_us for other tasks
  double start_us = 0;     ///< all times count from the beginning of the iteration
  double end_us = 0;

  bool is_collective() const;
};

/// One iteration of one worker, between two of planner::Lowered::marks. It begins on all workers at once.
struct Iteration {
  double length_us = 0;
  std::vector<Piece> pieces;  ///< in the order in which they ended

  double total_us(planner::TaskLabel::Kind kind) const;  ///< sum over all pieces of that kind
  double forward_us() const;                             ///< compute only, including all micro-batches
  double backward_us() const;
  double code_us() const;  ///< reading, encoding, decoding and update
  /// The rest of the iteration, in which compute waits for the channel.
  double exposed_us() const { return length_us - forward_us() - backward_us() - code_us(); }
};

struct WorkerRecord {
  std::uint32_t rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::vector<Iteration> iterations;  ///< without warm-up iterations
  std::vector<double> loop_us;        ///< of rank 0, before each iteration: profiler::time_fixed_loop_us()
};

struct Record {
  std::vector<WorkerRecord> workers;  ///< by rank
  /// Share of processor time during the recorded iterations that went to other processes; none if the system
  /// does not report it, or workers are on several hosts.
  std::optional<double> busy_elsewhere;
  std::string where;
};

/// The prediction of a spec under a calibration.
struct Prediction {
  planner::Groups groups;                    ///< in communication order
  std::vector<planner::Transfer> transfers;  ///< the transfers that groups refer to, with measured costs
  std::vector<bool> is_encoded;              ///< by group: selective compression decides before the run
  std::vector<std::int64_t> bytes;           ///< by group, uncompressed
  planner::Lowered lowered;                  ///< the task graph that every worker runs, including warm-up
  double iteration_us = 0;                   ///< mean, as in planner::Metrics
  std::vector<Iteration> iterations;         ///< by worker: one steady-state iteration each
  std::vector<std::string> warnings;
};

// ---- how far apart they are

/// One compared quantity, of one worker or over all.
struct Compared {
  std::string quantity;  ///< "iteration", "forward", "exposed communication", "all-reduce 3 start", ...
  std::optional<std::uint32_t> worker;  ///< none for the iteration of the slowest worker
  double predicted_us = 0;
  double measured_us = 0;  ///< median over iterations
  double min_us = 0;       ///< lower end of the median's 95 % confidence interval
  double max_us = 0;
  /// (predicted - measured) / length of the measured iteration, also for starts and ends, whose own lengths
  /// may be 0; for the iteration this is its relative error.
  double error = 0;
};

struct Comparison {
  std::string name;
  Compared iteration;
  std::vector<Compared> others;  ///< by worker: forward, backward, exposed, start and end of every collective
};

}  // namespace live
