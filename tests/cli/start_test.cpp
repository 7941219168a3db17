// The first commands of a new user: bundled data by name, init, doctor, and no command at all.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "planner/schedule/schedule.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/listed.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

void go_elsewhere() {
  if (::chdir("/") != 0) ::_exit(126);
}

TEST_CASE("start: without arguments the program says what to do first, and that works") {
  const Outcome outcome = run_program({});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err.empty());
  for (const char* command : {"simulate googlenet-k80", "report resnet50-v100", "init", "doctor", "--help"}) {
    CAPTURE(command);
    CHECK(outcome.out.find(std::string("fusewise ") + command) != std::string::npos);
  }
}

TEST_CASE("start: bundled scenarios, models and profiles are found by name from any folder") {
  const Outcome by_name = run_program({"simulate", "googlenet-k80"}, go_elsewhere);
  CHECK(by_name.err.empty());
  CHECK(by_name.out == run_program({"simulate", "scenarios/googlenet-k80.json"}).out);
  CHECK(run_program({"plan", "googlenet-k80", "--workers", "8"}, go_elsewhere).exit_code == 0);
  CHECK(run_program({"sweep", "resnet50-v100-sweep"}, go_elsewhere).out ==
        run_program({"sweep", "scenarios/resnet50-v100-sweep.json"}).out);
  CHECK(run_program({"estimate", "resnet18", "--device", "v100"}, go_elsewhere).out ==
        run_program({"estimate", "models/resnet18.json", "--device", "v100"}).out);
  CHECK(run_program({"show", "resnet50-v100"}, go_elsewhere).out ==
        run_program({"show", "scenarios/resnet50-v100.json"}).out);
  CHECK(run_program({"show", "bert-base-v100"}, go_elsewhere).out ==
        run_program({"show", "traces/bert-base-v100.profile.json"}).out);
}

TEST_CASE("start: a scenario in any folder names bundled profiles and networks") {
  const support::TemporaryFolder folder;
  const std::string file =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "name": "ResNet-50, V100, 10 GbE",
          "profile": "resnet50-v100", "network": "v100-10gbe",
          "workers": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]})");
  CHECK(run_program({"simulate", file}, go_elsewhere).out ==
        run_program({"simulate", "scenarios/resnet50-v100.json"}).out);
}

TEST_CASE("show: lists and files as JSON, and names that are nearly right") {
  for (const char* list : {"scenarios", "models", "profiles", "networks"}) {
    CAPTURE(list);
    const json all = json::parse(run_program({"show", list, "--json"}, go_elsewhere).out);
    CHECK(all.at("format") == "fusewise.list");
    CHECK(all.at(list).size() >= 5);
    for (const json& entry : all.at(list))
      CHECK(run_program({"show", entry.at("name")}, go_elsewhere).exit_code == 0);
  }
  CHECK(run_program({"show", "resnet18", "--json"}, go_elsewhere).out ==
        core::read_file(support::source_dir() / "models/resnet18.json"));
  for (const auto& [wrong, right] :
       {std::pair{"resnet5", "resnet50"}, {"modles", "models"}, {"k80-10gb", "k80-10gbe"}}) {
    const Outcome outcome = run_program({"show", wrong});
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err ==
          std::string(wrong) +
              ": expected a file, or a name that 'fusewise show scenarios', 'models', "
              "'profiles', 'networks', 'schedules' or 'devices' lists, got neither, did you mean '" +
              right + "'?\n");
  }
}

TEST_CASE("show: the schedules and the devices that other commands take by name") {
  for (const std::string list : {"schedules", "devices"}) {
    CAPTURE(list);
    const std::string table = run_program({"show", list}, go_elsewhere).out;
    const json all = json::parse(run_program({"show", list, "--json"}, go_elsewhere).out).at(list);
    std::string names;
    for (const json& entry : all) {
      const std::string name = entry.at("name");
      names += ", " + name;
      CHECK(table.find('\n' + name + "  ") != std::string::npos);
      CHECK(entry.at(list == "devices" ? "full_name" : "summary").get<std::string>().size() > 5);
    }
    names.erase(0, 2);
    if (list == "devices")
      CHECK(run_program({"estimate", "resnet18", "--device", "none"})
                .err.find("expected one of " + names + ", got") != std::string::npos);
    else
      CHECK(names == support::listed(planner::presets()));
  }
}

TEST_CASE("help: as a command and after one, it prints what --help does") {
  const auto out = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = run_program(arguments);
    CHECK(outcome.exit_code == 0);
    return outcome.out;
  };
  CHECK(out({"help"}) == out({"--help"}));
  CHECK(out({"help", "plan"}) == out({"plan", "--help"}));
  CHECK(out({"plan", "help"}) == out({"plan", "--help"}));
  CHECK(out({"help", "netlab", "up"}) == out({"netlab", "up", "--help"}));
  const Outcome unknown = run_program({"nothing"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.ends_with(", got 'nothing' (try fusewise --help)\n"));
}

TEST_CASE("simulate and plan: of a bundled model, profile or network they say how to make a scenario") {
  const auto message = [](const char* kind, const char* option, const std::string& name) {
    return name + ": expected a file, or a scenario that 'fusewise show scenarios' lists, got a " + kind +
           " (fusewise init --" + option + " " + name + " makes a scenario of it)\n";
  };
  CHECK(run_program({"plan", "resnet18"}).err == message("model", "model", "resnet18"));
  CHECK(run_program({"simulate", "resnet50"}).err == message("model", "model", "resnet50"));
  CHECK(run_program({"report", "gpt2-v100"}).err == message("profile", "model", "gpt2-v100"));
  CHECK(run_program({"simulate", "k80-10gbe"}).err == message("network", "network", "k80-10gbe"));
  CHECK(run_program({"simulate", "h100-nvlink-8"}).err == message("network", "network", "h100-nvlink-8"));
}

TEST_CASE("start: every list of bundled data names its files, and every one of them can be shown") {
  for (const auto& [list, folder, ending] :
       {std::tuple{"scenarios", "scenarios", ".json"}, std::tuple{"models", "models", ".json"},
        std::tuple{"profiles", "traces", ".profile.json"}}) {
    const std::string text = run_program({"show", list}, go_elsewhere).out;
    for (const auto& entry : std::filesystem::directory_iterator(support::source_dir() / folder)) {
      const std::string name = entry.path().filename().string();
      const std::string end = ending;
      if (name.size() < end.size() || name.substr(name.size() - end.size()) != end) continue;
      CAPTURE(name);
      CHECK(text.find("\n" + name.substr(0, name.size() - end.size()) + " ") != std::string::npos);
    }
  }
}

TEST_CASE("start: a name that is nearly right is suggested, and a missing file is still a missing file") {
  CHECK(run_program({"simulate", "googlenet-k8"}).err ==
        "googlenet-k8: expected a file, or a scenario that 'fusewise show scenarios' lists, got neither, did "
        "you mean 'googlenet-k80'?\n");
  CHECK(run_program({"simulate", "nothing-like-it-at-all"}).err ==
        "nothing-like-it-at-all: expected a file, or a scenario that 'fusewise show scenarios' lists, got "
        "neither\n");
  CHECK(run_program({"simulate", "nothing-like-it-at-all.json"}).err ==
        "nothing-like-it-at-all.json: /: expected a file that can be read, got: No such file or directory\n");
}

TEST_CASE("start: a program without its data says so, and what to do") {
  const support::TemporaryFolder folder;
  const std::string copy = (folder.path() / "bin" / "fusewise").string();
  std::filesystem::create_directories(folder.path() / "bin");
  std::filesystem::copy_file(support::program(), copy);
  const std::string errors = (folder.path() / "errors").string();
  for (const auto& each :
       {std::pair{"models", "show models"},
        {"profiles", "show profiles --json"},
        {"resnet18", "show resnet18"},
        {"bert-base", "estimate bert-base --device a100"},
        {"googlenet-k80", "simulate googlenet-k80"},
        {"bert-base", "init --model bert-base --device a100 --network 25gbit --workers 2"}}) {
    const auto [name, command] = each;
    CAPTURE(each.second);
    const std::string line =
        "cd " + folder.path().string() + " && env -u FUSEWISE_DATA " + copy + " " + command + " 2>" + errors;
    CHECK(std::system(line.c_str()) / 256 == 1);  // its exit code
    CHECK(core::read_file(errors) ==
          std::string(name) +
              ": the folder with the bundled scenarios, models and profiles was not found; set FUSEWISE_DATA "
              "to the root of the source tree, or to share/fusewise of an installation\n");
  }
  CHECK(std::system((copy + " show networks >" + errors).c_str()) == 0);
}

TEST_CASE("start: names of devices ignore case") {
  CHECK(run_program({"estimate", "resnet18", "--device", "A100"}).out ==
        run_program({"estimate", "resnet18", "--device", "a100"}).out);
  CHECK(run_program({"estimate", "resnet18", "--device", "A100"}).exit_code == 0);
}

TEST_CASE("init: four options make a scenario that can be simulated, planned and reported") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "mine.json").string();
  const Outcome made = run_program({"init", "--model", "resnet18", "--device", "A100", "--network", "25gbit",
                                    "--workers", "8,16", "-o", file},
                                   go_elsewhere);
  CAPTURE(made.err);
  REQUIRE(made.exit_code == 0);
  const json scenario = json::parse(core::read_file(file));
  CHECK(scenario.at("workers") == json({8, 16}));
  CHECK(scenario.at("network").at("line_rate_gbps") == 25.0);
  CHECK(scenario.at("network").at("link").at("beta_us_per_byte") == 0.00032);  // 8 bits / 25 bits per ns
  CHECK(json::parse(run_program({"simulate", file, "--json"}).out).at("results").size() == 10);
  CHECK(run_program({"plan", file, "--workers", "16"}).exit_code == 0);
  CHECK(run_program({"report", file, "-o", (folder.path() / "r.html").string()}).exit_code == 0);
}

TEST_CASE("report: a trace needs no plan, other files take none, and a comparison has two sides") {
  const support::TemporaryFolder folder;
  const std::string page = (folder.path() / "r.html").string();
  const std::string trace = (support::source_dir() / "tests/data/kineto/vgg13-h100-iter41.json").string();
  CHECK(run_program({"report", trace, "-o", page}).exit_code == 0);
  CHECK(core::read_file(page).find("\"kind\":\"comparison\"") != std::string::npos);
  CHECK(run_program({"report", "googlenet-k80", "--plan", "x", "-o", page})
            .err.ends_with("googlenet-k80.json: /: expected a trace, or no --plan, got another file\n"));
  json comparison = json::parse(run_program({"compare", trace, "--json"}).out);
  comparison["sides"].erase(1);
  const std::string file = folder.put("c.json", comparison.dump()).string();
  const Outcome refused = run_program({"report", file, "-o", page});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err == file + ": /sides: expected two sides, got an array of 1 item\n");
}

TEST_CASE("init: a measured profile needs no device and a network may be a file") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "mine.json").string();
  const Outcome made = run_program({"init", "--model", "bert-base-v100", "--network",
                                    (support::source_dir() / "traces" / "v100-10gbe.network.json").string(),
                                    "--workers", "4", "-o", file});
  CAPTURE(made.err);
  REQUIRE(made.exit_code == 0);
  CHECK(run_program({"simulate", file}, go_elsewhere).exit_code == 0);
}

TEST_CASE("init: a profile needs no device, whatever its file is called") {
  const support::TemporaryFolder folder;
  const std::string profile = folder.put(
      "mine", core::read_file((support::source_dir() / "traces" / "bert-base-v100.profile.json").string()));
  const Outcome made = run_program({"init", "--model", profile, "--network", "25gbit", "--workers", "4", "-o",
                                    (folder.path() / "s.json").string()});
  CAPTURE(made.err);
  CHECK(made.exit_code == 0);
}

TEST_CASE("init: machines of a bundled network are joined by another one") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "mine.json").string();
  std::vector<std::string> arguments = {
      "init", "--model", "bert-base-v100", "--network", "h100-nvlink-8", "--workers", "8,16", "-o", file};
  const Outcome without = run_program(arguments, [] { ::close(STDIN_FILENO); });
  CHECK(without.exit_code == 2);
  CHECK(without.err.starts_with("--between: this option is required"));
  arguments.insert(arguments.end(), {"--between", "400gbit"});
  REQUIRE(run_program(arguments).exit_code == 0);
  const json scenario = json::parse(core::read_file(file));
  CHECK(scenario.at("between").at("bandwidth_gbps") == 400.0);
  CHECK(scenario.at("worker_spread") == 0.0148);  // also GPUs of one kind differ
  CHECK(run_program({"simulate", file}).exit_code == 0);
}

TEST_CASE("init: a job that one GPU cannot hold is sharded, and plans keep to the GPU's memory") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "mine.json").string();
  const auto made = [&](const std::string& model, const std::string& device) {
    const Outcome outcome =
        run_program({"init", "--model", model, "--device", device, "--network", "h100-nvlink-8", "--between",
                     "400gbit", "--workers", "64", "--force", "-o", file});
    CAPTURE(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    return outcome.out;
  };
  CHECK(made("llama2-7b", "h100")
            .find("FSDP: with Adam, 6.7 billion parameters take 108 GB, and the GPU has 80 GB") !=
        std::string::npos);
  const json scenario = json::parse(core::read_file(file));
  CHECK(scenario.at("schedules") == json{"fsdp2", {{"name", "fsdp2"}, {"fusion", "optimal"}}, "hsdp"});
  CHECK(scenario.at("memory") == json{{"optimizer", "adam"}, {"cap_bytes", 80'000'000'000}});
  CHECK(scenario.at("data_types") == json{{"parameters", "float32"}, {"reduce", "float32"}});
  const Outcome planned = run_program({"plan", file});
  CHECK(planned.exit_code == 0);
  CHECK(planned.out.find("pipeline sharded") != std::string::npos);
  CHECK(planned.out.find("\nhsdp ") != std::string::npos);
  CHECK(planned.err.find("all schedules of the scenario shard parameters, so the plan is made for 'fsdp2 "
                         "optimal'") != std::string::npos);
  CHECK_FALSE(scenario.contains("recompute"));
  CHECK(made("llama3-70b", "h100").find("recompute: activations take 255 GB more") != std::string::npos);
  CHECK(json::parse(core::read_file(file)).at("recompute") == "blocks");
  CHECK(run_program({"plan", file}).exit_code == 0);                   // fits now
  CHECK(made("llama2-7b", "h200").find("FSDP") == std::string::npos);  // 141 GB
  CHECK_FALSE(json::parse(core::read_file(file)).contains("memory"));
}

TEST_CASE("report: of a profile it says how to make a scenario") {
  const Outcome outcome = run_program({"report", "traces/bert-base-v100.profile.json"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("fusewise init --model traces/bert-base-v100.profile.json makes a scenario of it") !=
        std::string::npos);
}

TEST_CASE("init: what is missing is asked for on a terminal only") {
  const Outcome outcome =
      run_program({"init", "--model", "resnet18", "--network", "25gbit", "--workers", "4"},
                  [] { ::close(STDIN_FILENO); });
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err ==
        "--device: this option is required where there is no terminal to ask on (try --help)\n");
}

TEST_CASE("init: an existing file is replaced with --force only, and --json prints the scenario") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("mine.json", "{}");
  std::vector<std::string> arguments = {"init",   "--model",   "resnet18", "--device", "a100", "--network",
                                        "25gbit", "--workers", "4",        "-o",       file};
  const Outcome refused = run_program(arguments);
  CHECK(refused.exit_code == 2);
  CHECK(refused.err == "--output: expected the name of a new file, or --force to replace one, got " + file +
                           ", which exists\n");
  CHECK(core::read_file(file) == "{}");
  arguments.insert(arguments.end(), {"--force", "--json"});
  const Outcome made = run_program(arguments);
  CHECK(made.exit_code == 0);
  CHECK(json::parse(made.out).at("format") == "fusewise.scenario");
  CHECK(made.out == core::read_file(file));
}

TEST_CASE("init: names that are nearly right are suggested") {
  const support::TemporaryFolder folder;
  const auto refused = [&](const std::string& model, const std::string& network) {
    const Outcome outcome = run_program({"init", "--model", model, "--device", "a100", "--network", network,
                                         "--workers", "4", "-o", (folder.path() / "s.json").string()});
    CHECK(outcome.exit_code == 2);
    return outcome.err;
  };
  CHECK(
      refused("resnet18", "h100-nvlink-9") ==
      "--network: expected a rate in kbit, mbit, gbit or tbit (a second), such as 25gbit, a network file, or "
      "a name that 'fusewise show networks' lists, got 'h100-nvlink-9', did you mean 'h100-nvlink-8'?\n");
  CHECK(refused("bert-base-v10", "25gbit") ==
        "--model: expected a file, or a name that 'fusewise show models' or 'show profiles' lists, got "
        "'bert-base-v10', did you mean 'bert-base-v100'?\n");
}

TEST_CASE("doctor: packages are those of the CUDA version that is there") {
  const support::TemporaryFolder folder;
  folder.put("libcudart.so.13", core::read_file("/lib/x86_64-linux-gnu/libm.so.6"));
  const support::Environment environment("FUSEWISE_CUDA_LIBRARIES", folder.path().string());
  const std::pair<const char*, const char*> expected[] = {{"NCCL", "pip install nvidia-nccl-cu13"},
                                                          {"cuDNN", "pip install nvidia-cudnn-cu13"},
                                                          {"cuBLASLt", "pip install nvidia-cublas"}};
  const json all = json::parse(run_program({"doctor", "--json"}).out).at("findings");
  for (const auto& [what, remedy] : expected)
    for (const json& each : all)
      if (each.at("what") == what) CHECK(each.value("remedy", remedy) == remedy);  // none where it is there
}

TEST_CASE("doctor: every finding says what it is good for, and what to do where it is missing") {
  const Outcome outcome = run_program({"doctor", "--json"});
  CHECK(outcome.exit_code == 0);
  const json all = json::parse(outcome.out).at("findings");
  CHECK(all.size() == 11);
  for (const json& each : all) {
    CHECK(!each.at("use").get<std::string>().empty());
    CHECK(each.contains("remedy") != each.at("is_there").get<bool>());
  }
  CHECK(all.at(0).at("found") == support::source_dir().string());
  const auto finding = [&](const char* what) {
    return *std::find_if(all.begin(), all.end(), [&](const json& each) { return each.at("what") == what; });
  };
  for (const char* what : {"cuDNN", "cuBLASLt", "layers on GPUs", "NCCL", "CUDA runtime"}) {
    CAPTURE(what);
    CHECK(finding(what).at("what") == what);
  }
  const std::string table = run_program({"doctor"}).out;
  for (const json& each : all) CHECK(table.find(each.at("what").get<std::string>()) != std::string::npos);
}

}  // namespace
