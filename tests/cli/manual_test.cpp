// Manual pages and completions are made from the command line.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using support::run_program;

TEST_CASE("manual: every option of --help is on the page of its command, and in the completions") {
  const support::TemporaryFolder folder;
  REQUIRE(run_program({"manual", folder.path().string()}).exit_code == 0);
  const auto text = [&](const std::string& file) { return core::read_file(folder.path() / file); };
  const std::string page = text("man/man1/fusewise-sweep.1");
  CHECK(page.find(".TH fusewise-sweep 1") == 0);
  CHECK(page.find(".B \\-o,\\-\\-output VALUE\n") != std::string::npos);
  CHECK(page.find(".B \\-\\-resume\n") != std::string::npos);
  for (const char* file : {"bash-completion/completions/fusewise", "zsh/vendor-completions/_fusewise",
                           "fish/vendor_completions.d/fusewise.fish"}) {
    CAPTURE(file);
    for (const char* word : {"resume", "considers", "status", "doctor"})
      CHECK((text(file).find(word) != std::string::npos) == (std::string(word) != "considers"));
  }
}

TEST_CASE("manual: the command is for the build, and --help does not list it") {
  CHECK(run_program({"--help"}).out.find("manual") == std::string::npos);
}

}  // namespace
