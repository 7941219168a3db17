// Topologies given link by link: equal to the built-in ones that they spell out, and rejected inputs.

#include "planner/scenarios/links.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"

namespace scenarios {
namespace {

using core::Field;
using nlohmann::ordered_json;

/// A scenario of eight workers with random factors on all links and tasks, changed by a merge patch (RFC
/// 7386).
ordered_json scenario(const ordered_json& patch) {
  ordered_json out = ordered_json::parse(R"({
    "format": "fusewise.scenario", "version": 1, "name": "graph",
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {"kind": "estimated", "source": "test"},
      "layers": [{"name": "l1", "kind": "k", "forward_us": 10, "backward_us": 30,
                  "tensors": [{"name": "t1", "elements": 16384}]},
                 {"name": "l2", "kind": "k", "forward_us": 20, "backward_us": 40,
                  "tensors": [{"name": "t2", "elements": 70001}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "test"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}},
    "workers": 8, "fidelity": "messages", "jitter": {"sigma": 0.2, "seed": 5}, "links": {"sigma": 0.1},
    "schedules": ["wfbp", "dear-no-fusion", {"collectives": {"all_reduce": "halving_doubling"}},
                  {"collectives": {"all_reduce": "binary_tree"}}]})");
  out.merge_patch(patch);
  return out;
}

Scenario read(const ordered_json& topology, const ordered_json& patch = ordered_json::object()) {
  ordered_json whole = scenario({{"topology", topology}});
  whole.merge_patch(patch);
  return read_scenario(Field::parse(whole.dump(), "s.json"));
}

/// The results without the names of the links.
ordered_json results(const ordered_json& topology) {
  ordered_json out = ordered_json::parse(results_json(run(read(topology))));
  for (ordered_json& entry : out.at("results"))
    for (ordered_json& link : entry.at("by_worker").at("utilisation").at("links")) link.erase("link");
  return out;
}

ordered_json link(const std::string& name, const std::string& from, const std::string& to, double gbps,
                  double latency_us, bool both_ways = false) {
  return {{"name", name},
          {"from", from},
          {"to", to},
          {"bandwidth_gbps", gbps},
          {"latency_us", latency_us},
          {"bidirectional", both_ways}};
}

std::string numbered(const std::string& what, std::uint32_t number) {
  return fmt::format("{}{}", what, number);
}

/// Node i at vertex node<i> for each of 8 nodes, with a cable to `up(i)`.
template <typename Up>
ordered_json nodes(const Up& up) {
  ordered_json out = {{"kind", "custom"}, {"startup_us", 2}, {"links", ordered_json::array()}};
  for (std::uint32_t i = 0; i < 8; ++i) {
    out["workers_at"].push_back(numbered("node", i));
    out["links"].push_back(link(numbered("nic", i), numbered("node", i), up(i), 10, 1.5, true));
  }
  return out;
}

TEST_CASE("graph: a star is a flat topology") {
  const ordered_json star = nodes([](std::uint32_t) { return "switch"; });
  const ordered_json flat = {
      {"kind", "flat"}, {"startup_us", 2}, {"nic", {{"bandwidth_gbps", 10}, {"latency_us", 1.5}}}};
  CHECK(results(star) == results(flat));
}

TEST_CASE("graph: routers in a circle are a ring, upward where both ways are as long") {
  ordered_json circle = nodes([](std::uint32_t i) { return numbered("router", i); });
  for (std::uint32_t i = 0; i < 8; ++i)
    circle["links"].push_back(
        link(numbered("up", i), numbered("router", i), numbered("router", (i + 1) % 8), 4, 3));
  for (std::uint32_t i = 0; i < 8; ++i)
    circle["links"].push_back(
        link(numbered("down", i), numbered("router", (i + 1) % 8), numbered("router", i), 4, 3));
  const ordered_json ring = {{"kind", "ring"},
                             {"startup_us", 2},
                             {"nic", {{"bandwidth_gbps", 10}, {"latency_us", 1.5}}},
                             {"cable", {{"bandwidth_gbps", 4}, {"latency_us", 3}}}};
  CHECK(results(circle) == results(ring));
}

TEST_CASE("graph: leaves and spines with their routes written are a leaf-spine topology") {
  const ordered_json built_in = {
      {"kind", "leaf_spine"},   {"startup_us", 2}, {"nic", {{"bandwidth_gbps", 10}, {"latency_us", 1.5}}},
      {"nodes_per_leaf", 2},    {"spines", 2},     {"oversubscription", 4},
      {"uplink_latency_us", 3}, {"seed", 9}};
  ordered_json spelled = nodes([](std::uint32_t i) { return numbered("leaf", i / 2); });
  for (std::uint32_t leaf = 0; leaf < 4; ++leaf)
    for (std::uint32_t spine = 0; spine < 2;
         ++spine)  // two NICs of 10 over two links of 2.5, a factor of four
      spelled["links"].push_back(link(fmt::format("{} to {}", leaf, spine), numbered("leaf", leaf),
                                      numbered("spine", spine), 2.5, 3, true));
  const cluster::Topology topology = cluster::make_topology(*read(built_in).conditions.topology, 8);
  for (std::uint32_t from = 0; from < 8; ++from)
    for (std::uint32_t to = 0; to < 8; ++to) {
      if (from / 2 == to / 2) continue;
      const char spine = topology.links[topology.route(from, to).links[1]].name.back();
      spelled["routes"].push_back({{"from", from},
                                   {"to", to},
                                   {"links",
                                    {numbered("nic", from), fmt::format("{} to {}", from / 2, spine),
                                     fmt::format("{} to {}", to / 2, spine), numbered("nic", to)}}});
    }
  const ordered_json got = results(spelled);
  CHECK(got == results(built_in));
  spelled.erase("routes");  // all routes over the first spine
  CHECK(got != results(spelled));
}

TEST_CASE("graph: fewer workers are at the first places, and it is known how many there are") {
  const ordered_json star = nodes([](std::uint32_t) { return "switch"; });
  CHECK(run(read(star, {{"workers", {2, 8}}})).entries.size() == 8);
  CHECK(placed_workers(read(star).conditions) == 8);
}

struct Refusal {
  std::string patch;
  std::string message;
};

TEST_CASE("graph: what is wrong is refused with its place") {
  const std::string links = R"("links": [
    {"name": "a", "from": "x", "to": "s", "bandwidth_gbps": 1, "bidirectional": true},
    {"name": "b", "from": "s", "to": "y", "bandwidth_gbps": 1, "bidirectional": true},
    {"name": "c", "from": "s", "to": "z", "bandwidth_gbps": 1}])";
  const std::string at = R"("workers_at": ["x", "y"])";
  const std::string two = "{" + links + ", " + at;
  const auto route = [&](const std::string& text) { return two + R"(, "routes": [)" + text + "]}"; };
  const std::vector<Refusal> refusals = {
      {"{" + at + "}", "/links: expected a value, got nothing"},
      {R"({"links": [], )" + at + "}",
       "/links: expected an array of at least 1 item, got an array of 0 items"},
      {"{" + links + "}", "/workers_at: expected a value, got nothing"},
      {two + R"(, "nic": {"bandwidth_gbps": 1}})",
       "/nic: expected a key among kind, startup_us, links, workers_at, routes, got 'nic'"},
      {R"({"links": [{"name": "a", "from": "x", "to": "y"}], )" + at + "}",
       "/links/0/bandwidth_gbps: expected a value, got nothing"},
      {R"({"links": [{"name": "a", "from": "x", "to": "y", "bandwidth_gbps": 0}], )" + at + "}",
       "/links/0/bandwidth_gbps: expected a bandwidth above 0, got 0"},
      {R"({"links": [{"name": "a", "from": "x", "to": "y", "bandwidth_gbps": 1},
                     {"name": "a", "from": "y", "to": "x", "bandwidth_gbps": 1}], )" +
           at + "}",
       R"(/links/1/name: expected a name that is listed once, got "a")"},
      {"{" + links + R"(, "workers_at": ["x", "why"]})",
       R"(/workers_at/1: expected a vertex that a link joins, got "why")"},
      {"{" + links + R"(, "workers_at": ["x"]})",
       "/workers_at: expected a vertex for each of 2 workers, got an array of 1 item"},
      {"{" + links + R"(, "workers_at": ["x", "z"]})",
       R"(/workers_at/1: expected a vertex from which links lead to 'x', where worker 0 is, got "z")"},
      {"{" + links + R"(, "workers_at": ["z", "y"]})",
       R"(/workers_at/1: expected a vertex to which links lead from 'z', where worker 0 is, got "y")"},
      {route(R"({"from": 0, "to": 2, "links": []})"), "/routes/0/to: expected an integer from 0 to 1, got 2"},
      {route(R"({"from": 1, "to": 1, "links": []})"),
       "/routes/0/to: expected another worker than from, got 1"},
      {route(R"({"from": 0, "to": 1, "links": ["a", "bb"]})"),
       R"(/routes/0/links/1: expected the name of a link, got "bb", did you mean 'b'?)"},
      {route(R"({"from": 0, "to": 1, "links": ["b"]})"),
       R"(/routes/0/links/0: expected a link from 'x', to which the route has come, got "b")"},
      {route(R"({"from": 0, "to": 1, "links": ["a", "c"]})"),
       "/routes/0/links: expected links up to 'y', where worker 1 is, got links up to 'z'"},
      {route(R"({"from": 0, "to": 1, "links": ["a", "b", "b", "b"]})"),
       "/routes/0/links: expected links that are passed once, got one that is passed again"},
      {route(R"({"from": 0, "to": 1, "links": ["a", "b"]}, {"from": 0, "to": 1, "links": ["a", "b"]})"),
       "/routes/1: expected a pair of workers that is listed once, got 0 to 1 again"},
  };
  for (const Refusal& each : refusals) {
    CAPTURE(each.patch);
    ordered_json topology = ordered_json::parse(each.patch);
    topology["kind"] = "custom";
    const std::string message = "s.json: /topology" + each.message;
    CHECK_THROWS_WITH_AS(read(topology, {{"workers", 2}}), message.c_str(), core::InputError);
  }
  ordered_json good = ordered_json::parse(route(R"({"from": 1, "to": 0, "links": ["b", "a"]})"));
  good["kind"] = "custom";
  const std::vector<cluster::Graph::WrittenRoute> routes =
      read(good, {{"workers", 2}}).conditions.topology->graph->routes;
  REQUIRE(routes.size() == 1);
  CHECK(routes[0].edges == std::vector<std::uint32_t>{3, 1});  // both in the reverse direction
}

}  // namespace
}  // namespace scenarios
