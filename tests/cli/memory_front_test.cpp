// fusewise plan --memory-front through the real program: the schedule that it takes.

#include <string>

#include <doctest/doctest.h>

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

}  // namespace
