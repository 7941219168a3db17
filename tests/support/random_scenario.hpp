// Random scenarios as JSON: of any magnitude that a file may hold, and of times that integers of picoseconds
// hold exactly.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/random.hpp"

namespace support {

using nlohmann::ordered_json;

template <typename Value>
Value one_of(Random& random, const std::vector<Value>& values) {
  return values[random.below(static_cast<std::uint32_t>(values.size()))];
}

inline ordered_json origin() { return {{"kind", "estimated"}, {"source", "test"}}; }

inline ordered_json profile_json(ordered_json layers, std::int64_t batch_size = 8) {
  return {
      {"format", "fusewise.profile"}, {"version", 1},  {"model", "m"},       {"batch_size", batch_size},
      {"dtype", "float32"},           {"device", "d"}, {"origin", origin()}, {"layers", std::move(layers)}};
}

inline ordered_json network_json() {
  return {{"format", "fusewise.network"}, {"version", 1}, {"name", "n"}, {"origin", origin()}};
}

inline ordered_json scenario_json(ordered_json profile, ordered_json network) {
  return {{"format", "fusewise.scenario"},
          {"version", 1},
          {"name", "random"},
          {"profile", std::move(profile)},
          {"network", std::move(network)}};
}

/// A scenario of any magnitude: times from a picosecond to the longest that a file may hold, all fidelities,
/// jitter, stragglers, failures and slow links, jobs of phases and of stages, memory. Many are refused,
/// because their times exceed the clock.
class AnyScenario {
 public:
  explicit AnyScenario(std::uint32_t seed)
      : random_(seed),
        parts_(~seed),
        base_us_(one_of<double>(random_, {1e-6, 1e-3, 1, 1e3, 1e6, 1e9, 1e10, 1e11})),
        fidelity_(one_of<std::string>(random_, {"closed", "closed", "steps", "messages"})),
        slows_(fidelity_ == "closed" && random_.one_in(3)) {}

  const std::string& fidelity() const { return fidelity_; }

  ordered_json make() {
    ordered_json out = scenario_json(profile(), network());
    out["workers"] = {one_of<int>(random_, {1, 2, 3, 4, 5, 8, 9, 16, 33})};
    if (const int more = one_of<int>(random_, {2, 4, 6, 8, 64}); out["workers"][0] != more)
      out["workers"].push_back(more);
    out["schedules"] = {schedule(), schedule()};
    out["iterations"] = random_.one_in(8) ? 200 : random_.between(1, 4);
    if (random_.one_in(3)) out["accumulation_steps"] = random_.one_in(4) ? 1000 : random_.between(1, 3);
    if (random_.one_in(3)) out["input"] = {{"read_us", us()}, {"overlapped", random_.one_in(2)}};
    if (random_.one_in(3))
      out["update"] = {
          {"optimizer_us", us()}, {"lars_us", us()}, {"parallel_tensor_operator", random_.one_in(2)}};
    if (slows_) out["overlap"] = {{"compute_slowdown", factor()}, {"communication_slowdown", factor()}};
    if (random_.one_in(2)) out["jitter"] = jitter();
    if (random_.one_in(2)) out["stragglers"] = {{{"worker", random_.between(0, 3)}, {"slowdown", factor()}}};
    if (!slows_ && random_.one_in(4))
      out["failures"] = {{{"worker", random_.between(0, 3)}, {"at_us", us()}, {"down_us", us()}}};
    out["fidelity"] = fidelity_;
    if (fidelity_ != "closed" && random_.one_in(2))
      out["links"] = {{"sigma", sigma()}, {"slow", {{{"worker", 1}, {"slowdown", factor()}}}}};
    if (fidelity_ == "messages" && random_.one_in(2)) add_topology(out);
    if (parts_.one_in(4))
      out["memory"] = {{"optimizer", one_of<std::string>(parts_, {"sgd", "momentum", "adam"})},
                       {"gradients_in_buffers", parts_.one_in(2)}};
    if (fidelity_ == "closed" && parts_.one_in(4))
      out["job"] = job();
    else if (fidelity_ == "closed" && parts_.one_in(3))
      divide(out);
    return out;
  }

 private:
  /// Near the scenario's magnitude; one in ten of any.
  double us() {
    if (random_.one_in(5)) return 0;
    if (random_.one_in(10)) return one_of<double>(random_, {1e-6, 1e-3, 1, 1e6, 1e9, 1e11, 1e12});
    return base_us_ * static_cast<double>(random_.between(1, 800)) / 100;
  }
  double factor() { return one_of<double>(random_, {1e-6, 0.3, 1, 1.5, 1.5, 2, 10, 1e6}); }
  double sigma() { return one_of<double>(random_, {0, 0.05, 0.3, 1, 2}); }
  std::int64_t elements() {
    return one_of<std::int64_t>(random_, {1, 7, 1000, 1000, 250'000, 1'000'000, 1'000'000'000'000});
  }

  ordered_json profile() {
    ordered_json layers = ordered_json::array();
    const std::int64_t count = random_.between(1, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string name = "l" + std::to_string(i);
      ordered_json layer = {{"name", name}, {"kind", "k"}, {"forward_us", us()}, {"backward_us", us()}};
      layer["tensors"] = ordered_json::array();
      for (std::int64_t t = random_.between(i == 0 ? 1 : 0, 2); t-- > 0;)
        layer["tensors"].push_back({{"name", name + "." + std::to_string(t)}, {"elements", elements()}});
      if (random_.one_in(4)) layer["forward_spread_us"] = layer.at("forward_us").get<double>() / 10;
      layers.push_back(std::move(layer));
    }
    layers[0]["forward_us"] = base_us_;
    return profile_json(std::move(layers), one_of<std::int64_t>(random_, {1, 64, 1'000'000'000'000}));
  }

  ordered_json link() {
    return {{"alpha_us", us()},
            {"beta_us_per_byte", base_us_ * one_of<double>(random_, {0, 1e-9, 1e-6, 1e-3})},
            {"gamma_us_per_byte", base_us_ * one_of<double>(random_, {0, 1e-9, 1e-6})}};
  }

  ordered_json network() {
    ordered_json out = network_json();
    out["link"] = link();
    if (random_.one_in(4))
      out["levels"] = {{{"name", "node"}, {"size", 2}, {"link", link()}},
                       {{"name", "net"}, {"link", link()}}};
    if (random_.one_in(3))
      out["measured"] = {{{"collective", "all_reduce"}, {"workers", 8}, {"curve", {{1, us()}, {1e6, us()}}}}};
    return out;
  }

  ordered_json schedule() {
    static const std::vector<std::string> all = {
        R"("wfbp")",
        R"("s-sgd")",
        R"("ddp")",
        R"("horovod")",
        R"("mg-wfbp")",
        R"("fusewise")",
        R"("fusewise-dear")",
        R"("dear-nl")",
        R"({"pipeline": "zero", "fusion": "optimal"})",
        R"({"pipeline": "zero", "overlap_gather": false})",
        R"({"pipeline": "wfbp", "collectives": {"all_reduce": "halving_doubling"}})",
        R"({"pipeline": "wfbp", "collectives": {"all_reduce": "double_binary_tree"}})",
        R"({"pipeline": "wfbp", "fusion": {"kind": "threshold", "cap_bytes": 5000, "cycle_us": 1000000}})",
        R"({"pipeline": "sharded"})",
        R"({"name": "grace", "compression": {"name": "x", "ratio": 0.5, "collective": "all_gather",
            "encode": {"startup_us": 2, "us_per_byte": 0.001}, "decode": {"floor_us": 3}}})"};
    static const std::vector<std::string> unordered = {
        R"({"pipeline": "priority", "partition_bytes": 4000000000000, "negotiation_us": 5})",
        R"("bytescheduler")"};
    const bool any = fidelity_ == "closed" && random_.one_in(8);
    return ordered_json::parse(one_of(random_, any ? unordered : all));
  }

  ordered_json jitter() {
    ordered_json out = {{"seed", random_.below(1000)}};
    const std::string distribution =
        slows_ ? "lognormal" : one_of<std::string>(random_, {"lognormal", "lognormal", "normal"});
    out["distribution"] = distribution;
    out["sigma"] = distribution == "normal" ? 0.3 : sigma();
    return out;
  }

  ordered_json job() {
    return {{"samples", one_of<std::int64_t>(parts_, {1, 1000, 1'000'000'000'000})},
            {"price_per_worker_hour", 3},
            {"phases",
             {{{"epochs", parts_.between(1, 3)}, {"schedule", "wfbp"}},
              {{"epochs", 2}, {"batch_size", 4}, {"schedule", "s-sgd"}}}}};
  }

  /// Makes it a job of one or two stages, which knows less than others.
  void divide(ordered_json& out) {
    for (const char* key : {"jitter", "stragglers", "failures", "overlap", "accumulation_steps"})
      out.erase(key);
    const std::int64_t stages = out["profile"]["layers"].size() > 1 ? parts_.between(1, 2) : 1;
    const std::int64_t tensor = parts_.between(1, 2);
    out["parallel"] = {{"tensor", tensor}, {"pipeline", stages}};
    if (stages > 1)
      out["parallel"]["stages"] = {
          {"schedule", "1f1b"}, {"micro_batches", parts_.between(1, 4)}, {"p2p_us", base_us_ / 8}};
    out["workers"] = {tensor * stages, tensor * stages * parts_.between(2, 4)};
    out["schedules"] = {one_of<std::string>(parts_, {"wfbp", "ddp", "s-sgd"}), {{"pipeline", "sharded"}}};
  }

  void add_topology(ordered_json& out) {
    const auto port = [&] {
      return ordered_json{
          {"latency_us", us()},
          {"bandwidth_gbps", 8e-3 / base_us_ * static_cast<double>(random_.between(1, 1000))}};
    };
    out["topology"] = {{"kind", one_of<std::string>(random_, {"flat", "leaf_spine", "ring"})},
                       {"startup_us", us()},
                       {"nic", port()},
                       {"cable", port()},
                       {"nodes_per_leaf", 2},
                       {"spines", 2}};
    if (random_.one_in(3)) out["channels"] = 3;
  }

  Random random_;
  Random parts_;  ///< of its own, so that the rest of a scenario is the same without these parts
  double base_us_;
  std::string fidelity_;
  bool slows_;
};

/// A scenario whose times are multiples of 1/64 us, that is of 15,625 ps, on numbers of workers that are
/// powers of two. Chunks, and means over iterations, are multiples of less, but of whole picoseconds: nothing
/// is rounded.
class ExactScenario {
 public:
  explicit ExactScenario(std::uint32_t seed) : random_(seed) {}

  ordered_json make() {
    ordered_json out = scenario_json(profile(), network());
    out["workers"] = {std::int64_t{1} << random_.below(5)};
    if (out["workers"][0] != 4) out["workers"].push_back(4);
    out["iterations"] = one_of<int>(random_, {1, 2, 3, 5});  // 1, 2 or 4 are counted
    if (random_.one_in(2)) out["accumulation_steps"] = random_.between(1, 3);
    if (random_.one_in(2)) out["input"] = {{"read_us", us(4000)}, {"overlapped", random_.one_in(2)}};
    if (random_.one_in(2)) out["update"] = {{"optimizer_us", us(500)}, {"lars_us", us(500)}};
    if (random_.one_in(2)) out["stragglers"] = {{{"worker", random_.between(0, 3)}, {"slowdown", 1.5}}};
    return out;
  }

  Random& random() { return random_; }

 private:
  double us(std::uint32_t max) { return static_cast<double>(random_.below(max)) / 2; }

  ordered_json profile() {
    ordered_json layers = ordered_json::array();
    const std::int64_t count = random_.between(2, 6);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string name = "l" + std::to_string(i);
      ordered_json layer = {{"name", name}, {"kind", "k"}, {"forward_us", us(400)}, {"backward_us", us(800)}};
      layer["tensors"] = ordered_json::array();
      for (std::int64_t t = random_.between(i == 0 ? 1 : 0, 3); t-- > 0;)
        layer["tensors"].push_back(
            {{"name", name + "." + std::to_string(t)}, {"elements", 1024 * random_.between(1, 90)}});
      layers.push_back(std::move(layer));
    }
    layers[0]["backward_us"] = 37.5;
    return profile_json(std::move(layers));
  }

  /// A chunk of 4096 bytes / 16 workers takes a multiple of 1/16 us.
  ordered_json network() {
    ordered_json out = network_json();
    out["link"] = {{"alpha_us", static_cast<double>(random_.below(200)) / 4},
                   {"beta_us_per_byte", static_cast<double>(random_.below(64)) / 4096},
                   {"gamma_us_per_byte", static_cast<double>(random_.below(8)) / 4096}};
    return out;
  }

  Random random_;
};

}  // namespace support
