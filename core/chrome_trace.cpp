#include "core/chrome_trace.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace core {
namespace {

/// Formats a time in microseconds with all six decimals (picoseconds).
std::string us(sim::Time time) {
  constexpr std::int64_t kPerUs = 1'000'000;
  return fmt::format("{}.{:06}", time.count() / kPerUs, time.count() % kPerUs);
}

struct Place {
  std::size_t process = 0;
  std::size_t thread = 0;
};

std::vector<Place> places(const std::vector<Track>& tracks) {
  std::vector<Place> out;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const bool same = i > 0 && tracks[i].process == tracks[i - 1].process;
    if (same)
      out.push_back({out.back().process, out.back().thread + 1});
    else
      out.push_back({i == 0 ? 1 : out.back().process + 1, 1});
  }
  return out;
}

}  // namespace

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string chrome_trace(const std::vector<Track>& tracks, const std::vector<Slice>& slices,
                         const std::vector<Counter>& counters) {
  const std::vector<Place> at = places(tracks);
  std::string out = R"({"displayTimeUnit": "ms", "traceEvents": [)";
  const char* separator = "\n";
  const auto metadata = [&](const char* what, const Place& place, const std::string& name) {
    out += fmt::format(R"({}{{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "args": {{"name": {}}}}})",
                       separator, what, place.process, place.thread, json_string(name));
    separator = ",\n";
  };
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    if (at[i].thread == 1) metadata("process_name", at[i], tracks[i].process);
    metadata("thread_name", at[i], tracks[i].thread);
  }
  for (const Slice& slice : slices) {
    out +=
        fmt::format(R"({}{{"ph": "X", "name": {}, "cat": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {})",
                    separator, json_string(slice.name), json_string(slice.category), at[slice.track].process,
                    at[slice.track].thread, us(slice.start), us(slice.end - slice.start));
    separator = ",\n";
    if (!slice.arguments.empty()) {
      out += R"(, "args": {)";
      for (std::size_t i = 0; i < slice.arguments.size(); ++i)
        out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", json_string(slice.arguments[i].first),
                           slice.arguments[i].second);
      out += '}';
    }
    out += '}';
  }
  for (const Counter& counter : counters) {
    out += fmt::format(R"({}{{"ph": "C", "name": {}, "pid": {}, "ts": {}, "args": {{)", separator,
                       json_string(counter.name), at[counter.track].process, us(counter.at));
    separator = ",\n";
    for (std::size_t i = 0; i < counter.values.size(); ++i)
      out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", json_string(counter.values[i].first),
                         counter.values[i].second);
    out += "}}";
  }
  out += "\n]}\n";
  return out;
}

}  // namespace core
