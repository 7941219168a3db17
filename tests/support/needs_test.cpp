// Tests whose requirements are missing are counted as skipped, and never pass silently.

#include "tests/support/needs.hpp"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/environment.hpp"

namespace {

constexpr const char* kVariable = "FUSEWISE_TEST_LACKS";

std::string lacked() { return std::getenv(kVariable) == nullptr ? "" : "it is lacked"; }

struct TestRun {
  int exit_code = -1;
  std::string printed;
};

/// Runs this test program with these arguments.
TestRun run_tests(const std::string& arguments) {
  const std::string command =
      std::filesystem::read_symlink("/proc/self/exe").string() + ' ' + arguments + " 2>&1";
  TestRun out;
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe))
    out.printed += static_cast<char>(byte);
  const int status = ::pclose(pipe);
  out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

bool says(const TestRun& run, const std::string& what) { return run.printed.find(what) != std::string::npos; }

TEST_CASE("needs: a test that has what it needs runs" * support::needs(lacked)) {
  CHECK(std::getenv(kVariable) == nullptr);
}

TEST_CASE(
    "needs: a test without what it needs is skipped with the reason, or fails where that is asked for") {
  const std::string one = "'--test-case=needs: a test that has what it needs runs'";
  const TestRun whole = run_tests(one);
  CHECK(whole.exit_code == 0);
  CHECK(says(whole, "test cases: 1 | 1 passed"));
  CHECK_FALSE(says(whole, "SKIPPED"));
  const support::Environment environment(kVariable, "1");
  const TestRun lacking = run_tests(one);
  CHECK(lacking.exit_code == 77);  // SKIP_RETURN_CODE in tests/CMakeLists.txt
  CHECK(says(lacking, "test cases: 0 | 0 passed"));
  CHECK(says(lacking, "\nSKIPPED: needs: a test that has what it needs runs: it is lacked\n"));
  CHECK(run_tests(one + " --fail-if-skipped").exit_code == 1);
}

TEST_CASE("needs: a run that selects no test fails") {
  const TestRun none = run_tests("'--test-case=no such test'");
  CHECK(none.exit_code == 1);
  CHECK(says(none, "no test has this name\n"));
}

}  // namespace
