#include "collectives/transport/rendezvous.hpp"

#include <sys/stat.h>

#include <map>

#include <doctest/doctest.h>

#include "collectives/transport/transport.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using transport::Membership;

using Variables = std::map<std::string, std::string>;

constexpr const char* kSecret = "sixteen letters.";

/// Reads the membership from these variables and no others.
std::optional<Membership> of_these(const Variables& variables) {
  return transport::membership_of([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::optional<Membership> of(Variables variables) {
  variables["FUSEWISE_SECRET"] = kSecret;
  return of_these(variables);
}

TEST_CASE("rendezvous: nobody has started it") {
  CHECK_FALSE(of({}));
  CHECK_FALSE(of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));  // a batch script, before its srun
  CHECK_FALSE(of({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}}));
}

TEST_CASE("rendezvous: what a person sets comes before all else") {
  CHECK(of({{"FUSEWISE_RANK", "1"},
            {"FUSEWISE_WORLD_SIZE", "4"},
            {"FUSEWISE_MASTER", "10.0.0.1:77"},
            {"FUSEWISE_JOB", "j"},
            {"RANK", "3"},
            {"WORLD_SIZE", "9"}}) ==
        Membership{
            .rank = 1, .size = 4, .master = {.host = "10.0.0.1", .port = 77}, .job = "j", .secret = kSecret});
}

TEST_CASE("rendezvous: torchrun, whose own store may have the port") {
  Variables variables = {
      {"RANK", "2"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  CHECK(of(variables) == Membership{.rank = 2,
                                    .size = 8,
                                    .master = {.host = "node7", .port = 29500},
                                    .job = "torchrun ",
                                    .secret = kSecret});
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(of(variables)->master.port == 29501);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  CHECK(of(variables)->master.port == 29500);
}

TEST_CASE("rendezvous: mpirun on one host needs no address, on several it does") {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "1234"}};
  const std::optional<Membership> here = of(variables);
  CHECK(here->rank == 1);
  CHECK(here->master.host == "127.0.0.1");
  CHECK(here->master.port >= 20000);
  CHECK(here->master.port < 30000);
  CHECK(here->job == "mpirun 1234");
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  CHECK_THROWS_WITH_AS(
      of(variables),
      "MASTER_ADDR: expected the host of rank 0, with MASTER_PORT, as ranks are on several hosts "
      "(mpirun -x), got ''",
      transport::TransportError);
  variables["MASTER_ADDR"] = "node1";
  variables["MASTER_PORT"] = "4000";
  CHECK(of(variables)->master == transport::Address{.host = "node1", .port = 4000});
}

TEST_CASE("rendezvous: srun's first host is rank 0's") {
  Variables variables = {{"SLURM_PROCID", "3"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "99"},
                         {"SLURM_STEP_NODELIST", "gpu[03-04,7],other"}};
  CHECK(of(variables)->master.host == "gpu03");
  CHECK(of(variables)->job == "srun 99.0");
  for (const auto& [list, first] : Variables{{"a,b", "a"}, {"a", "a"}, {"n[7,9]", "n7"}, {"n[7]", "n7"}}) {
    variables["SLURM_STEP_NODELIST"] = list;
    CHECK(of(variables)->master.host == first);
  }
}

TEST_CASE("rendezvous: what makes no sense is refused with the variable's name") {
  const Variables good = {{"FUSEWISE_RANK", "0"}, {"FUSEWISE_WORLD_SIZE", "2"}, {"FUSEWISE_MASTER", "h:1"}};
  struct Example {
    const char* name;
    const char* value;
    const char* message;
  };
  const Example examples[] = {
      {"FUSEWISE_RANK", "2", "FUSEWISE_RANK: expected an integer from 0 to 1, got '2'"},
      {"FUSEWISE_RANK", "-1", "FUSEWISE_RANK: expected an integer from 0 to 1, got '-1'"},
      {"FUSEWISE_WORLD_SIZE", "0", "FUSEWISE_WORLD_SIZE: expected an integer from 1 to 4096, got '0'"},
      {"FUSEWISE_WORLD_SIZE", "2x", "FUSEWISE_WORLD_SIZE: expected an integer from 1 to 4096, got '2x'"},
      {"FUSEWISE_MASTER", "h", "FUSEWISE_MASTER: expected HOST:PORT, got 'h'"},
      {"FUSEWISE_MASTER", "0.0.0.0:77",
       "FUSEWISE_MASTER: expected the address of one interface of rank 0's host, got '0.0.0.0'"},
      {"FUSEWISE_MASTER", "[::]:77",
       "FUSEWISE_MASTER: expected the address of one interface of rank 0's host, got '::'"},
  };
  for (const Example& example : examples) {
    Variables variables = good;
    variables[example.name] = example.value;
    CHECK_THROWS_WITH_AS(of(variables), example.message, transport::TransportError);
  }
}

/// The message for a job of two with this in addition.
std::string refusal(const std::string& name, const std::string& value) {
  Variables variables = {{"FUSEWISE_RANK", "0"}, {"FUSEWISE_WORLD_SIZE", "2"}, {"FUSEWISE_MASTER", "h:1"}};
  if (!name.empty()) variables[name] = value;
  try {
    (void)of_these(variables);
  } catch (const transport::TransportError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("rendezvous: several processes need a secret, which no message shows") {
  CHECK(refusal("", "") ==
        "FUSEWISE_SECRET: expected a secret that all processes of the job share, here or in the file "
        "FUSEWISE_SECRET_FILE, got neither");
  CHECK(refusal("FUSEWISE_SECRET", "fifteen letters") ==
        "FUSEWISE_SECRET: expected 16 to 4096 characters, got 15");
  CHECK(refusal("FUSEWISE_SECRET", std::string(5000, 's')) ==
        "FUSEWISE_SECRET: expected 16 to 4096 characters, got more than 4096");
  CHECK(refusal("FUSEWISE_SECRET", kSecret) == "");
  CHECK(
      of_these({{"FUSEWISE_RANK", "0"}, {"FUSEWISE_WORLD_SIZE", "1"}, {"FUSEWISE_MASTER", "h:1"}})->secret ==
      "");
}

TEST_CASE("rendezvous: a secret is read from a file that nobody else can read") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("secret", std::string(kSecret) + "\n");
  const auto of_file = [](const std::string& name) {
    return of_these({{"RANK", "0"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "h"},
                     {"MASTER_PORT", "1"},
                     {"FUSEWISE_SECRET_FILE", name}})
        ->secret;
  };
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  CHECK(of_file(file) == kSecret);
  REQUIRE(::chmod(file.c_str(), 0400) == 0);
  CHECK(of_file(file) == kSecret);
  const auto refused = [](const std::string& name) {
    return "FUSEWISE_SECRET_FILE: expected a file of this user that nobody else can read (mode 0600), got '" +
           name + "'";
  };
  for (const mode_t mode : {0640U, 0604U, 0644U}) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    CHECK(refusal("FUSEWISE_SECRET_FILE", file) == refused(file));
  }
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& name : {pipe, (folder / "missing").string(), folder.path().string()})
    CHECK(refusal("FUSEWISE_SECRET_FILE", name) == refused(name));
  REQUIRE(::chmod(folder.put("short", "x\n").c_str(), 0600) == 0);
  CHECK(refusal("FUSEWISE_SECRET_FILE", folder / "short") ==
        "FUSEWISE_SECRET_FILE: expected 16 to 4096 characters, got 1");
}

}  // namespace
