// Times collectives on all ranks and checks what they leave.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/measure/backend.hpp"

namespace measure {

enum class Timing : std::uint8_t {
  isolated,      ///< each collective starts when the one before has ended everywhere
  back_to_back,  ///< kBatch at once, one after the other; the mean of each batch
  following,     ///< each right after another one, in the state that this leaves links and ranks in
};

constexpr std::uint32_t kBatch = 5;

struct Wanted {
  std::vector<Collective> collectives = {Collective::all_reduce};
  std::vector<std::int64_t> sizes;  ///< bytes, multiples of 4; in an all_gather, of what is gathered
  std::uint32_t repetitions = 20;
  std::uint32_t warm_up = 3;  ///< at least 1
  Timing timing = Timing::isolated;
  /// Sent by each rank before the clock starts, so that a link which lets so many pass at once after a pause
  /// has none of them left.
  std::int64_t drain_bytes = 0;
};

/// Of one collective and size: how long each repetition took, from when the last rank had started until the
/// last had ended (where ranks are on several hosts, whose clocks differ: the longest that any of them took).
struct Samples {
  Collective collective = Collective::all_reduce;
  std::string algorithm;  ///< as a network file has it; see Engine
  std::string ran;
  std::uint32_t workers = 1;
  std::int64_t bytes = 0;
  std::vector<double> us;
};

/// All ranks call it; rank 0 gets all samples, the others none. What comes out is checked, of collectives in
/// a row where the engine keeps them all, else of one before and one after; EnvironmentError says which value
/// is wrong. `progress` is told what is measured next.
std::vector<Samples> run(transport::Transport& control, Engine& engine, const Wanted& wanted,
                         const std::function<void(Collective, std::int64_t bytes)>& progress = {});

}  // namespace measure
