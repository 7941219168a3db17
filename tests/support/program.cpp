#include "tests/support/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "core/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace support {
namespace {

void redirect(int stream, const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::dup2(fd, stream) < 0) ::_exit(126);
}

}  // namespace

std::string program() { return FUSEWISE_PROGRAM; }

std::filesystem::path source_dir() { return FUSEWISE_SOURCE_DIR; }

Outcome run_program(const std::vector<std::string>& arguments, void (*before)()) {
  const TemporaryFolder folder;
  std::vector<std::string> words = {program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    redirect(STDOUT_FILENO, folder.path() / "out");
    redirect(STDERR_FILENO, folder.path() / "err");
    if (::chdir(FUSEWISE_SOURCE_DIR) != 0) ::_exit(126);
    if (before != nullptr) before();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = core::read_file(folder.path() / "out"),
          .err = core::read_file(folder.path() / "err")};
}

}  // namespace support
