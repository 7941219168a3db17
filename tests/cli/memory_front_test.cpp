// fusewise plan within memory, through the real program: the schedule of --memory-front, and caps.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::Outcome;
using support::run_program;

TEST_CASE("memory front: without --schedule the only sharded schedule of the scenario is taken") {
  const support::TemporaryFolder folder;
  const auto scenario = [&](const std::string& schedules) {
    const std::string root = support::source_dir().string();
    return folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "workers": 8,
      "profile": ")" + root + R"(/traces/resnet50-v100.profile.json", "network": ")" +
                                    root +
                                    R"(/traces/v100-25gbe-nvlink.network.json",
      "memory": {"optimizer": "momentum"}, "schedules": )" +
                                    schedules + "}");
  };
  const std::string one = scenario(R"(["ddp", "fsdp2", "zero"])");
  const Outcome chosen = run_program({"plan", one, "--schedule", "fsdp2", "--memory-front"});
  REQUIRE(chosen.exit_code == 0);
  CHECK(run_program({"plan", one, "--memory-front"}).out == chosen.out);
  const auto refused = [&](const std::string& file, const std::string& message) {
    const Outcome outcome = run_program({"plan", file, "--memory-front"});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == message);
  };
  refused(scenario(R"(["ddp", "fsdp2", "hsdp"])"),
          "--schedule: expected one of 'fsdp2', 'hsdp', which shard parameters, got nothing\n");
  refused(scenario(R"(["ddp", "zero"])"),
          "--schedule: expected one that shards parameters, as the scenario has none, got nothing\n");
  CHECK(run_program({"plan", one, "--schedule", "fusewise", "--memory-front"}).exit_code == 2);
}

TEST_CASE("memory front: the chosen plan can be emitted, and plan finds it where optimal exceeds the cap") {
  const support::TemporaryFolder folder;
  const std::string root = support::source_dir().string();
  const auto scenario = [&](const std::string& name, const std::string& memory,
                            const std::string& fusion = R"("optimal")") {
    return folder.put(name, R"({"format": "fusewise.scenario", "version": 1, "workers": 8,
      "profile": ")" + root + R"(/traces/resnet50-v100.profile.json", "network": ")" +
                                root + R"(/traces/v100-25gbe-nvlink.network.json", "memory": )" + memory +
                                R"(, "schedules": [{"name": "fsdp2", "fusion": )" + fusion + "}]}");
  };
  const auto succeeded = [](const std::vector<std::string>& command) {
    const Outcome outcome = run_program(command);
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome;
  };
  const std::string schedule = "fsdp2 optimal";
  const std::string front = (folder / "front.plan.json").string();
  const std::string capped = (folder / "capped.plan.json").string();
  const std::string free = scenario("free.json", R"({"optimizer": "momentum"})");
  const Outcome all = succeeded({"plan", free, "--memory-front", "--json"});
  const nlohmann::json plans = nlohmann::json::parse(all.out)["plans"];
  REQUIRE(plans.size() > 1);
  const std::string cap = std::to_string(plans[0]["peak_bytes"].get<std::int64_t>());

  const std::string tight = scenario("tight.json", R"({"optimizer": "momentum", "cap_bytes": )" + cap + "}");
  const std::string emitted = succeeded({"plan", tight, "--memory-front", "--emit", "fsdp", "-o", front}).out;
  const Outcome plan = succeeded({"plan", tight, "--schedule", schedule, "--emit", "fsdp", "-o", capped});
  CHECK(plan.out == emitted);
  CHECK(support::contents(capped) == support::contents(front));
  CHECK(plan.err.find("its fastest plan holds more than the " + cap + " bytes") != std::string::npos);
  const Outcome without = succeeded({"plan", free, "--schedule", schedule, "--emit", "fsdp"});
  CHECK(without.out != emitted);
  CHECK(without.err.find("its fastest plan") == std::string::npos);

  // A search within the cap would not keep to the number of groups.
  const std::string three = scenario("three.json", R"({"optimizer": "momentum", "cap_bytes": )" + cap + "}",
                                     R"({"kind": "optimal", "constraints": {"groups": 3}})");
  const Outcome groups = succeeded({"plan", three, "--schedule", "fsdp2 optimal 3"});
  CHECK(groups.err.find("its fastest plan") == std::string::npos);
  CHECK(groups.err.find("more than the " + cap) != std::string::npos);

  const std::string small = scenario("small.json", R"({"optimizer": "momentum", "cap_bytes": 1000})");
  const Outcome refused = run_program({"plan", small, "--schedule", schedule});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("/memory/cap_bytes: expected at least the " + cap + " bytes") != std::string::npos);
}

}  // namespace
