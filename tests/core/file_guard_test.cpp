// No file is both an input and an output, and none is two outputs, however it is spelled.

#include "core/file_guard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace core {
namespace {

namespace fs = std::filesystem;

using support::contents;
using support::TemporaryFolder;

/// A folder with a file, "in", that other names lead to.
class Names {
 public:
  Names() {
    (void)folder_.put("in", "input");
    fs::create_directory(folder_ / "sub");
    fs::create_symlink("in", folder_ / "link");
    fs::create_symlink(folder_.path(), folder_ / "sub" / "up");
    fs::create_hard_link(folder_ / "in", folder_ / "hard");
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> all() const {
    return {at("in"),
            at("./in"),
            at("sub/../in"),
            at("link"),
            at("sub/up/in"),
            at("sub/up/link"),
            at("hard"),
            fs::relative(at("in")).string(),
            folder_.path().string() + "//in"};
  }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("file guard: an input is refused as an output under each of its names, read before or after") {
  const Names names;
  for (const std::string& name : names.all()) {
    CAPTURE(name);
    {
      const FileGuard guard;
      CHECK(read_file(names.at("in")) == "input");
      CHECK_THROWS_WITH_AS(add_output("--output", name),
                           ("--output: expected a file of its own, got the input " + names.at("in")).c_str(),
                           InputError);
      CHECK_THROWS_WITH_AS(write_file(name, "x"),
                           (name + ": expected a file of its own, got the input " + names.at("in")).c_str(),
                           InputError);
      CHECK_THROWS_AS(write_files({{names.at("other"), "x"}, {name, "x"}}), InputError);
      CHECK_FALSE(fs::exists(names.at("other")));
    }
    const FileGuard guard;
    add_output("--output", names.at("in"));
    CHECK_THROWS_WITH_AS(read_file(name),
                         ("--output: expected a file of its own, got the input " + name).c_str(), InputError);
  }
  CHECK(contents(names.at("in")) == "input");
}

TEST_CASE("file guard: two outputs are not the same file, whether it is there or not") {
  const Names names;
  fs::create_symlink("none", names.at("to-none"));
  fs::create_symlink(names.at("to-none"), names.at("to-to-none"));
  const std::vector<std::string> missing = {
      names.at("none"),        names.at("sub/../none"), names.at("to-none"),       names.at("to-to-none"),
      names.at("sub/up/none"), names.at("./none"),      names.at("sub/up/to-none")};
  for (const auto& spellings : {names.all(), missing})
    for (const std::string& name : spellings) {
      CAPTURE(name);
      const FileGuard guard;
      add_output("--output", spellings.front());
      CHECK_THROWS_WITH_AS(add_output("--plot", name),
                           "--plot: expected a file of its own, got the one of --output", InputError);
    }
}

TEST_CASE("file guard: different files are taken, and so are names in folders that are not there") {
  const Names names;
  const FileGuard guard;
  CHECK(read_file(names.at("in")) == "input");
  CHECK_NOTHROW(add_output("--output", names.at("out")));
  CHECK_NOTHROW(add_output("--plot", names.at("sub/out")));
  CHECK_NOTHROW(add_output("--timeline", names.at("none/out")));
  CHECK_NOTHROW(write_file(names.at("out"), "x"));
  CHECK_NOTHROW(write_file(names.at("out"), "y"));  // an output may be written more than once
}

TEST_CASE("file guard: devices and open files may be named more than once") {
  const Names names;
  const int file = ::open(names.at("in").c_str(), O_WRONLY | O_APPEND);
  const std::string open_file = "/dev/fd/" + std::to_string(file);
  const FileGuard guard;
  for (const std::string& name : {std::string("/dev/null"), std::string("/dev/stdout"), open_file}) {
    CAPTURE(name);
    CHECK_NOTHROW(add_output("--output", name));
    CHECK_NOTHROW(add_output("--plot", name));
  }
  CHECK_NOTHROW(write_files({{open_file, " a"}, {open_file, " b"}}));
  CHECK(contents(names.at("in")) == "input a b");
  ::close(file);
}

TEST_CASE("file guard: what is read by others counts, what the program keeps for itself does not") {
  const Names names;
  {
    const FileGuard guard;
    add_input(names.at("in"));
    CHECK_THROWS_AS(add_output("--output", names.at("link")), InputError);
  }
  const FileGuard guard;
  CHECK(read_own_file(names.at("in")) == "input");
  CHECK_NOTHROW(write_file(names.at("in"), "input again"));
}

TEST_CASE("file guard: without one, a file is read and written") {
  const Names names;
  CHECK(read_file(names.at("in")) == "input");
  CHECK_NOTHROW(add_output("--output", names.at("in")));
  CHECK_NOTHROW(write_file(names.at("in"), "x"));
}

}  // namespace
}  // namespace core
