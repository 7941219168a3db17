// Writes a timeline as Chrome trace events, for Perfetto or chrome://tracing.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/time.hpp"

namespace core {

/// A named interval on one track.
struct Slice {
  std::size_t track = 0;
  std::string name;
  std::string category;
  sim::Time start{};
  sim::Time end{};
  /// Shown when the slice is selected; values are JSON text (a number, or a quoted string).
  std::vector<std::pair<std::string, std::string>> arguments = {};
};

struct Track {
  std::string process;  ///< tracks of the same process must be adjacent
  std::string thread;
};

/// The values of some quantities from one time on, shown as an area beside the tracks of their process.
struct Counter {
  std::size_t track = 0;  ///< any of the process
  std::string name;
  sim::Time at{};
  std::vector<std::pair<std::string, std::int64_t>> values;
};

/// Returns the JSON text; slices and counters keep their order.
std::string chrome_trace(const std::vector<Track>& tracks, const std::vector<Slice>& slices,
                         const std::vector<Counter>& counters = {});

/// Returns the text as a JSON string, with its quotes.
std::string json_string(const std::string& text);

}  // namespace core
