// Files are written completely or not at all, and read completely.

#include "core/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/staged_file.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

/// A file or folder that was brought to disk, and what stood under the name that a test watches at that
/// moment.
struct Sync {
  bool is_folder = false;
  std::string under_name;
};

std::filesystem::path watched_name;
std::vector<Sync>* syncs = nullptr;

}  // namespace

/// Stands before the C library's function in this program, so that a test sees when it is called.
extern "C" int fsync(int fd) {
  struct stat status = {};
  if (syncs != nullptr && ::fstat(fd, &status) == 0)
    syncs->push_back(
        {.is_folder = S_ISDIR(status.st_mode),
         .under_name = std::filesystem::exists(watched_name) ? support::contents(watched_name) : "nothing"});
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace core {
namespace {

using support::contents;
using support::TemporaryFolder;

mode_t mode_of(const std::filesystem::path& file) {
  struct stat status = {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  return status.st_mode & static_cast<mode_t>(0777);
}

/// Root may write anywhere.
std::string no_limited_user() { return ::geteuid() == 0 ? "run as root, who may write anywhere" : ""; }

/// Text of many kernel buffers with every byte value in it.
std::string large_text() {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += static_cast<char>(i * 7 % 256);
  return text;
}

TEST_CASE("files: what is written reads back the same") {
  const TemporaryFolder folder;
  for (const std::string& text :
       {std::string(), std::string("a\n"), std::string("\0\r\n\xff", 4), large_text()}) {
    write_file(folder / "f", text);
    CHECK(contents(folder / "f") == text);
    CHECK(read_file(folder / "f") == text);
  }
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a file that is there is replaced") {
  const TemporaryFolder folder;
  folder.put("f", "a long text that was there before");
  write_file(folder / "f", "new");
  CHECK(contents(folder / "f") == "new");
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a text is on disk before it gets its name, and the name is before the call returns") {
  const TemporaryFolder folder;
  watched_name = folder / "f";
  for (const std::string before : {"nothing", "old"}) {
    if (before == "old") folder.put("f", before);
    std::vector<Sync> seen;
    syncs = &seen;
    write_file(watched_name, "new");
    syncs = nullptr;
    REQUIRE(seen.size() == 2);
    CHECK(!seen[0].is_folder);
    CHECK(seen[0].under_name == before);
    CHECK(seen[1].is_folder);
    CHECK(seen[1].under_name == "new");
  }
}

TEST_CASE("files: permissions are those that any new file gets") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0022);
  write_file(folder / "f", "x");
  CHECK(mode_of(folder / "f") == 0644);
  ::umask(0077);
  write_file(folder / "g", "x");
  CHECK(mode_of(folder / "g") == 0600);
  ::umask(before);
}

TEST_CASE("files: where no file can be made nothing is left behind") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "none/f").string();
  CHECK_THROWS_WITH_AS(write_file(missing, "x"),
                       (missing + ": cannot write: No such file or directory").c_str(), EnvironmentError);
  const std::string as_folder = (folder.put("file", "x") / "f").string();
  CHECK_THROWS_WITH_AS(write_file(as_folder, "x"), (as_folder + ": cannot write: Not a directory").c_str(),
                       EnvironmentError);
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a folder in the file's place is refused, and no temporary file stays") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "f");
  const std::string name = (folder / "f").string();
  CHECK_THROWS_WITH_AS(write_file(name, "x"), (name + ": cannot write: Is a directory").c_str(),
                       EnvironmentError);
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a folder without write permission is refused and left as it was" *
          support::needs(no_limited_user)) {
  const TemporaryFolder folder;
  folder.put("f", "old");
  std::filesystem::permissions(folder.path(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const std::string name = (folder / "f").string();
  CHECK_THROWS_WITH_AS(write_file(name, "new"), (name + ": cannot write: Permission denied").c_str(),
                       EnvironmentError);
  CHECK(contents(folder / "f") == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a device is written in place, and a full one is said to be full") {
  // Uses links in the test's own folder, so that a faulty write_file cannot replace other files.
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/null", folder / "null");
  std::filesystem::create_symlink("/dev/full", folder / "full");
  CHECK_NOTHROW(write_file(folder / "null", "x"));
  const std::string full = (folder / "full").string();
  CHECK_THROWS_WITH_AS(write_file(full, "x"), (full + ": cannot write: No space left on device").c_str(),
                       EnvironmentError);
  CHECK(std::filesystem::is_symlink(folder / "null"));
  CHECK(std::filesystem::is_symlink(folder / "full"));
  CHECK(folder.count() == 2);
}

std::string why_unreadable(const std::filesystem::path& file) {
  try {
    (void)read_file(file);
  } catch (const ReadError& error) {
    return error.what();
  }
  return "read";
}

TEST_CASE("files: where a device is full, no file that is written with it appears") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "full");
  CHECK_THROWS_AS(write_files({{folder / "a", "x"}, {folder / "full", "x"}, {folder / "b", "x"}}),
                  EnvironmentError);
  CHECK(folder.count() == 1);
}

TEST_CASE("files: what cannot be read is refused with the reason") {
  const TemporaryFolder folder;
  CHECK(why_unreadable(folder / "none") == "No such file or directory");
  CHECK(why_unreadable(folder.path()) == "Is a directory");
  CHECK(why_unreadable(folder.put("f", "x") / "g") == "Not a directory");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(why_unreadable(folder / "loop") == "Too many levels of symbolic links");
}

TEST_CASE("files: nothing but a regular file is read, and none is waited for") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(why_unreadable(folder / "pipe") == "a named pipe, not a regular file");
  std::filesystem::create_symlink("pipe", folder / "link");
  CHECK(why_unreadable(folder / "link") == "a named pipe, not a regular file");
  CHECK(why_unreadable("/dev/zero") == "a device, not a regular file");
  std::filesystem::create_symlink("/dev/zero", folder / "zero");
  CHECK(why_unreadable(folder / "zero") == "a device, not a regular file");
}

TEST_CASE("files: what a descriptor of this process leads to is read, a pipe too") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "text", 4) == 4);
  ::close(ends[1]);
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/fd/" + std::to_string(ends[0]), folder / "link");
  CHECK(why_unreadable(folder / "link") == "read");
  CHECK(read_file("/dev/fd/" + std::to_string(ends[0])).empty());  // it has been read
  ::close(ends[0]);
}

TEST_CASE("files: a path is not cut at a NUL") {
  const TemporaryFolder folder;
  const std::string file = folder.put("f", "x");
  CHECK(why_unreadable(file + std::string("\0g", 2)) == "a path with a NUL character");
}

TEST_CASE("files: what is larger than it may be is refused, whether the size is known or not") {
  const TemporaryFolder folder;
  constexpr std::size_t kMebi = 1U << 20U;
  const std::string text(kMebi, 'x');
  CHECK(read_file(folder.put("f", text), kMebi) == text);
  const std::filesystem::path larger = folder.put("g", text + 'x');
  CHECK_THROWS_WITH_AS(read_file(larger, kMebi), "a file of more than 1 MiB", ReadError);
  const int zero = ::open("/dev/zero", O_RDONLY);
  CHECK_THROWS_WITH_AS(read_file("/dev/fd/" + std::to_string(zero), kMebi), "a file of more than 1 MiB",
                       ReadError);
  ::close(zero);
}

// ---- writing while others write or kill

TEST_CASE("files: a file system without files that have no name is written to under another name") {
  const TemporaryFolder folder;
  folder.put("f", "older");
  {
    StagedFile staged(folder / "f", "newer", false);
    CHECK(folder.count() == 2);
    CHECK(contents(folder / "f") == "older");
    staged.rename();
    CHECK(contents(folder / "f") == "newer");
    CHECK(folder.count() == 1);
    const StagedFile given_up(folder / "f", "never", false);
    CHECK(folder.count() == 2);
  }
  CHECK(contents(folder / "f") == "newer");
  CHECK(folder.count() == 1);
  const mode_t before = ::umask(0027);
  StagedFile(folder / "g", "x", false).rename();
  ::umask(before);
  CHECK(mode_of(folder / "g") == 0640);
}

TEST_CASE("files: nothing is in the folder before the file has its name") {
  const TemporaryFolder folder;
  StagedFile staged(folder / "f", "x");
  CHECK(folder.count() == 0);
  staged.rename();
  CHECK(folder.count() == 1);
}

TEST_CASE("files: what a killed process may leave behind is taken away by the next one that writes") {
  const TemporaryFolder folder;
  folder.put("f", "older");
  folder.put(".f.fusewise", "of a process that was killed");
  write_file(folder / "f", "newer");
  CHECK(contents(folder / "f") == "newer");
  CHECK(folder.count() == 1);
}

TEST_CASE("files: a link that leads nowhere stays a link, and its target is made") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inner");
  std::filesystem::create_symlink("inner/target", folder / "link");
  write_file(folder / "link", "x");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(contents(folder / "inner" / "target") == "x");
}

/// Calls `run` in a process of its own, which never returns.
template <typename Run>
pid_t start(Run run) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  try {
    run();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

int ended(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

TEST_CASE("files: a file is complete and alone in its folder whenever its writer is killed") {
  const TemporaryFolder folder;
  write_file(folder / "f", std::string(100'000, 'a'));
  std::mt19937 bits(1);
  std::size_t left_between = 0;
  for (int kill = 0; kill < 60; ++kill) {
    CAPTURE(kill);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t writer = start([&] {
      for (char c = 'b';; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        if (::write(ends[1], &c, 1) != 1) return;
        write_file(folder / "f", std::string(100'000, c));
      }
    });
    char c = 0;
    for (int i = 0; i < 3; ++i) REQUIRE(::read(ends[0], &c, 1) == 1);  // it has written two times at least
    for (auto spin = bits() % 2'000'000; spin > 0; --spin) asm volatile("");
    ::kill(writer, SIGKILL);
    (void)ended(writer);
    ::close(ends[0]);
    ::close(ends[1]);
    const std::string text = contents(folder / "f");
    CHECK(text == std::string(100'000, text[0]));
    const bool has_between = std::filesystem::exists(folder / ".f.fusewise");
    left_between += has_between ? 1 : 0;
    CHECK(folder.count() == (has_between ? 2 : 1));
  }
  CHECK(left_between <= 6);  // the name is there for a moment only
  write_file(folder / "f", "the last one");
  CHECK(folder.count() == 1);
}

TEST_CASE("files: processes that write the same file take turns, and one of them is the last") {
  const TemporaryFolder folder;
  constexpr int kWriters = 4;
  std::vector<pid_t> writers;
  for (int writer = 0; writer < kWriters; ++writer)
    writers.push_back(start([&] {
      for (int i = 0; i < 100; ++i)
        write_file(folder / "f", std::string(10'000, static_cast<char>('a' + writer)));
    }));
  for (const pid_t writer : writers) CHECK(ended(writer) == 0);
  const std::string text = contents(folder / "f");
  CHECK(text == std::string(10'000, text[0]));
  CHECK(folder.count() == 1);
}

}  // namespace
}  // namespace core
