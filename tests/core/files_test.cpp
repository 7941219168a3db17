// Files are written completely or not at all, and read completely.

#include "core/files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/temporary_folder.hpp"

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

TEST_CASE("files: what cannot be read is a system error") {
  const TemporaryFolder folder;
  const auto code = [](const std::filesystem::path& file) -> int {
    try {
      read_file(file);
    } catch (const std::system_error& error) {
      return error.code().value();
    }
    return 0;
  };
  CHECK(code(folder / "none") == ENOENT);
  CHECK(code(folder.path()) == EISDIR);
}

}  // namespace
}  // namespace core
