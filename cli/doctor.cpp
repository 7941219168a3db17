// fusewise doctor: says what this machine can do, and what to install for the rest.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "core/text_table.hpp"
#include "profiler/cuda_runtime/shared_library.hpp"

namespace cli {
namespace {

/// Something that the program can use.
struct Finding {
  std::string what;
  bool is_there = false;
  std::string found;   ///< what was found, or why it is not there
  std::string use;     ///< what it is good for
  std::string remedy;  ///< what to do where it is not there
};

Finding data() {
  const auto folder = data_folder();
  return {
      .what = "bundled data",
      .is_there = folder.has_value(),
      .found = folder ? folder->string() : "no folder share/fusewise beside the program",
      .use = "scenarios, models and profiles by name",
      .remedy = "set FUSEWISE_DATA to the root of the source tree, or to share/fusewise of an installation"};
}

/// The path of a program on PATH; empty if there is none. Sbin folders count: ip and tc are there.
std::string on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string folders = std::string(path == nullptr ? "" : path) + ":/usr/sbin:/sbin";
  for (std::size_t from = 0; from <= folders.size();) {
    const std::size_t to = std::min(folders.find(':', from), folders.size());
    const std::string file = folders.substr(from, to - from) + "/" + name;
    if (to > from && ::access(file.c_str(), X_OK) == 0) return file;
    from = to + 1;
  }
  return {};
}

/// Tried in a child process, which it changes.
bool can_make_network_namespaces() {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    const bool made = ::unshare(CLONE_NEWNET) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    ::_exit(made ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Finding namespaces() {
  const bool allowed = can_make_network_namespaces();
  return {.what = "network namespaces",
          .is_there = allowed,
          .found = allowed ? "can be made" : "not root, and no user namespaces",
          .use = "netlab: shaped networks between processes of this machine",
          .remedy = "run as root, or sysctl kernel.unprivileged_userns_clone=1"};
}

Finding tools() {
  const std::string ip = on_path("ip");
  const std::string tc = on_path("tc");
  const bool both = !ip.empty() && !tc.empty();
  return {.what = "ip and tc",
          .is_there = both,
          .found = both ? ip + ", " + tc : "not on the PATH",
          .use = "netlab",
          .remedy = "apt install iproute2"};
}

Finding library(const std::string& what, std::vector<std::string> files, const std::string& use,
                const std::string& remedy) {
  Finding out = {.what = what, .use = use, .remedy = remedy};
  try {
    out.found = cuda_runtime::SharedLibrary::open({.what = what, .files = std::move(files)}).file();
    out.is_there = true;
  } catch (const core::EnvironmentError&) {
    out.found = "no library that loads";
  }
  return out;
}

/// The first line that a command prints; empty if it fails.
std::string first_line(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> out(::popen((command + " 2>/dev/null").c_str(), "r"), ::pclose);
  std::array<char, 256> line{};
  if (!out || std::fgets(line.data(), line.size(), out.get()) == nullptr) return {};
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

/// Asks the package's metadata, because importing torch takes seconds.
Finding torch() {
  const std::string version =
      first_line("python3 -c 'import importlib.metadata as m; print(m.version(\"torch\"))'");
  return {.what = "PyTorch",
          .is_there = !version.empty(),
          .found = version.empty() ? "python3 has no package torch" : "torch " + version,
          .use = "profiles of training scripts, and plans applied to them",
          .remedy = "pip install torch, or apt install python3-torch"};
}

Finding mpi() {
  const std::string mpirun = on_path("mpirun");
  const bool is_built_in = FUSEWISE_HAS_MPI == 1;
  return {
      .what = "MPI",
      .is_there = is_built_in && !mpirun.empty(),
      .found = !is_built_in     ? "this program was built without it"
               : mpirun.empty() ? "no mpirun on the PATH"
                                : mpirun,
      .use = "sweeps on many machines",
      .remedy = is_built_in ? "apt install openmpi-bin" : "build from source with libopenmpi-dev installed"};
}

std::vector<Finding> findings_without_cuda() { return {data(), namespaces(), tools(), torch(), mpi()}; }

/// The number after ".so." in the name of a library; 0 if there is none.
int major_of(const std::string& file) {
  const std::size_t at = file.rfind(".so.");
  return at == std::string::npos ? 0 : std::atoi(file.c_str() + at + 4);
}

Finding cuda_layers() {
  const bool is_built_in = FUSEWISE_HAS_CUDA_LAYERS == 1;
  return {.what = "layers on GPUs",
          .is_there = is_built_in,
          .found = is_built_in ? fmt::format("part of this program, for CUDA {}", FUSEWISE_CUDA_MAJOR)
                               : "this program was built without them",
          .use = "profile --backend cuda",
          .remedy = "build from source with CUDA's compiler and the headers of cuDNN and cuBLASLt"};
}

/// NVIDIA's libraries of the CUDA version that this program was built for, otherwise of the one that is
/// there.
std::vector<Finding> cuda_libraries() {
  constexpr int kFirstWithPlainNames = 13;
  Finding runtime = library("CUDA runtime", {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
                            "measure --backend nccl", "");
  const int found = runtime.is_there ? major_of(runtime.found) : 0;
  const int usual = FUSEWISE_CUDA_MAJOR > 0 ? FUSEWISE_CUDA_MAJOR : 12;
  const int major = found > 0 ? found : usual;
  const bool is_plain = major >= kFirstWithPlainNames;
  const std::string suffix = fmt::format("-cu{}", major);
  runtime.remedy = "pip install nvidia-cuda-runtime" + (is_plain ? "" : suffix);
  const std::string layers = "profile --backend cuda";
  return {runtime,
          library("NCCL", {"libnccl.so.2"}, "measure --backend nccl", "pip install nvidia-nccl" + suffix),
          library("cuDNN", {"libcudnn.so.9", "libcudnn.so.8"}, layers, "pip install nvidia-cudnn" + suffix),
          library("cuBLASLt", {fmt::format("libcublasLt.so.{}", major)}, layers,
                  "pip install nvidia-cublas" + (is_plain ? "" : suffix))};
}

std::vector<Finding> examine() {
  std::vector<Finding> out = findings_without_cuda();
  out.push_back(library("NVIDIA driver", {"libcuda.so.1"}, "everything on a GPU", "install NVIDIA's driver"));
  for (Finding& each : cuda_libraries()) out.push_back(std::move(each));
  out.push_back(cuda_layers());
  return out;
}
std::string report_json(const std::vector<Finding>& all) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const Finding& each : all) {
    findings.push_back(
        {{"what", each.what}, {"is_there", each.is_there}, {"found", each.found}, {"use", each.use}});
    if (!each.is_there) findings.back()["remedy"] = each.remedy;
  }
  return core::json_text({{"format", "fusewise.doctor"},
                          {"version", 1},
                          {"program", FUSEWISE_VERSION},
                          {"findings", std::move(findings)}});
}

/// Three columns are too wide for many terminals; the last of two continues below itself.
std::string report_table(const std::vector<Finding>& all, bool is_narrow) {
  std::vector<std::vector<std::string>> rows = {{"", "what", "found", "good for"}};
  if (is_narrow) rows = {{"", "what", "found; good for"}};
  std::string missing;
  for (const Finding& each : all) {
    rows.push_back({each.is_there ? "yes" : "no", each.what, each.found, each.use});
    if (is_narrow) rows.back() = {rows.back()[0], each.what, each.found + "; " + each.use};
    if (!each.is_there) missing += fmt::format("  {}: {}\n", each.what, each.remedy);
  }
  const std::string always =
      "fusewise " FUSEWISE_VERSION
      ": simulating, planning, sweeping, importing, fitting and measuring over TCP need nothing more.\n\n";
  return always + core::aligned(rows, {0, 1, 2, 3}) +
         (missing.empty() ? "" : "\nFor what is missing:\n" + missing);
}

}  // namespace

void add_doctor(const Command& program) {
  auto json = std::make_shared<bool>(false);
  const Command command =
      program.add_command("doctor", "Say what this machine can do, and what to install for the rest");
  command.footer("Example: fusewise doctor");
  command.add_flag("--json", *json, "print JSON instead of a table");
  command.on_run([json] {
    if (*json) return print(report_json(examine()));
    constexpr std::size_t kWide = 140;
    const std::size_t width = terminal_width(STDOUT_FILENO);
    print_for_people(printable_lines(report_table(examine(), width > 0 && width < kWide)));
  });
}

}  // namespace cli
