// Timelines of chosen workers.

#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "planner/scenarios/run.hpp"

namespace scenarios {
namespace {

using nlohmann::json;

Scenario two_workers() {
  return read_scenario(core::Field::parse(R"({
    "format": "fusewise.scenario", "version": 1, "name": "two",
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {"kind": "estimated", "source": "test"},
      "layers": [{"name": "l", "kind": "k", "forward_us": 10, "backward_us": 20,
                  "tensors": [{"name": "t", "elements": 100}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "test"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.01}},
    "workers": 2, "schedules": ["wfbp"], "iterations": 1, "stragglers": [{"worker": 1, "slowdown": 2}]})",
                                          "s.json"));
}

/// Begin and duration of each slice, by process and name.
std::map<std::pair<std::string, std::string>, std::pair<double, double>> slices_of(const std::string& text) {
  const json document = json::parse(text);
  const json& events = document.is_array() ? document : document.at("traceEvents");
  std::map<int, std::string> processes;
  for (const json& event : events)
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes[event.at("pid").get<int>()] = event.at("args").at("name").get<std::string>();
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> out;
  for (const json& event : events)
    if (event.at("ph") == "X")
      out[{processes.at(event.at("pid").get<int>()), event.at("name").get<std::string>()}] = {
          event.at("ts").get<double>(), event.at("dur").get<double>()};
  return out;
}

// worker 0  forward 0-10  backward 10-30
// worker 1  forward 0-----20  backward 20--------60
// channel                                         60-66, 2 x (1 + 200 x 0.01)
TEST_CASE("timeline: of the workers that are named, each as it ran") {
  const auto slices = slices_of(timeline(two_workers(), 2, {1, 0}));
  std::map<std::string, int> by_process;
  for (const auto& [which, when] : slices) {
    ++by_process[which.first];
    const auto& the_which = which;  // clang 14 cannot capture a structured binding
    CAPTURE(the_which.first);
    CAPTURE(the_which.second);
    const bool is_slow = which.first == "wfbp: worker 1 of 2";
    if (which.second.find("forward") != std::string::npos)
      CHECK(when == std::pair<double, double>(0, is_slow ? 20 : 10));
    if (which.second.find("backward") != std::string::npos)
      CHECK(when == (is_slow ? std::pair<double, double>(20, 40) : std::pair<double, double>(10, 20)));
    if (which.second.find("all-reduce") != std::string::npos) CHECK(when == std::pair<double, double>(60, 6));
  }
  CHECK(by_process == std::map<std::string, int>{{"wfbp: worker 0 of 2", 3}, {"wfbp: worker 1 of 2", 3}});
}

TEST_CASE("timeline: without names, of the slowest") {
  const auto slices = slices_of(timeline(two_workers(), 2));
  for (const auto& [which, when] : slices) CHECK(which.first == "wfbp: the slowest of 2 workers");
  CHECK(slices.size() == 3);
}

}  // namespace
}  // namespace scenarios
