// Times collectives on all ranks and checks their results.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/measure/backend.hpp"

namespace measure {

enum class Timing : std::uint8_t {
  isolated,      ///< each collective starts when the previous one has ended everywhere
  back_to_back,  ///< kBatch in a row; the mean of each batch
  following,     ///< each right after another one, in the state that this leaves links and ranks in
};

constexpr std::uint32_t kBatch = 5;

struct RunOptions {
  std::vector<Collective> collectives = {Collective::all_reduce};
  std::vector<std::int64_t> sizes;  ///< bytes, multiples of 4; for an all_gather, the gathered bytes
  std::uint32_t repetitions = 20;
  std::uint32_t warm_up = 3;  ///< at least 1
  Timing timing = Timing::isolated;
  /// Bytes that each rank sends before the clock starts, so that a link with burst tokens, which accumulate
  /// in a pause, has none left.
  std::int64_t drain_bytes = 0;
};

/// The samples of one collective and size: the time of each repetition from the start of the last rank to the
/// end of the last (on several hosts, whose clocks differ: the maximum over ranks).
struct Samples {
  Collective collective = Collective::all_reduce;
  std::string algorithm;  ///< as a network file names it; see Engine
  std::string ran;
  std::uint32_t workers = 1;
  std::int64_t bytes = 0;
  std::vector<double> us;
};

/// All ranks call it; rank 0 gets all samples, the others none. Results are checked: of all collectives in a
/// row if the engine keeps them, otherwise of one before and one after; EnvironmentError says which value is
/// wrong. `progress` is told what is measured next.
std::vector<Samples> run(transport::Transport& control, Engine& engine, const RunOptions& wanted,
                         const std::function<void(Collective, std::int64_t bytes)>& progress = {});

/// Whether all ranks are on one host, whose processes share a steady clock. All ranks call it and get the
/// same result.
bool share_clock(transport::Transport& transport, std::uint32_t tag);

}  // namespace measure
