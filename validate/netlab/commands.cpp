#include "validate/netlab/commands.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "collectives/transport/process.hpp"
#include "collectives/transport/tcp/descriptor.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"

namespace netlab {
namespace {

using core::EnvironmentError;
using transport::Descriptor;

constexpr int kPatienceMs = 60'000;

/// Returns an unnamed file that holds the text.
Descriptor file_of(const std::string& text) {
  Descriptor file(::memfd_create("fusewise", MFD_CLOEXEC));
  const bool is_written =
      file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!is_written || ::lseek(file.get(), 0, SEEK_SET) != 0)
    throw EnvironmentError("cannot pass a command its input: " + std::generic_category().message(errno));
  return file;
}

std::string first_line(const Descriptor& file) {
  std::array<char, 2000> text{};
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  const std::string all(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return all.substr(0, all.find('\n'));
}

[[noreturn]] void become(pid_t parent, int network, const std::vector<std::string>& command,
                         const Descriptor& input, const Descriptor& said) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const bool is_ready = ::setns(network, CLONE_NEWNET) == 0 && ::dup2(input.get(), STDIN_FILENO) >= 0 &&
                        ::dup2(said.get(), STDOUT_FILENO) >= 0 && ::dup2(said.get(), STDERR_FILENO) >= 0;
  if (is_ready) ::execv(argv[0], argv.data());
  ::_exit(126);
}

}  // namespace

std::string find_command(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  folders += ":/usr/sbin:/sbin:/usr/bin:/bin";
  for (std::size_t at = 0; at < folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string file = folders.substr(at, end - at) + '/' + name;
    if (end > at && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  throw EnvironmentError(fmt::format("no command '{}' (package iproute2)", name));
}

void run_inside(int network, const std::vector<std::string>& command, const std::string& input) {
  const Descriptor given = file_of(input);
  const Descriptor said = file_of("");
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw EnvironmentError("cannot start a process: " + std::generic_category().message(errno));
  if (child == 0) become(parent, network, command, given, said);
  const Descriptor process = transport::open_process(child);
  pollfd one = {.fd = process.get(), .events = POLLIN, .revents = 0};
  const bool has_ended = ::poll(&one, 1, kPatienceMs) == 1;
  if (!has_ended) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::string name = std::filesystem::path(command[0]).filename().string();
  if (!has_ended) throw EnvironmentError(name + ": takes longer than 60 s");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const std::string line = first_line(said);
  throw EnvironmentError(fmt::format("{}: {}", name, line.empty() ? "failed without a message" : line));
}

}  // namespace netlab
