// fusewise torch: hands over to the Python package, which runs a PyTorch training script inside itself.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "core/errors.hpp"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::optional<std::int64_t> processes;
  std::optional<std::int64_t> rounds;
  std::string output;
  bool goes_on = false;
  bool is_module = false;
  bool prints_json = false;
};

/// The Python package where it is not installed: that of the wheel, of the source tree of this program, or of
/// its installation.
std::optional<fs::path> package_folder(const fs::path& program) {
  const fs::path above = program.parent_path().parent_path();
  for (const fs::path& folder :
       {above.parent_path(), above / "python", above / "share" / "fusewise" / "python"})
    if (fs::is_directory(folder / "fusewise" / "torch")) return folder;
  return std::nullopt;
}

void set_environment(const fs::path& program) {
  setenv("FUSEWISE_PROGRAM", program.c_str(), 1);
  const std::optional<fs::path> folder = package_folder(program);
  if (!folder) return;
  const char* before = std::getenv("PYTHONPATH");
  const bool has_path = before != nullptr && *before != '\0';
  setenv("PYTHONPATH", (folder->string() + (has_path ? ":" + std::string(before) : "")).c_str(), 1);
}

/// The interpreter from which the program was called, or the first on the PATH.
std::string python() {
  const char* set = std::getenv("FUSEWISE_PYTHON");
  return set != nullptr && *set != '\0' ? set : "python3";
}

std::vector<std::string> words_of(const Options& options, const std::vector<std::string>& script) {
  std::vector<std::string> out = {python(), "-m", "fusewise.torch"};
  if (options.processes) out.insert(out.end(), {"--nproc", std::to_string(*options.processes)});
  if (options.rounds) out.insert(out.end(), {"--rounds", std::to_string(*options.rounds)});
  if (!options.output.empty()) out.insert(out.end(), {"-o", options.output});
  if (options.goes_on) out.emplace_back("--go-on");
  if (options.prints_json) out.emplace_back("--json");
  if (options.is_module) out.emplace_back("-m");
  out.insert(out.end(), script.begin(), script.end());
  return out;
}

/// Whether Python finds the package; importing it would take seconds. Its own package of that name may lack
/// this part.
bool has_package(const std::string& python) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string code =
        "import importlib.util as u, sys; sys.exit(0 if u.find_spec('fusewise') and "
        "u.find_spec('fusewise.torch') else 9)";
    ::execlp(python.c_str(), python.c_str(), "-c", code.c_str(), static_cast<char*>(nullptr));
    ::_exit(0);  // the caller finds out, and says why
  }
  int status = 0;
  constexpr int kNotFound = 9;
  return child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
         WEXITSTATUS(status) != kNotFound;
}

[[noreturn]] void hand_over(const Options& options, const std::vector<std::string>& script) {
  if (script.empty()) throw core::InputError("SCRIPT: expected a training script, got none");
  set_environment(fs::read_symlink("/proc/self/exe"));
  std::vector<std::string> words = words_of(options, script);
  if (!has_package(words.front()))
    throw core::EnvironmentError(
        fmt::format("fusewise torch: {} finds no Python package fusewise: pip install the wheel, or set "
                    "PYTHONPATH to the folder python of the source tree",
                    words.front()));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw core::EnvironmentError(fmt::format("{}: {}", words.front(), std::strerror(errno)));
}

}  // namespace

void add_torch(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command(
      "torch", "Measure a PyTorch training script as it is, plan its buckets, and try the plan");
  command.footer(
      "The script and its own arguments follow the options. It needs no change, as long as it wraps its\n"
      "model in DistributedDataParallel. Under torchrun, and wherever RANK and WORLD_SIZE are set, start it\n"
      "as `python -m fusewise.torch train.py`. After 110 to 200 iterations the script is stopped.\n"
      "Example: fusewise torch --nproc 2 train.py --epochs 1");
  command.add_option("--nproc", options->processes, "start this many ranks of the script on this machine")
      .check(range<std::int64_t>(2, 1024));
  command
      .add_option("--rounds", options->rounds,
                  "iterations with the default and with the best setting, in turns, behind the result "
                  "(default: 16)")
      .check(range<std::int64_t>(6, 10'000));
  command.add_flag("--go-on", options->goes_on,
                   "let the script run to its end afterwards, with its own buckets");
  command.add_flag("-m", options->is_module, "the script is the name of a module");
  command.add_option("-o,--output", options->output,
                     "folder for profile, network, scenario, plan and measured times (default: "
                     "fusewise-torch)");
  command.add_flag("--json", options->prints_json,
                   "print the result as JSON; what the script prints goes to standard error");
  command.takes_command_line();
  command.on_run([options, command] { hand_over(*options, command.rest()); });
}

}  // namespace cli
